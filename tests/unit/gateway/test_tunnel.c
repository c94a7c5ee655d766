#include "world.h"

#define UPGRADE(path) \
	"GET " path " HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
	"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\nSec-WebSocket-Version: 13\r\n"
#define SWITCHING \
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
	"Sec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n\r\n"

static void engine_switches(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, SWITCHING "\x81\x05hello");
}

static struct caller *open_tunnel(struct world *world)
{
	struct caller *caller = call_up(world);

	world->engine = engine_switches;
	say(caller, UPGRADE("/upstream/chat/ws?x=1") "\r\n");
	TURN_UNTIL(world, has_heard(caller, "\x81\x05hello"));
	return caller;
}

static void test_bytes_go_both_ways_until_one_ends(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = open_tunnel(&world);
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 101 "));
	assert_true(has_heard(caller, "Upgrade: websocket\r\n"));
	assert_true(has_heard(caller, "Sec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n"));
	assert_false(has_heard(caller, "Transfer-Encoding"));
	const char *sent = buf_cstr(&world.last_request);
	assert_true(str_starts(str_from(sent), "GET /ws?x=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(sent, "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
	assert_non_null(strstr(sent, "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n"));

	struct engine_side *engine = world.engines[0];
	say(caller, "\x82\x01" "a");
	TURN_UNTIL(&world, buf_length(&engine->in) == 3);
	engine_say(engine, "\x82\x01" "b");
	TURN_UNTIL(&world, has_heard(caller, "hello\x82\x01" "b"));
	assert_int_equal(world.end_count, 0); /* it runs as long as it is open */
	engine_cut(engine);
	TURN_UNTIL(&world, caller->left);
	assert_int_equal(caller->error, 0);
	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].fail, FAIL_NONE);
	assert_int_equal(world.ends[0].status, 101);
	assert_true(world.ends[0].dispatched);
	hang_up(caller);
	world_end(&world);
}

static void test_the_client_s_last_words_reach_the_engine(void **state)
{
	struct world world;
	struct buf much = BUF_INIT;

	(void)state;
	world_begin(&world);
	struct caller *caller = open_tunnel(&world);
	memset(buf_reserve(&much, 300000), 'w', 300000);
	buf_commit(&much, 300000);
	say_bytes(caller, buf_str(&much));
	TURN_UNTIL(&world, buf_length(&world.engines[0]->in) == 300000);
	say(caller, "\x88\x00");
	for (int i = 0; i < 3; i++)
		world_turn(&world);
	hang_up(caller);
	TURN_UNTIL(&world, world.engines[0]->left);
	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	buf_release(&much);
	world_end(&world);
}

/* An engine that reads nothing stops the client; nothing is heaped up here. */
static void test_a_slow_side_stops_the_other(void **state)
{
	struct world world;
	struct buf much = BUF_INIT;
	enum { BYTES = 16 << 20 };

	(void)state;
	world_begin(&world);
	struct caller *caller = open_tunnel(&world);
	stream_pause(world.engines[0]->stream);
	memset(buf_reserve(&much, BYTES), 'w', BYTES);
	buf_commit(&much, BYTES);
	say_bytes(caller, buf_str(&much));
	for (int i = 0; i < 100; i++)
		world_turn(&world);
	assert_true(stream_pending(caller->stream) > BYTES / 2);
	stream_resume(world.engines[0]->stream);
	TURN_UNTIL(&world, buf_length(&world.engines[0]->in) == BYTES);
	hang_up(caller);
	TURN_UNTIL(&world, world.end_count == 1);
	buf_release(&much);
	world_end(&world);
}

/* What is said before the engine agreed is kept for it. */
static void test_words_sent_ahead_come_first(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	world.engine = engine_switches;
	say(caller, UPGRADE("/upstream/chat/ws") "\r\nfirst ");
	TURN_UNTIL(&world, world.waiting_count == 1);
	world.hold = false;
	TURN_UNTIL(&world, has_heard(caller, "hello"));
	say(caller, "second");
	TURN_UNTIL(&world, buf_length(&world.engines[0]->in) == 12);
	assert_string_equal(buf_cstr(&world.engines[0]->in), "first second");
	hang_up(caller);
	TURN_UNTIL(&world, world.end_count == 1);
	world_end(&world);
}

static void engine_refuses(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
}

static void test_an_engine_may_refuse(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_refuses;
	struct caller *caller = call_up(&world);
	say(caller, UPGRADE("/upstream/chat/ws") "\r\n");
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\nno"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 426 "));
	assert_int_equal(world.ends[0].status, 426);
	world.engine = engine_counts;
	forget(caller);
	post(caller, "/v1/chat/completions", CHAT("chat")); /* the connection is HTTP still */
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":2}"));
	hang_up(caller);
	world_end(&world);
}

static void test_a_switch_that_nobody_asked_for_is_no_answer(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_switches;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "engine_died"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 502 "));
	hang_up(caller);
	world_end(&world);
}

/* A page of elsewhere may not open what it could not POST to. */
static void test_a_foreign_page_opens_no_tunnel(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	say(caller, UPGRADE("/upstream/chat/ws") "Origin: https://evil.example\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n{"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 403 "));
	assert_int_equal(world.engine_requests, 0);
	hang_up(caller);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_go_both_ways_until_one_ends),
		cmocka_unit_test(test_the_client_s_last_words_reach_the_engine),
		cmocka_unit_test(test_a_slow_side_stops_the_other),
		cmocka_unit_test(test_words_sent_ahead_come_first),
		cmocka_unit_test(test_an_engine_may_refuse),
		cmocka_unit_test(test_a_switch_that_nobody_asked_for_is_no_answer),
		cmocka_unit_test(test_a_foreign_page_opens_no_tunnel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
