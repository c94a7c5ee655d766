/* What memory leaves for a conversation: who is refused for his length, whose answer is cut, and who is counted first. */
#include "world.h"

/* Asks, and returns the body that the engine was sent, or NULL where it was refused. */
static const char *sent_body(struct world *world, struct caller *caller, const char *path, const char *body)
{
	uint32_t before = world->engine_requests;

	forget(caller);
	post(caller, path, body);
	TURN_UNTIL(world, has_heard(caller, "{\"n\":") || has_heard(caller, "}}"));
	if (world->engine_requests == before)
		return NULL;
	return strstr(buf_cstr(&world->last_request), "\r\n\r\n") + 4;
}

static void test_a_longer_answer_is_cut_in_the_body_that_is_sent(void **state)
{
	static const struct {
		const char *body, *sent; /* NULL: as it came */
		int64_t claimed_reply;
	} cases[] = {
		{ "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":5}", NULL, 5 },
		{ "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":32000}",
		  "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":97}", 97 },
		{ "{\"n_predict\": -1 ,\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":1e9,\"max_completion_tokens\":4}",
		  "{\"n_predict\": 97 ,\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":97,\"max_completion_tokens\":4}", 4 },
		{ "{\"n_predict\": -1 ,\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":null, \"x\":1}",
		  "{\"n_predict\": 97 ,\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":97, \"x\":1}", 40 },
		{ " {\"model\":\"chat\",\"prompt\":[1,2,3]} ", " {\"max_tokens\":97,\"model\":\"chat\",\"prompt\":[1,2,3]} ", 40 },
		{ "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_output_tokens\":9999999999999}",
		  "{\"max_tokens\":97,\"model\":\"chat\",\"prompt\":[1,2,3],\"max_output_tokens\":97}", 97 },
		{ "{\"model\":\"chat\",\"prompt\":[[1,2],[3,4]],\"max_tokens\":60}",
		  "{\"model\":\"chat\",\"prompt\":[[1,2],[3,4]],\"max_tokens\":48}", 48 }, /* each of them */
	};
	struct world world;

	(void)state;
	world_init(&world);
	world.models[0].reply_tokens = 40;
	world.most_tokens = 100;
	world_open(&world);
	struct caller *caller = call_up(&world);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *sent = sent_body(&world, caller, "/v1/completions", cases[i].body);
		assert_non_null(sent);
		assert_string_equal(sent, cases[i].sent ? cases[i].sent : cases[i].body);
		assert_int_equal(world.last_claim.reply_tokens >= 0 ? world.last_claim.reply_tokens : 40, cases[i].claimed_reply);
	}
	world.most_tokens = 0; /* memory bounds nobody: what is asked for is sent */
	const char *sent = sent_body(&world, caller, "/v1/completions", cases[1].body);
	assert_string_equal(sent, cases[1].body);
	hang_up(caller);
	world_end(&world);
}

static void test_a_prompt_that_there_is_no_room_for_is_refused_as_the_engine_does(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.most_tokens = 3;
	struct caller *caller = call_up(&world);
	assert_null(sent_body(&world, caller, "/v1/completions", "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":1}"));
	assert_true(has_heard(caller, "HTTP/1.1 400 "));
	assert_true(has_heard(caller, "\"message\":\"request (3 tokens) exceeds the available context size (3 tokens), try increasing it; "));
	assert_true(has_heard(caller, "\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":3,\"n_ctx\":3}}"));
	assert_true(has_heard(caller, "x-should-retry: false"));
	assert_int_equal(world.requests, 0);
	assert_non_null(sent_body(&world, caller, "/v1/completions", "{\"model\":\"chat\",\"prompt\":[1,2],\"max_tokens\":1}"));
	hang_up(caller);
	world_end(&world);
}

static void engine_counts_seven(struct engine_side *side, struct str request)
{
	engine_answer(side, str_starts(request, "POST /v1/chat/completions/input_tokens ") ? "{\"input_tokens\":7}" : "{\"n\":1}");
}

#define LONG_CHAT "{\"model\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"many bytes in few tokens\"}],\"max_tokens\":9}"

/* Its bytes alone say too much: the model comes first, and the request asks again as what it is. */
static void test_who_is_not_counted_asks_for_the_model_first(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	world.engine = engine_counts_seven;
	world.most_tokens = 20;
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/chat/completions", LONG_CHAT);
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_int_equal(world.last_claim.tokens + world.last_claim.reply_tokens, 1);
	assert_int_equal(world.specs[0].conversation, 0); /* what is saved of it has no room yet */
	world_dispatch(&world, world.waiting[0]);
	TURN_UNTIL(&world, world.requests == 2);
	assert_int_equal(world.engine_requests, 1);
	assert_int_equal(world.last_claim.tokens, 7);
	assert_int_equal(world.last_claim.reply_tokens, 9);
	assert_true(world.specs[world.waiting_count - 1].conversation != 0);
	world.hold = false;
	TURN_UNTIL(&world, has_heard(caller, "{\"n\":1}"));
	assert_string_equal(strstr(buf_cstr(&world.last_request), "\r\n\r\n") + 4, LONG_CHAT);

	/* Once it is counted there may be no room for it. */
	forget(caller);
	world.most_tokens = 7;
	post(caller, "/v1/chat/completions", LONG_CHAT);
	TURN_UNTIL(&world, has_heard(caller, "}}"));
	assert_true(has_heard(caller, "\"n_prompt_tokens\":7,\"n_ctx\":7}}"));
	hang_up(caller);
	world_end(&world);
}

static void reject(struct world *world, enum fail fail)
{
	struct action action = { .type = ACTION_REJECT, .request = world->waiting[0], .fail = fail };

	world->waiting[0] = world->waiting[--world->waiting_count];
	world_verdict(world, &action);
}

/* There was less room than it was told: it asks for that, a few times, and then it is refused for room. */
static void test_who_finds_less_room_asks_again_with_less(void **state)
{
	static const char body[] = "{\"model\":\"chat\",\"prompt\":[1,2,3],\"max_tokens\":32000}";
	struct world world;

	(void)state;
	world_begin(&world);
	world.most_tokens = 100;
	world.hold = true;
	struct caller *caller = call_up(&world);
	post(caller, "/v1/completions", body);
	TURN_UNTIL(&world, world.waiting_count == 1);
	for (int64_t most = 90; most > 70; most -= 10) {
		world.most_tokens = most;
		reject(&world, FAIL_NO_ROOM);
		assert_int_equal(world.waiting_count, 1);
		assert_int_equal(world.last_claim.reply_tokens, most - 3);
	}
	world.most_tokens = 70;
	reject(&world, FAIL_NO_ROOM);
	TURN_UNTIL(&world, has_heard(caller, "\"no_room\""));

	/* Where length is not why, nothing is asked again. */
	forget(caller);
	post(caller, "/v1/completions", body);
	TURN_UNTIL(&world, world.waiting_count == 1);
	reject(&world, FAIL_NO_ROOM);
	TURN_UNTIL(&world, has_heard(caller, "\"no_room\""));
	hang_up(caller);
	world_end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_longer_answer_is_cut_in_the_body_that_is_sent),
		cmocka_unit_test(test_a_prompt_that_there_is_no_room_for_is_refused_as_the_engine_does),
		cmocka_unit_test(test_who_is_not_counted_asks_for_the_model_first),
		cmocka_unit_test(test_who_finds_less_room_asks_again_with_less),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
