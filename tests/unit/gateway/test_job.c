#include "world.h"

#define START "{\"model\":\"small\",\"prompt\":\"a house\"}"
#define RUNS "{\"completed\":null,\"created\":1,\"error\":null,\"id\":\"job_7-a\",\"result\":null,\"status\":\"generating\"}"
#define GIVEN_UP "{\"completed\":2,\"created\":1,\"error\":{},\"id\":\"job_7-a\",\"result\":null,\"status\":\"cancelled\"}"
#define DONE "{\"completed\":2,\"created\":1,\"error\":null,\"id\":\"job_7-a\",\"result\":{\"images\":[]}}"

/* An image engine: what it says of its one job, and what it was asked. */
static const char *says_of_job;
static unsigned asked, cancels;

static void image_engine(struct engine_side *side, struct str request)
{
	if (str_starts(request, "POST /sdcpp/v1/img_gen ")) {
		engine_say(side, "HTTP/1.1 202 Accepted\r\nContent-Length: 43\r\n\r\n"
		                 "{\"created\":1,\"id\" : \"job_7-a\",\"kind\":\"img\"}");
	} else if (str_starts(request, "GET /sdcpp/v1/jobs/job_7-a ")) {
		asked++;
		if (says_of_job)
			engine_answer(side, says_of_job);
		else
			engine_say(side, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}");
	} else if (str_starts(request, "POST /sdcpp/v1/jobs/job_7-a/cancel ")) {
		cancels++;
		says_of_job = GIVEN_UP;
		engine_answer(side, GIVEN_UP);
	} else {
		engine_answer(side, "{\"other\":1}");
	}
}

/* A client has begun a job and got its number; the engine was asked once how it is. */
static struct caller *begin_job(struct world *world)
{
	asked = cancels = 0;
	says_of_job = RUNS;
	world_init(world);
	world->models[1].engine = CONF_ENGINE_SD_SERVER;
	world_open(world);
	world->engine = image_engine;
	struct caller *caller = call_up(world);
	post(caller, "/sdcpp/v1/img_gen", START);
	TURN_UNTIL(world, has_heard(caller, "\"kind\":\"img\"}"));
	assert_true(str_starts(str_from(heard(caller)), "HTTP/1.1 202 "));
	TURN_UNTIL(world, asked >= 1);
	assert_int_equal(world->end_count, 0);
	forget(caller);
	return caller;
}

static void finish(struct world *world, struct caller *caller)
{
	hang_up(caller);
	world_end(world);
}

static void test_it_runs_until_its_result_was_fetched(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	says_of_job = DONE;
	unsigned before = asked;
	TURN_UNTIL(&world, asked > before);
	for (int i = 0; i < 20; i++)
		world_turn(&world);
	assert_int_equal(world.end_count, 0);
	/* The engine's own path, without a model: who knows the job is asked. */
	say(caller, "GET /sdcpp/v1/jobs/job_7-a HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, DONE));
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].fail, FAIL_NONE);
	assert_int_equal(world.ends[0].status, 202);
	assert_int_equal(world.ends[0].model, 1);
	finish(&world, caller);
}

static void test_a_look_at_a_running_one_ends_nothing(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	say(caller, "GET /upstream/small/sdcpp/v1/jobs/job_7-a HTTP/1.1\r\nHost: localhost\r\n\r\n");
	TURN_UNTIL(&world, has_heard(caller, RUNS));
	assert_int_equal(world.end_count, 0);
	finish(&world, caller);
	assert_int_equal(world.end_count, 1); /* with the gateway */
}

static void test_one_without_a_result_ends_at_once(void **state)
{
	static const char *const rows[] = { GIVEN_UP, NULL };
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		struct world world;
		struct caller *caller = begin_job(&world);
		says_of_job = rows[i];
		TURN_UNTIL(&world, world.end_count == 1);
		assert_int_equal(world.ends[0].fail, FAIL_NONE);
		finish(&world, caller);
	}
}

static void test_a_result_does_not_hold_up_who_waits(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	world.hold = true;
	post(caller, "/v1/images/generations", START);
	TURN_UNTIL(&world, world.waiting_count == 1);
	assert_int_equal(world.end_count, 0);
	says_of_job = DONE;
	TURN_UNTIL(&world, world.end_count == 1);
	world.hold = false;
	TURN_UNTIL(&world, has_heard(caller, "{\"other\":1}"));
	finish(&world, caller);
}

static void test_a_client_gives_it_up(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	post(caller, "/sdcpp/v1/jobs/job_7-a/cancel", "{}");
	TURN_UNTIL(&world, has_heard(caller, GIVEN_UP));
	assert_int_equal(cancels, 1);
	TURN_UNTIL(&world, world.end_count == 1);
	finish(&world, caller);
}

static void test_an_operator_gives_it_up(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	assert_true(gateway_cancel(world.gateway, 1));
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(cancels, 1);
	assert_int_equal(world.ends[0].fail, FAIL_CANCELLED);
	finish(&world, caller);
}

static void engine_breaks(struct engine_side *side, struct str request)
{
	(void)request;
	asked++;
	engine_cut(side);
}

static void test_an_engine_that_does_not_answer_is_believed_no_longer(void **state)
{
	struct world world;
	struct caller *caller = begin_job(&world);

	(void)state;
	asked = 0;
	world.engine = engine_breaks;
	TURN_UNTIL(&world, world.end_count == 1);
	assert_in_range(asked, 5, 10); /* each question is tried twice */
	finish(&world, caller);
}

/* The engine has the request: it computes, whether anybody waits for the number or not. */
static void test_a_client_that_leaves_before_its_number(void **state)
{
	struct world world;

	(void)state;
	asked = 0;
	says_of_job = RUNS;
	world_init(&world);
	world.models[1].engine = CONF_ENGINE_SD_SERVER;
	world_open(&world);
	world.engine = engine_silent;
	struct caller *caller = call_up(&world);
	post(caller, "/sdcpp/v1/img_gen", START);
	TURN_UNTIL(&world, world.engine_requests == 1);
	hang_up(caller);
	for (int i = 0; i < 20; i++)
		world_turn(&world);
	assert_int_equal(world.end_count, 0);
	world.engine = image_engine;
	image_engine(world.engines[0], STR("POST /sdcpp/v1/img_gen "));
	TURN_UNTIL(&world, asked >= 1);
	says_of_job = GIVEN_UP;
	TURN_UNTIL(&world, world.end_count == 1);
	world_end(&world);
}

static void engine_names_no_job(struct engine_side *side, struct str request)
{
	(void)request;
	engine_say(side, "HTTP/1.1 202 Accepted\r\nContent-Length: 17\r\n\r\n{\"id\":\"../props\"}");
}

static void test_an_answer_that_names_no_job_is_only_an_answer(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.models[1].engine = CONF_ENGINE_SD_SERVER;
	world_open(&world);
	world.engine = engine_names_no_job;
	struct caller *caller = call_up(&world);
	post(caller, "/sdcpp/v1/img_gen", START);
	TURN_UNTIL(&world, world.end_count == 1);
	assert_true(has_heard(caller, "../props"));
	assert_int_equal(world.engine_requests, 1);
	finish(&world, caller);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(test_it_runs_until_its_result_was_fetched),
		cmocka_unit_test(test_a_look_at_a_running_one_ends_nothing),
		cmocka_unit_test(test_one_without_a_result_ends_at_once),
		cmocka_unit_test(test_a_result_does_not_hold_up_who_waits),
		cmocka_unit_test(test_a_client_gives_it_up),
		cmocka_unit_test(test_an_operator_gives_it_up),
		cmocka_unit_test(test_an_engine_that_does_not_answer_is_believed_no_longer),
		cmocka_unit_test(test_a_client_that_leaves_before_its_number),
		cmocka_unit_test(test_an_answer_that_names_no_job_is_only_an_answer),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
