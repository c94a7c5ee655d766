/* The life of models and requests: loads, failures, ends. */
#include "rig.h"

static void a_request_loads_its_model_and_runs(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig.decisions = true;
	rig_ask(&rig, 0);
	rig_expect(&rig, "[load a request], spawn a");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_LOADING);
	assert_true(rig_view(&rig, 0).claim_bytes == 6 * GIB);
	rig_wait(&rig, 3);
	rig_load(&rig, 0);
	rig_expect(&rig, "[ready a none], dispatch 1 a");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_BUSY);
	assert_true(rig_view(&rig, 0).last_load_us == 3 * SEC);
	rig_finish(&rig, 1);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_IDLE);
	assert_int_equal(arbiter_requests_live(rig.arbiter), 0);
	rig_close(&rig);
}

static void two_that_exclude_each_other_take_turns(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a");

	rig.decisions = true;
	rig_ask(&rig, 1);
	rig_expect(&rig, "[evict a least_recent for b], stop a");
	assert_int_equal(rig_view(&rig, 1).reason, REASON_UNLOADING);
	rig_exit(&rig, 0, false);
	rig_expect(&rig, "");
	/* Only a sample that shows the bytes back ends the claim. */
	rig_measure(&rig, 0, 2, true, false);
	rig_sample(&rig, 2);
	rig_expect(&rig, "");
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 0);
	rig_expect(&rig, "[released a room], [load b request], spawn b");
	rig_close(&rig);
}

static void two_that_exclude_each_other_asked_at_once(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 1 a");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	rig_expect(&rig, "spawn b, dispatch 2 b");
	rig_close(&rig);
}

static void a_hundred_requests_for_one_cold_model_start_one_engine(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->slots = 100;
	rig_model(&rig, 0);
	for (int i = 0; i < 100; i++)
		rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	assert_int_equal(arbiter_queue_position(rig.arbiter, rig.request[99]), 100);
	rig_load(&rig, 0);
	assert_int_equal(arbiter_counters(rig.arbiter)->dispatches, 100);
	assert_int_equal(arbiter_counters(rig.arbiter)->loads, 1);
	rig_close(&rig);
}

static void nobody_is_evicted_for_a_client_that_left(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1); /* waits for a, which is busy */
	rig_leave(&rig, 2);
	rig_finish(&rig, 1);
	rig_wait(&rig, 100);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	assert_int_equal(rig_view(&rig, 1).state, MODEL_UNLOADED);
	rig_close(&rig);
}

static void a_load_outlives_its_client_until_its_room_is_wanted(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_leave(&rig, 1);
	rig_expect(&rig, "spawn a");
	rig_ask(&rig, 0);
	rig_leave(&rig, 2);
	rig_expect(&rig, "");
	rig_ask(&rig, 1);
	rig_expect(&rig, "abort a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	assert_int_equal(rig_view(&rig, 0).failures, 0);
	rig_close(&rig);
}

static void an_engine_that_dies_while_loading_is_tried_again(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig.decisions = true;
	rig_gone(&rig, 0);
	rig_expect(&rig, "[load_failed a none], [released a none]");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_FAILED);
	rig.decisions = false;
	rig_wait(&rig, 0.9);
	rig_expect(&rig, "");
	rig_wait(&rig, 0.2);
	rig_expect(&rig, "spawn a");
	/* Twice in a row: who waits is told, who comes now as well. */
	rig_gone(&rig, 0);
	rig_expect(&rig, "reject 1 load_failed");
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 2 backing_off");
	assert_true(rig.reject.retry_after_us == 2 * SEC);
	rig_wait(&rig, 2.1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 3);
	rig_expect(&rig, "spawn a, dispatch 3 a");
	assert_int_equal(rig_view(&rig, 0).failures, 0);
	rig_close(&rig);
}

static void an_engine_that_can_never_be_ready_is_not_tried_again_soon(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_exit(&rig, 0, true);
	rig_expect(&rig, "spawn a, reject 1 load_failed, reject 2 load_failed");
	assert_true(rig.reject.retry_after_us == 0);
	rig_wait(&rig, 20);
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 3 backing_off");
	assert_true(rig.reject.retry_after_us == 10 * SEC);
	rig_close(&rig);
}

static void an_engine_that_dies_busy_ends_its_requests(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->slots = 2;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a");
	rig.decisions = true;
	rig_exit(&rig, 0, false);
	rig_expect(&rig, "[died a none], [cancel a none], cancel 1 engine_died, "
	                 "[cancel a none], cancel 2 engine_died");
	rig.decisions = false;
	/* Their indices stay taken until the shell says that they ended. */
	assert_int_equal(arbiter_requests_live(rig.arbiter), 3);
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 0);
	rig_finish(&rig, 1);
	rig_leave(&rig, 2);
	assert_int_equal(arbiter_requests_live(rig.arbiter), 1);
	rig_wait(&rig, 1.1);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 3 a");
	rig_close(&rig);
}

static void an_engine_that_dies_idle_is_started_by_the_next_request(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_gone(&rig, 0);
	rig_ask(&rig, 0); /* it served until then: no pause */
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn a");
	rig_close(&rig);
}

static void an_engine_that_dies_while_stopping_is_no_failure(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_expect(&rig, "spawn a, dispatch 1 a, stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "done 2");
	assert_int_equal(rig_view(&rig, 0).failures, 0);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_UNLOADED);
	rig_close(&rig);
}

static void a_load_without_progress_is_given_up(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->load_timeout_us = 10 * SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_wait(&rig, 9);
	rig_progress(&rig, 0, 100);
	rig_wait(&rig, 9);
	rig_progress(&rig, 0, 100); /* no news is no progress */
	rig_expect(&rig, "spawn a");
	rig.decisions = true;
	rig_wait(&rig, 1.1);
	rig_expect(&rig, "[load_failed a stalled], kill a");
	rig_gone(&rig, 0);
	assert_int_equal(rig_view(&rig, 0).failures, 1);
	rig_close(&rig);
}

static void a_load_that_moves_but_never_ends_is_given_up(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->load_timeout_us = 10 * SEC;
	rig_spec(&rig, 0, 6)->start_timeout_us = 30 * SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	for (uint32_t i = 1; i <= 5; i++) {
		rig_wait(&rig, 5.9);
		rig_progress(&rig, 0, 100 * i);
	}
	rig_expect(&rig, "spawn a");
	rig.decisions = true;
	rig_wait(&rig, 0.6);
	/* Who waits is told at once; another load would take as long. */
	rig_expect(&rig, "[load_failed a slow], kill a, reject 1 start_timeout");
	rig.decisions = false;
	rig_gone(&rig, 0);
	rig_wait(&rig, 5);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 0).failures, 1);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

static void events_of_an_older_life_touch_nothing(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	struct id old = rig_view(&rig, 0).instance;
	rig_gone(&rig, 0);
	rig_wait(&rig, 1.1);
	rig_expect(&rig, "spawn a, spawn a");
	uint64_t stale = arbiter_counters(rig.arbiter)->stale_events;

	static const enum event_type types[] = { EVENT_INSTANCE_READY, EVENT_INSTANCE_EXITED,
		                                 EVENT_INSTANCE_PROGRESS, EVENT_MEASURED };
	for (uint32_t i = 0; i < 4; i++) {
		struct event event = { .type = types[i] };
		event.instance.instance = old;
		rig_step(&rig, &event);
	}
	rig_expect(&rig, "");
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_finish(&rig, 1);
	assert_int_equal(arbiter_counters(rig.arbiter)->stale_events, stale + 5);
	rig_close(&rig);
}

static void an_idle_model_goes_after_its_time(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->unload_after_us = 60 * SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_wait(&rig, 100);
	rig_finish(&rig, 1);
	rig_wait(&rig, 59);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig.decisions = true;
	rig_wait(&rig, 1.1);
	rig_expect(&rig, "[unload a idle], stop a");
	rig_close(&rig);
}

static void a_queue_is_bounded(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->queue = 2;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a, reject 3 queue_full");
	assert_true(rig.reject.retry_after_us > 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "dispatch 1 a, reject 5 queue_full");
	rig_close(&rig);
}

static void a_deadline_ends_a_request_wherever_it_is(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask_as(&rig, 0, (struct request_spec){ .deadline_at_us = rig.now + 5 * SEC });
	rig_ask_as(&rig, 0, (struct request_spec){ .deadline_at_us = rig.now + 5 * SEC });
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_wait(&rig, 5);
	rig_expect(&rig, "cancel 1 deadline, reject 2 deadline");
	rig_finish(&rig, 1);
	rig_ask_as(&rig, 0, (struct request_spec){ .deadline_at_us = rig.now });
	rig_expect(&rig, "reject 3 deadline");
	rig_close(&rig);
}

static void sleep_brings_nothing_due(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->unload_after_us = 60 * SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	struct event suspend = { .type = EVENT_SUSPEND };
	struct event resume = { .type = EVENT_RESUME };
	rig_step(&rig, &suspend);
	rig.now += 8 * 3600 * SEC;
	rig.timer_at = INT64_MAX;
	rig_step(&rig, &resume);
	rig_expect(&rig, "");
	assert_true(rig.timer_at == rig.now + 60 * SEC);
	rig_wait(&rig, 61);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

/* What is known to take longer to load than is left is refused while there is time to ask elsewhere. */
static void a_deadline_that_a_load_cannot_meet_is_refused_early(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 6);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_wait(&rig, 20);
	rig_ready(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 6, true, false);
	rig_sample(&rig, 6);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, stop a");
	rig_exit(&rig, 0, false);
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_expect(&rig, "spawn b, dispatch 2 b");

	rig_ask_as(&rig, 0, (struct request_spec){ .deadline_at_us = rig.now + 5 * SEC });
	rig_expect(&rig, "reject 3 deadline");
	assert_true(rig.reject.decision.load_us == 10 * SEC);
	rig_ask_as(&rig, 0, (struct request_spec){ .deadline_at_us = rig.now + 15 * SEC });
	rig_wait(&rig, 4);
	rig_expect(&rig, "");
	rig_wait(&rig, 2);
	rig_expect(&rig, "reject 4 deadline");
	rig_close(&rig);
}

/* What was seen of a load, or not seen whole, tells nothing of what it takes. */
static void what_it_takes_is_known_when_it_was_seen_ready(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, 16);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_measure(&rig, 0, 0.5, true, false);
	rig_sample(&rig, 0.5);
	rig_ready(&rig, 0);
	assert_false(rig_view(&rig, 0).settled);
	rig_measure(&rig, 0, 0.1, false, false);
	rig_sample(&rig, 1);
	assert_false(rig_view(&rig, 0).settled);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 5, true, false);
	rig_sample(&rig, 5);
	assert_true(rig_view(&rig, 0).settled);
	assert_int_equal(rig_view(&rig, 0).measured_bytes, 5 * GIB);
	assert_int_equal(rig_view(&rig, 0).observed, 1);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_loads_its_model_and_runs),
		cmocka_unit_test(two_that_exclude_each_other_take_turns),
		cmocka_unit_test(two_that_exclude_each_other_asked_at_once),
		cmocka_unit_test(a_hundred_requests_for_one_cold_model_start_one_engine),
		cmocka_unit_test(nobody_is_evicted_for_a_client_that_left),
		cmocka_unit_test(a_load_outlives_its_client_until_its_room_is_wanted),
		cmocka_unit_test(an_engine_that_dies_while_loading_is_tried_again),
		cmocka_unit_test(an_engine_that_can_never_be_ready_is_not_tried_again_soon),
		cmocka_unit_test(an_engine_that_dies_busy_ends_its_requests),
		cmocka_unit_test(an_engine_that_dies_idle_is_started_by_the_next_request),
		cmocka_unit_test(an_engine_that_dies_while_stopping_is_no_failure),
		cmocka_unit_test(a_load_without_progress_is_given_up),
		cmocka_unit_test(a_load_that_moves_but_never_ends_is_given_up),
		cmocka_unit_test(events_of_an_older_life_touch_nothing),
		cmocka_unit_test(an_idle_model_goes_after_its_time),
		cmocka_unit_test(a_queue_is_bounded),
		cmocka_unit_test(a_deadline_ends_a_request_wherever_it_is),
		cmocka_unit_test(a_deadline_that_a_load_cannot_meet_is_refused_early),
		cmocka_unit_test(sleep_brings_nothing_due),
		cmocka_unit_test(what_it_takes_is_known_when_it_was_seen_ready),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
