#include "pair.h"

#include <errno.h>
#include <sys/stat.h>

static void test_a_socket_in_use_is_not_taken_over(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct err err = { 0 };

	(void)state;
	pair_unix(&pair);
	assert_null(listener_unix(pair.reactor, pair.path, 0600, (gid_t)-1, &events, &err));
	assert_int_equal(err.code, -EADDRINUSE);
	assert_int_equal(access(pair.path, F_OK), 0);
	pair_free(&pair);
}

static void test_a_stale_socket_file_is_replaced(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct stat before, after;
	struct err err;

	(void)state;
	pair_init(&pair);
	snprintf(pair.path, sizeof(pair.path), "/tmp/cotenant-stale-%d.sock", (int)getpid());
	FILE *stale = fopen(pair.path, "w");
	assert_non_null(stale);
	assert_int_equal(fstat(fileno(stale), &before), 0);
	fclose(stale);
	pair.listener = listener_unix(pair.reactor, pair.path, 0660, (gid_t)-1, &events, &err);
	assert_non_null(pair.listener);
	assert_int_equal(stat(pair.path, &after), 0);
	assert_true(S_ISSOCK(after.st_mode));
	assert_int_equal(after.st_mode & 0777, 0660);
	pair_free(&pair);
	assert_int_equal(access(pair.path, F_OK), -1);
}

static void test_a_bad_address_is_named(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct err err = { 0 };

	(void)state;
	pair_tcp(&pair);
	assert_null(listener_tcp(pair.reactor, "localhost", 0, &events, &err));
	assert_non_null(strstr(err.text, "localhost"));
	uint16_t taken = listener_port(pair.listener);
	assert_null(listener_tcp(pair.reactor, "127.0.0.1", taken, &events, &err));
	assert_int_equal(err.code, -EADDRINUSE);
	pair_free(&pair);
}

static void test_paused_connections_wait_and_are_taken_later(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	listener_pause(pair.listener);
	RUN_UNTIL(&pair.loop, stream_connected(pair.near.stream));
	for (int i = 0; i < 5; i++)
		uv_run(&pair.loop, UV_RUN_NOWAIT);
	assert_null(pair.far.stream);
	listener_resume(pair.listener);
	RUN_UNTIL(&pair.loop, pair.far.stream);
	pair_free(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_socket_in_use_is_not_taken_over),
		cmocka_unit_test(test_a_stale_socket_file_is_replaced),
		cmocka_unit_test(test_a_bad_address_is_named),
		cmocka_unit_test(test_paused_connections_wait_and_are_taken_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
