#include "pair.h"

#include <errno.h>

#include "base/alloc.h"

static void say(struct end *end, const char *text)
{
	struct str part = str_from(text);
	stream_write(end->stream, &part, 1);
}

static void bytes_pass_both_ways(struct pair *pair)
{
	say(&pair->near, "hello, "); /* before the connection stands */
	say(&pair->near, "there");
	RUN_UNTIL(&pair->loop, buf_length(&pair->far.got) == 12);
	assert_memory_equal(buf_str(&pair->far.got).data, "hello, there", 12);

	struct str parts[3] = { STR("a"), STR(""), STR("bc") };
	stream_write(pair->far.stream, parts, 3);
	assert_int_equal(stream_pending(pair->far.stream), 0);
	RUN_UNTIL(&pair->loop, buf_length(&pair->near.got) == 3);
	assert_memory_equal(buf_str(&pair->near.got).data, "abc", 3);
}

static void test_tcp_carries_bytes(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	bytes_pass_both_ways(&pair);
	assert_false(pair.peer.unix_socket);
	assert_true(pair.peer.loopback);
	pair_free(&pair);
}

static void test_unix_carries_bytes_and_names_the_peer(void **state)
{
	struct pair pair;

	(void)state;
	pair_unix(&pair);
	bytes_pass_both_ways(&pair);
	assert_true(pair.peer.unix_socket);
	assert_int_equal(pair.peer.uid, getuid());
	assert_int_equal(pair.peer.pid, getpid());
	assert_true(peer_in_group(pair.far.stream, getgid()));
	assert_false(peer_in_group(pair.far.stream, (gid_t)987654));
	pair_free(&pair);
}

/* A reader that does not read: what it does not take is kept, and told when it was taken. */
static void test_what_is_not_taken_is_kept_until_it_is(void **state)
{
	struct pair pair;
	enum { BYTES = 8 * 1024 * 1024 };
	char *big = xmalloc(BYTES);

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		big[i] = (char)(i * 31 >> 7);
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	stream_pause(pair.far.stream);
	struct str part = { big, BYTES };
	stream_write(pair.near.stream, &part, 1);
	say(&pair.near, "tail");
	assert_true(stream_pending(pair.near.stream) > 0);
	assert_int_equal(pair.near.drains, 0);

	stream_resume(pair.far.stream);
	RUN_UNTIL(&pair.loop, buf_length(&pair.far.got) == BYTES + 4);
	assert_memory_equal(buf_str(&pair.far.got).data, big, BYTES);
	assert_memory_equal(buf_str(&pair.far.got).data + BYTES, "tail", 4);
	assert_int_equal(pair.near.drains, 1);
	assert_int_equal(stream_pending(pair.near.stream), 0);
	pair_free(&pair);
	free(big);
}

static void test_a_peer_that_leaves_is_told_once(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	say(&pair.near, "x");
	RUN_UNTIL(&pair.loop, pair.far.reads == 1);
	stream_close(pair.near.stream);
	pair.near.stream = NULL;
	RUN_UNTIL(&pair.loop, pair.far.ended);
	assert_int_equal(pair.far.error, 0);
	pair_free(&pair);
}

/* While reading is paused only the kernel knows that the peer left. */
static void test_leaving_is_seen_behind_unread_bytes(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	stream_pause(pair.far.stream);
	say(&pair.near, "unread");
	uv_run(&pair.loop, UV_RUN_NOWAIT);
	assert_false(stream_peer_left(pair.far.stream));
	stream_close(pair.near.stream);
	pair.near.stream = NULL;
	RUN_UNTIL(&pair.loop, stream_peer_left(pair.far.stream));
	assert_false(pair.far.ended);
	pair_free(&pair);
}

static void test_nobody_there_is_told_later_and_never_inside_a_call(void **state)
{
	struct pair pair;
	struct end lost = { 0 };

	(void)state;
	pair_tcp(&pair);
	lost.stream = stream_dial_unix(pair.reactor, "/tmp/no/such/socket");
	stream_attend(lost.stream, &end_events, &lost);
	say(&lost, "into the void");
	stream_alarm(lost.stream, 4000);
	assert_int_equal(lost.error, 0);
	RUN_UNTIL(&pair.loop, lost.error);
	assert_int_equal(lost.error, -ENOENT);
	stream_close(lost.stream);
	buf_release(&lost.got);
	pair_free(&pair);
}

static void test_writing_to_who_has_left_breaks_later(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	stream_pause(pair.far.stream);
	stream_cut(pair.near.stream); /* resets */
	pair.near.stream = NULL;
	RUN_UNTIL(&pair.loop, pair.reactor->streams == 1);
	say(&pair.far, "anybody there?");
	assert_int_equal(pair.far.error, 0);
	RUN_UNTIL(&pair.loop, pair.far.error);
	pair_free(&pair);
}

static void test_finish_sends_all_and_then_the_end(void **state)
{
	struct pair pair;
	enum { BYTES = 6 * 1024 * 1024 };
	char *big = xcalloc(1, BYTES);
	struct str part = { big, BYTES };

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	say(&pair.far, "bytes that nobody reads");
	stream_pause(pair.near.stream);
	stream_write(pair.near.stream, &part, 1);
	stream_finish(pair.near.stream);
	pair.near.stream = NULL;
	RUN_UNTIL(&pair.loop, pair.far.ended);
	assert_int_equal(pair.far.error, 0);
	assert_int_equal(buf_length(&pair.far.got), BYTES);
	pair_free(&pair);
	free(big);
}

static void test_cut_is_seen_as_a_failure_behind_the_last_bytes(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	say(&pair.near, "last words");
	stream_cut(pair.near.stream);
	pair.near.stream = NULL;
	RUN_UNTIL(&pair.loop, pair.far.error || pair.far.ended);
	assert_int_equal(pair.far.error, -ECONNRESET);
	assert_int_equal(buf_length(&pair.far.got), 10);
	pair_free(&pair);
}

static void test_alarm_comes_once_and_can_be_taken_back(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	stream_alarm(pair.far.stream, 1);
	stream_alarm_off(pair.far.stream);
	stream_alarm(pair.near.stream, 1000);
	stream_alarm(pair.near.stream, 2);
	RUN_UNTIL(&pair.loop, pair.near.alarms == 1);
	assert_int_equal(pair.far.alarms, 0);
	pair_free(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp_carries_bytes),
		cmocka_unit_test(test_unix_carries_bytes_and_names_the_peer),
		cmocka_unit_test(test_what_is_not_taken_is_kept_until_it_is),
		cmocka_unit_test(test_a_peer_that_leaves_is_told_once),
		cmocka_unit_test(test_leaving_is_seen_behind_unread_bytes),
		cmocka_unit_test(test_nobody_there_is_told_later_and_never_inside_a_call),
		cmocka_unit_test(test_writing_to_who_has_left_breaks_later),
		cmocka_unit_test(test_finish_sends_all_and_then_the_end),
		cmocka_unit_test(test_cut_is_seen_as_a_failure_behind_the_last_bytes),
		cmocka_unit_test(test_alarm_comes_once_and_can_be_taken_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
