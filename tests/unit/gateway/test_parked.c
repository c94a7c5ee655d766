#include "world.h"

#include <errno.h>

static void test_who_leaves_while_parked_is_noticed_at_once(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_int_equal(world.end_count, 0);
	hang_up(caller);
	world_turn(&world);
	world_turn(&world);
	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	assert_false(world.ends[0].dispatched);
	assert_false(id_is_none(world.ends[0].ticket));
	assert_int_equal(tickets_open(world.tickets), 0);
	assert_int_equal(world.engine_requests, 0);
	world_end(&world);
}

static void test_who_leaves_in_a_stream_ends_the_engine_s_work(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, world.engine_requests == 1);
	engine_chunk(world.engines[0], "data: one\n\n");
	TURN_UNTIL(&world, has_heard(caller, "data: one"));
	hang_up(caller);
	TURN_UNTIL(&world, world.engines[0]->left);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	assert_true(world.ends[0].dispatched);
	world_end(&world);
}

static void test_an_engine_may_finish_for_a_client_that_left(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.models[0].on_disconnect_finish = true;
	world.engine = engine_streams;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
	hang_up(caller);
	for (int i = 0; i < 5; i++)
		world_turn(&world);
	assert_int_equal(world.end_count, 0);
	assert_false(world.engines[0]->left);
	engine_chunk(world.engines[0], "data: to nobody\n\n");
	engine_say(world.engines[0], "0\r\n\r\n");
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].fail, FAIL_NONE);
	assert_int_equal(world.ends[0].bytes_out, 17);
	world_end(&world);
}

static void test_a_thousand_wait_and_are_served(void **state)
{
	static struct world world;
	static struct caller *callers[1000];

	(void)state;
	world_begin(&world);
	world.hold = true;
	for (int i = 0; i < 1000; i++) {
		callers[i] = call_up(&world);
		post(callers[i], "/v1/chat/completions", CHAT("chat"));
	}
	TURN_UNTIL(&world, world.waiting_count == 1000);
	assert_int_equal(gateway_exchanges(world.gateway), 1000);
	while (world.waiting_count) { /* two at a time, as an engine with two slots would be given */
		uint32_t before = world.end_count;
		world_dispatch(&world, world.waiting[0]);
		world_dispatch(&world, world.waiting[0]);
		TURN_UNTIL(&world, world.end_count == before + 2);
	}
	for (int i = 0; i < 1000; i++) {
		TURN_UNTIL(&world, has_heard(callers[i], "{\"n\":"));
		hang_up(callers[i]);
	}
	assert_true(world.engine_count <= 4); /* connections to the engine were used again */
	world_end(&world);
}

static void test_early_headers_come_with_signs_of_life(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	world.models[0].early_headers_after_us = 20000;
	world.engine = engine_streams;
	struct caller *caller = call_up(&world), *plain = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	post(plain, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "40 %"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 200 OK\r\n"));
	assert_true(has_heard(caller, "Content-Type: text/event-stream"));
	assert_true(has_heard(caller, ": loading model 0, 40 %\n\n"));
	assert_int_equal(buf_length(&plain->got), 0); /* it waits for the true status */

	world.hold = false;
	TURN_UNTIL(&world, world.engine_requests == 2);
	for (uint32_t i = 0; i < world.engine_count; i++) {
		engine_chunk(world.engines[i], "data: late\n\n");
		engine_say(world.engines[i], "0\r\n\r\n");
	}
	TURN_UNTIL(&world, has_heard(caller, "\r\n0\r\n\r\n"));
	const char *times = strstr(heard(caller), ": X-Cotenant-Wait-Ms: ");
	assert_non_null(times);
	assert_non_null(strstr(times, "data: late"));
	assert_null(strstr(times, "HTTP/1.1")); /* one head, not two */
	hang_up(caller);
	hang_up(plain);
	world_end(&world);
}

static void reject(struct world *world, enum fail fail, int64_t retry_after_us)
{
	struct action action = {
		.type = ACTION_REJECT,
		.request = world->waiting[0],
		.fail = fail,
		.retry_after_us = retry_after_us,
		.decision = { .fail = fail, .reason = REASON_LIMIT, .need_bytes = INT64_C(5) << 30, .room_bytes = INT64_C(1) << 30,
		              .capacity_bytes = INT64_C(8) << 30 },
	};
	world->waiting[0] = world->waiting[--world->waiting_count];
	world_verdict(world, &action);
}

static void test_an_error_behind_early_headers_is_one_event_and_a_cut(void **state)
{
	struct world world;
	const char *const paths[] = { "/v1/chat/completions", "/v1/messages", "/api/chat" };
	char *routes[] = { OWN("POST /api/chat") };
	const char *const events[] = { "data: {\"error\":", "event: error\ndata: ", "{\"error\":" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		world_init(&world);
		world.hold = true;
		world.models[0].early_headers_after_us = 1000;
		if (i == 2) /* what llama-server does not know is no work by itself */
			world.models[0].routes_work = (struct conf_strings){ routes, 1 };
		world_open(&world);
		struct caller *caller = call_up(&world);
		post(caller, paths[i], CHAT_STREAM("chat"));
		TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
		reject(&world, FAIL_LOAD_FAILED, 0);
		TURN_UNTIL(&world, caller->left || caller->error);
		assert_true(has_heard(caller, events[i]));
		assert_true(has_heard(caller, "no such file"));
		assert_false(has_heard(caller, "\r\n0\r\n"));
		assert_int_equal(world.ends[0].fail, FAIL_LOAD_FAILED);
		assert_int_equal(world.ends[0].status, 200);
		hang_up(caller);
		world_end(&world);
	}
}

static void engine_refuses(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 400 Bad Request\r\nContent-Length: 13\r\n\r\nprompt is bad");
}

static void test_an_engine_s_error_behind_early_headers_is_an_event_too(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	world.models[0].early_headers_after_us = 1000;
	world.engine = engine_refuses;
	struct caller *early = call_up(&world);
	post(early, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(early, "\r\n\r\n"));
	world.hold = false;
	TURN_UNTIL(&world, early->left || early->error);
	assert_true(has_heard(early, "data: {\"error\":"));
	assert_true(has_heard(early, "prompt is bad"));
	assert_false(has_heard(early, "\r\n0\r\n"));

	/* In time, it is the engine's own answer. */
	world.models[0].early_headers_after_us = CONF_NEVER;
	struct caller *intime = call_up(&world);
	post(intime, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(intime, "prompt is bad"));
	assert_true(str_starts(str_from(heard(intime)), "HTTP/1.1 400 Bad Request\r\n"));
	assert_false(has_heard(intime, "error"));
	hang_up(early);
	hang_up(intime);
	world_end(&world);
}

static void test_a_rejection_tells_its_numbers_and_when_to_come_again(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1);
	reject(&world, FAIL_NO_ROOM, 2500000);
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 503 "));
	assert_true(has_heard(caller, "Retry-After: 3\r\n"));
	assert_true(has_heard(caller, "5.00 GiB") && has_heard(caller, "1.00 GiB"));
	assert_true(id_is_none(world.ends[0].ticket)); /* the arbiter knows */

	forget(caller);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1);
	reject(&world, FAIL_NEVER_FITS, 0);
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 507 "));
	assert_true(has_heard(caller, "x-should-retry: false\r\n"));
	assert_true(has_heard(caller, "at least 5.00 GiB, at most 1.00 GiB can be free under memory.limit"));
	assert_false(has_heard(caller, "Retry-After"));
	hang_up(caller);
	world_end(&world);
}

static void test_a_deadline_ends_the_wait(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	say(caller, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	            "X-Cotenant-Deadline: 1000\r\nContent-Length: 30\r\n\r\n" CHAT("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_true(world.specs[0].deadline_at_us < INT64_MAX);
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 504 "));
	assert_int_equal(world.ends[0].fail, FAIL_DEADLINE);
	assert_true(world.ends[0].ended_at_us - world.ends[0].arrived_at_us >= 1000000);
	hang_up(caller);
	world_end(&world);
}

static void test_an_operator_may_cancel(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_silent;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.engine_requests == 1);
	assert_false(gateway_cancel(world.gateway, 999));
	assert_true(gateway_cancel(world.gateway, 1));
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(has_heard(caller, "\"code\":\"cancelled\""));
	TURN_UNTIL(&world, world.engines[0]->left);
	assert_int_equal(world.ends[0].fail, FAIL_CANCELLED);
	hang_up(caller);
	world_end(&world);
}

static void test_the_arbiter_may_cancel_what_runs(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1 || world.engine_requests == 1);
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
	struct action cancel = { .type = ACTION_CANCEL, .request = { 0, 1 },
		                 .fail = FAIL_EMERGENCY };
	world_verdict(&world, &cancel);
	TURN_UNTIL(&world, caller->left || caller->error);
	assert_true(has_heard(caller, "\"code\":\"emergency\""));
	assert_false(has_heard(caller, "\r\n0\r\n"));
	assert_int_equal(world.ends[0].fail, FAIL_EMERGENCY);
	assert_false(id_is_none(world.ends[0].ticket)); /* the arbiter waits for the end */
	hang_up(caller);
	world_end(&world);
}

/* What is sent ahead is bounded, and a client behind it is still seen to leave. */
static void test_sending_ahead_is_bounded_and_leaving_is_seen(void **state)
{
	struct world world;
	static char ahead[40 * 1024];

	(void)state;
	memset(ahead, 'x', sizeof(ahead));
	world_begin(&world);
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.waiting_count == 1);
	for (int i = 0; i < 3; i++) { /* the first fills what we keep, the others stay in the kernel */
		say_bytes(caller, (struct str){ ahead, sizeof(ahead) });
		for (int turn = 0; turn < 5; turn++)
			world_turn(&world);
	}
	hang_up(caller);
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	world_end(&world);
}

static void test_drain_lets_running_answers_end(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *busy = call_up(&world), *idle = call_up(&world);
	post(busy, "/v1/chat/completions", CHAT_STREAM("chat"));
	say(idle, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(idle, "ours") && has_heard(busy, "\r\n\r\n"));
	gateway_drain(world.gateway);
	TURN_UNTIL(&world, idle->left);
	assert_false(busy->left);
	assert_int_equal(gateway_exchanges(world.gateway), 1);
	engine_say(world.engines[0], "0\r\n\r\n");
	TURN_UNTIL(&world, busy->left);
	assert_true(has_heard(busy, "0\r\n\r\n"));
	assert_int_equal(gateway_exchanges(world.gateway), 0);
	struct caller *late = call_up(&world); /* whoever comes now is answered, and its connection ends */
	say(late, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(late, "ours") && late->left);
	gateway_close_door(world.gateway);
	assert_int_equal(gateway_port(world.gateway), 0);
	struct caller *operator = call_up_unix(&world);
	say(operator, "GET /api/v1/models HTTP/1.1\r\n\r\n");
	TURN_UNTIL(&world, has_heard(operator, "ours"));
	assert_true(has_heard(operator, "Connection: close"));
	hang_up(operator);
	hang_up(late);
	hang_up(busy);
	hang_up(idle);
	world_end(&world);
}

static void test_the_gateway_may_end_with_everything_under_way(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *running = call_up(&world), *waiting = call_up(&world);
	struct caller *reading = call_up(&world), *idle = call_up(&world);
	post(running, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(running, "\r\n\r\n"));
	world.hold = true;
	post(waiting, "/v1/chat/completions", CHAT("chat"));
	say(reading, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
	             "Content-Length: 30\r\n\r\n{");
	say(idle, "GET /heal");
	TURN_UNTIL(&world, gateway_exchanges(world.gateway) == 3);
	hang_up(running);
	hang_up(waiting);
	hang_up(reading);
	hang_up(idle);
	world_end(&world); /* checks that no ticket and no connection is left */
	assert_int_equal(world.end_count, 3);
}

/* An engine that does not even count a prompt in time gets the request, whose deadline holds all the same. */
static void test_a_deadline_holds_where_an_engine_does_not_count(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.elastic = true;
	world.engine = engine_silent;
	world_open(&world);
	struct caller *caller = call_up(&world);
	say(caller, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	            "X-Cotenant-Deadline: 6000\r\nContent-Length: 30\r\n\r\n" CHAT("chat"));
	TURN_UNTIL(&world, world.engine_requests == 1);
	assert_true(str_starts(buf_str(&world.last_request), "POST /v1/chat/completions/input_tokens "));
	TURN_UNTIL(&world, world.engine_requests == 2); /* five seconds later */
	assert_true(str_starts(buf_str(&world.last_request), "POST /v1/chat/completions HTTP"));
	TURN_UNTIL(&world, has_heard(caller, "HTTP/1.1 504 "));
	hang_up(caller);
	world_end(&world);
}

static void engine_counts_tokens(struct engine_side *side, struct str request)
{
	bool asks = str_starts(request, "POST /v1/chat/completions/input_tokens ");

	engine_answer(side, asks ? "{\"input_tokens\":7}" : "{\"n\":1}");
}

/* What it claims is asked for with the number that its engine counted. */
static void test_a_prompt_is_counted_before_room_is_asked_for(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.counts_first = true;
	world.loaded[0] = false;
	world.engine = engine_counts_tokens;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat")); /* its engine is not there: nobody counts */
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_int_equal(world.engine_requests, 1);
	assert_int_equal(world.last_prompt_tokens, -1);
	world.loaded[0] = true;
	forget(caller);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_int_equal(world.engine_requests, 3);
	assert_int_equal(world.last_prompt_tokens, 7);
	forget(caller);
	post(caller, "/v1/embeddings", "{\"model\":\"chat\",\"input\":\"x\"}"); /* nobody can count that */
	TURN_UNTIL(&world, world.engine_requests == 4);
	hang_up(caller);
	world_end(&world);
}

static void engine_tokenises(struct engine_side *side, struct str request)
{
	bool asks = str_starts(request, "POST /tokenize ");

	engine_answer(side, asks ? "{\"tokens\":[10,2,\n331]}" : "{\"n\":1}");
}

/* Where no path counts the body itself, its texts are tokenised; tokens are counted as they are. */
static void test_texts_are_counted_where_the_body_cannot_be(void **state)
{
	static const struct {
		const char *path, *body, *content;
		int64_t tokens;
	} rows[] = {
		{ "/completion", "{\"prompt\":\"a \\u00e4\",\"model\":\"chat\"}", "[\"a \\u00e4\"]", 3 },
		{ "/completions", "{\"model\":\"chat\",\"prompt\":[\"a\",7]}", "[\"a\",7]", 3 + 1 },
		{ "/v1/completions", "{\"model\":\"chat\",\"prompt\":[\"a\",\"b\"]}", "[\"a\",\"b\"]", 3 + 2 },
		{ "/infill", "{\"model\":\"chat\",\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"input_extra\":[]}",
		  "[\"p\",\"s\"]", 3 + 16 + 2 },
		{ "/v1/completions", "{\"model\":\"chat\",\"prompt\":[[7,8],[9,10]]}", NULL, 4 },
		{ "/v1/completions", "{\"model\":\"chat\",\"prompt\":[[7,\"a\"],\"b\"]}", NULL, -1 },
	};
	struct world world;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		world_begin(&world);
		world.counts_first = true;
		world.loaded[0] = true;
		world.engine = engine_tokenises;
		struct caller *caller = call_up(&world);
		post(caller, rows[i].path, rows[i].body);
		if (rows[i].content) {
			TURN_UNTIL(&world, world.engine_requests == 1);
			assert_non_null(strstr(buf_cstr(&world.last_request), rows[i].content));
			assert_non_null(strstr(buf_cstr(&world.last_request), "\"add_special\":true"));
			bool parses = strcmp(rows[i].path, "/infill") != 0;
			assert_non_null(strstr(buf_cstr(&world.last_request), parses ? "\"parse_special\":true"
			                                                            : "\"parse_special\":false"));
		}
		TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
		assert_int_equal(world.engine_requests, rows[i].content ? 2 : 1);
		assert_non_null(strstr(buf_cstr(&world.last_request), rows[i].body)); /* untouched */
		assert_int_equal(world.last_prompt_tokens, rows[i].tokens);
		hang_up(caller);
		world_end(&world);
	}
}

/* Nobody holds a ticket yet, so nobody is told of a request that began to wait. */
static void test_who_leaves_while_it_is_counted_is_gone(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.counts_first = true;
	world.loaded[0] = true;
	world.models[0].on_disconnect_finish = true;
	world.engine = engine_silent;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.engine_requests == 1);
	hang_up(caller);
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].fail, FAIL_CLIENT_GONE);
	assert_int_equal(world.requests, 0);
	world_end(&world);
}

/* An engine that does not answer that is asked for room as before, with what bytes tell. */
static void test_who_counts_too_long_is_not_awaited(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.counts_first = true;
	world.loaded[0] = true;
	world.engine = engine_silent;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, world.engine_requests == 1);
	assert_int_equal(world.requests, 0);
	TURN_UNTIL(&world, world.engine_requests == 2); /* five seconds later */
	assert_int_equal(world.last_prompt_tokens, -1);
	assert_true(str_starts(buf_str(&world.last_request), "POST /v1/chat/completions HTTP"));
	hang_up(caller);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_leaves_while_parked_is_noticed_at_once),
		cmocka_unit_test(test_who_leaves_in_a_stream_ends_the_engine_s_work),
		cmocka_unit_test(test_an_engine_may_finish_for_a_client_that_left),
		cmocka_unit_test(test_a_thousand_wait_and_are_served),
		cmocka_unit_test(test_early_headers_come_with_signs_of_life),
		cmocka_unit_test(test_an_error_behind_early_headers_is_one_event_and_a_cut),
		cmocka_unit_test(test_an_engine_s_error_behind_early_headers_is_an_event_too),
		cmocka_unit_test(test_a_rejection_tells_its_numbers_and_when_to_come_again),
		cmocka_unit_test(test_a_deadline_ends_the_wait),
		cmocka_unit_test(test_an_operator_may_cancel),
		cmocka_unit_test(test_the_arbiter_may_cancel_what_runs),
		cmocka_unit_test(test_sending_ahead_is_bounded_and_leaving_is_seen),
		cmocka_unit_test(test_drain_lets_running_answers_end),
		cmocka_unit_test(test_the_gateway_may_end_with_everything_under_way),
		cmocka_unit_test(test_a_deadline_holds_where_an_engine_does_not_count),
		cmocka_unit_test(test_a_prompt_is_counted_before_room_is_asked_for),
		cmocka_unit_test(test_texts_are_counted_where_the_body_cannot_be),
		cmocka_unit_test(test_who_leaves_while_it_is_counted_is_gone),
		cmocka_unit_test(test_who_counts_too_long_is_not_awaited),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
