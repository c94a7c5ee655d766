#include "world.h"

#include <errno.h>

static void test_a_request_goes_to_the_engine_and_back(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions?x=1", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 200 OK\r\n"));
	assert_true(has_heard(caller, "Server: fake\r\n"));
	assert_true(has_heard(caller, "Content-Length: 7\r\n"));
	assert_true(has_heard(caller, "X-Cotenant-Request-Id: 0badcafe-1\r\n"));
	assert_true(has_heard(caller, "X-Cotenant-Wait-Ms: "));
	assert_true(has_heard(caller, "X-Cotenant-Load-Ms: 7\r\n"));
	assert_true(has_heard(caller, "X-Cotenant-Decision: 0badcafe-1001\r\n"));
	/* Who may read the answer is for us to say, not for the engine. */
	assert_false(has_heard(caller, "Access-Control"));

	const char *sent = buf_cstr(&world.last_request);
	assert_true(str_starts(str_from(sent), "POST /v1/chat/completions?x=1 HTTP/1.1\r\n"));
	assert_non_null(strstr(sent, "Authorization: Bearer engine-key\r\n"));
	assert_null(strstr(sent, "of-the-client"));
	assert_non_null(strstr(sent, "\r\n\r\n" CHAT("chat")));

	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].fail, FAIL_NONE);
	assert_int_equal(world.ends[0].status, 200);
	assert_int_equal(world.ends[0].model, 0);
	assert_int_equal(world.ends[0].bytes_out, 7);
	assert_true(world.ends[0].dispatched);
	hang_up(caller);
	world_end(&world);
}

/* One connection, three models, one after the other and sent ahead: each goes where it names. */
static void test_a_kept_connection_may_change_its_model(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	post(caller, "/v1/chat/completions", CHAT("other"));
	post(caller, "/v1/chat/completions", CHAT("small"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":3}"));
	assert_int_equal(world.ends[0].model, 0);
	assert_int_equal(world.ends[1].model, 2);
	assert_int_equal(world.ends[2].model, 1);
	const char *first = strstr(heard(caller), "{\"n\":1}");
	assert_non_null(first);
	assert_non_null(strstr(first, "{\"n\":2}"));
	assert_int_equal(gateway_counters(world.gateway)->connections, 1);
	hang_up(caller);
	world_end(&world);
}

static void test_the_connection_to_an_engine_is_used_again(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *a = call_up(&world), *b = call_up(&world);
	for (int i = 0; i < 5; i++) {
		forget(a);
		post(a, "/v1/chat/completions", CHAT("chat"));
		TURN_UNTIL(&world, has_heard(a, "{\"n\":"));
	}
	post(b, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(b, "{\"n\":6}"));
	assert_int_equal(world.engine_count, 1);
	post(b, "/v1/chat/completions", CHAT("small")); /* another engine: another connection */
	TURN_UNTIL(&world, has_heard(b, "{\"n\":7}"));
	assert_int_equal(world.engine_count, 2);

	gateway_forget_instance(world.gateway, (struct id){ 0, 1 });
	TURN_UNTIL(&world, world.engines[0]->left);
	assert_false(world.engines[1]->left);
	hang_up(a);
	hang_up(b);
	world_end(&world);
}

/* A kept connection that the engine has closed meanwhile costs the client nothing. */
static void engine_answers_and_leaves(struct engine_side *side, struct str request)
{
	engine_counts(side, request);
	engine_cut(side);
}

static void test_a_stale_connection_is_tried_anew(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	/* Closed in the very turn in which the next request goes out. */
	engine_cut(world.engines[0]);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":2}"));
	assert_int_equal(world.ends[1].fail, FAIL_NONE);
	hang_up(caller);
	world_end(&world);
}

static void test_an_answer_survives_the_close_behind_it(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_answers_and_leaves;
	struct caller *caller = call_up(&world);
	for (int i = 0; i < 3; i++) {
		forget(caller);
		post(caller, "/v1/chat/completions", CHAT("chat"));
		TURN_UNTIL(&world, has_heard(caller, "{\"n\":"));
	}
	assert_int_equal(world.end_count, 3);
	hang_up(caller);
	world_end(&world);
}

static void test_a_stream_passes_chunk_by_chunk(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n")); /* the head, before any event */
	assert_true(has_heard(caller, "Transfer-Encoding: chunked\r\n"));
	assert_true(has_heard(caller, "text/event-stream"));
	struct engine_side *side = world.engines[0];
	engine_chunk(side, "data: one\n\n");
	TURN_UNTIL(&world, has_heard(caller, "b\r\ndata: one\n\n\r\n"));
	engine_chunk(side, "data: two\n\n");
	TURN_UNTIL(&world, has_heard(caller, "data: two\n\n\r\n"));
	assert_int_equal(world.end_count, 0);
	engine_chunk(side, "data: {\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":5}}\n\n");
	engine_say(side, "0\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, "\r\n0\r\n\r\n"));
	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].tokens_in, 11);
	assert_int_equal(world.ends[0].tokens_out, 5);
	assert_false(caller->left);
	hang_up(caller);
	world_end(&world);
}

/* What came broken may never look whole. */
static void test_an_engine_that_dies_in_a_stream_is_seen(void **state)
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
	engine_cut(world.engines[0]);
	TURN_UNTIL(&world, caller->left || caller->error);
	assert_true(has_heard(caller, "engine_died"));
	assert_true(has_heard(caller, "broke off its answer"));
	assert_int_equal(caller->error, -ECONNRESET); /* also for clients that miss a last chunk */
	assert_false(has_heard(caller, "\r\n0\r\n"));
	assert_false(has_heard(caller, "[DONE]"));
	assert_int_equal(world.ends[0].fail, FAIL_ENGINE_DIED);

	/* and the next one works */
	struct caller *next = call_up(&world);
	world.engine = engine_counts;
	post(next, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(next, "{\"n\":2}"));
	hang_up(next);
	hang_up(caller);
	world_end(&world);
}

static void engine_answers_half(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	engine_cut(side);
}

static void test_a_body_that_breaks_off_stays_short(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_answers_half;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, caller->left || caller->error);
	assert_true(has_heard(caller, "Content-Length: 10\r\n"));
	assert_true(str_ends(str_from(heard(caller)), "half"));
	assert_int_equal(world.ends[0].fail, FAIL_ENGINE_DIED);
	hang_up(caller);
	world_end(&world);
}

static void engine_hangs_up(struct engine_side *side, struct str request)
{
	(void)request;
	engine_cut(side);
}

static void test_no_answer_at_all_is_502_after_one_more_try(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_hangs_up;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 502 "));
	assert_true(has_heard(caller, "\"code\":\"engine_died\""));
	assert_int_equal(world.engine_requests, 2);
	hang_up(caller);
	world_end(&world);
}

static void test_a_request_that_found_nobody_is_asked_for_again(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_counts;
	world.engine_away = true;
	world.engine_back_after = 1;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_int_equal(world.returns, 1);
	assert_int_equal(world.requests, 2);
	assert_int_equal(world.end_count, 1);
	assert_int_equal(world.ends[0].fail, FAIL_NONE);
	hang_up(caller);
	world_end(&world);
}

static void test_a_request_comes_back_only_once(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine_away = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "could not be reached"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 502 "));
	assert_int_equal(world.returns, 1);
	assert_int_equal(world.end_count, 1);
	hang_up(caller);
	world_end(&world);
}

/* It was with the engine, which may have died of it: it is not given to the next one. */
static void engine_dies_of_it(struct engine_side *side, struct str request)
{
	(void)request;
	side->world->engine_away = true;
	listener_close(side->world->engine_listener);
	side->world->engine_listener = NULL;
	engine_cut(side);
}

static void test_what_killed_an_engine_is_not_given_to_the_next(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_dies_of_it;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(has_heard(caller, "\"code\":\"engine_died\""));
	assert_int_equal(world.returns, 0);
	assert_int_equal(world.engine_requests, 1);
	hang_up(caller);
	world_end(&world);
}

/* HTTP/1.0 knows no chunks: the end of the connection is the end, so a broken one is a reset. */
static void test_an_old_client_sees_the_difference_too(void **state)
{
	struct world world;
	const char *request = "POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\n"
	                      "Content-Length: 44\r\n\r\n" CHAT_STREAM("chat");

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *whole = call_up(&world), *broken = call_up(&world);
	say(whole, request);
	say(broken, request);
	TURN_UNTIL(&world, world.engine_requests == 2);
	engine_chunk(world.engines[0], "data: one\n\n");
	engine_chunk(world.engines[1], "data: one\n\n");
	TURN_UNTIL(&world, has_heard(whole, "data: one") && has_heard(broken, "data: one"));
	assert_false(has_heard(whole, "chunked"));
	assert_true(str_ends(str_from(heard(whole)), "\r\n\r\ndata: one\n\n"));
	engine_say(world.engines[0], "0\r\n\r\n");
	engine_cut(world.engines[1]);
	TURN_UNTIL(&world, (whole->left || whole->error) && (broken->left || broken->error));
	assert_int_equal(whole->error + broken->error, -ECONNRESET);
	hang_up(whole);
	hang_up(broken);
	world_end(&world);
}

/* Nobody's slowness may cost memory: the engine is made to wait. */
static void test_a_slow_reader_slows_its_engine(void **state)
{
	struct world world;
	enum { PIECE = 256 * 1024, PIECES = 128 };
	struct buf piece = BUF_INIT;

	(void)state;
	world_begin(&world);
	world.engine = engine_streams;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT_STREAM("chat"));
	TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n"));
	forget(caller);
	stream_pause(caller->stream);
	struct engine_side *side = world.engines[0];
	buf_printf(&piece, "%x\r\n", PIECE);
	memset(buf_reserve(&piece, PIECE), 'x', PIECE);
	buf_commit(&piece, PIECE);
	buf_append_str(&piece, STR("\r\n"));
	for (int i = 0; i < PIECES; i++) {
		struct str part = buf_str(&piece);
		stream_write(side->stream, &part, 1);
	}
	size_t before;
	do { /* until nothing moves any more */
		before = stream_pending(side->stream);
		for (int i = 0; i < 20; i++)
			world_turn(&world);
	} while (stream_pending(side->stream) != before);
	/* What was taken lies in kernel buffers, and at most one read of it with us. */
	assert_true(stream_pending(side->stream) > PIECE * PIECES / 2);
	assert_true(gateway_counters(world.gateway)->bytes_out < PIECE * PIECES / 2);

	stream_resume(caller->stream);
	engine_say(side, "0\r\n\r\n");
	TURN_UNTIL(&world, str_ends(buf_str(&caller->got), "\r\n0\r\n\r\n"));
	assert_int_equal(world.ends[0].bytes_out, PIECE * PIECES);
	buf_release(&piece);
	hang_up(caller);
	world_end(&world);
}

static void test_bodies_arrive_whole_whatever_their_framing(void **state)
{
	struct world world;
	enum { FILLING = 3 * 1024 * 1024 };
	struct buf body = BUF_INIT, out = BUF_INIT;

	(void)state;
	world_begin(&world);
	buf_append_str(&body, STR("{\"model\":\"chat\",\"prompt\":\""));
	memset(buf_reserve(&body, FILLING), 'y', FILLING);
	buf_commit(&body, FILLING);
	buf_append_str(&body, STR("\"}"));
	buf_append_str(&out, STR("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
	                         "Transfer-Encoding: chunked\r\n\r\n"));
	for (struct str left = buf_str(&body); left.length;) {
		size_t part = left.length < 50001 ? left.length : 50001;
		buf_printf(&out, "%zx\r\n", part);
		buf_append(&out, left.data, part);
		buf_append_str(&out, STR("\r\n"));
		left.data += part;
		left.length -= part;
	}
	buf_append_str(&out, STR("0\r\n\r\n"));
	struct caller *caller = call_up(&world);
	say_bytes(caller, buf_str(&out));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	struct str sent = buf_str(&world.last_request);
	assert_true(sent.length > buf_length(&body));
	assert_memory_equal(sent.data + sent.length - buf_length(&body), buf_str(&body).data,
	                    buf_length(&body));
	assert_null(strstr(buf_cstr(&world.last_request), "chunked"));
	assert_int_equal(world.ends[0].bytes_in, buf_length(&body));
	buf_release(&body);
	buf_release(&out);
	hang_up(caller);
	world_end(&world);
}

static void engine_says_continue_first(struct engine_side *side, struct str request)
{
	engine_say(side, "HTTP/1.1 102 Processing\r\n\r\n");
	engine_counts(side, request);
}

static void test_interim_answers_of_an_engine_are_passed_over(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_says_continue_first;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", CHAT("chat"));
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 200 "));
	hang_up(caller);
	world_end(&world);
}

static void test_the_model_may_stand_in_the_path(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	post(caller, "/upstream/small/completion?a=b", "{\"prompt\":\"x\"}");
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_true(str_starts(buf_str(&world.last_request), "POST /completion?a=b HTTP/1.1\r\n"));
	assert_int_equal(world.ends[0].model, 1);
	hang_up(caller);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_request_goes_to_the_engine_and_back),
		cmocka_unit_test(test_a_kept_connection_may_change_its_model),
		cmocka_unit_test(test_the_connection_to_an_engine_is_used_again),
		cmocka_unit_test(test_a_stale_connection_is_tried_anew),
		cmocka_unit_test(test_an_answer_survives_the_close_behind_it),
		cmocka_unit_test(test_a_stream_passes_chunk_by_chunk),
		cmocka_unit_test(test_an_engine_that_dies_in_a_stream_is_seen),
		cmocka_unit_test(test_a_body_that_breaks_off_stays_short),
		cmocka_unit_test(test_no_answer_at_all_is_502_after_one_more_try),
		cmocka_unit_test(test_what_killed_an_engine_is_not_given_to_the_next),
		cmocka_unit_test(test_an_old_client_sees_the_difference_too),
		cmocka_unit_test(test_a_request_that_found_nobody_is_asked_for_again),
		cmocka_unit_test(test_a_request_comes_back_only_once),
		cmocka_unit_test(test_a_slow_reader_slows_its_engine),
		cmocka_unit_test(test_bodies_arrive_whole_whatever_their_framing),
		cmocka_unit_test(test_interim_answers_of_an_engine_are_passed_over),
		cmocka_unit_test(test_the_model_may_stand_in_the_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
