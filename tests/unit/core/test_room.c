/* Who gets room, and who goes for it. */
#include "rig.h"

#include <stdlib.h>

static void the_longest_unused_goes_and_only_as_many_as_it_takes(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	for (uint32_t model = 0; model < 3; model++) {
		rig_add(&rig, model, 4);
		rig_once(&rig, model);
		rig_wait(&rig, 1);
	}
	rig_finish(&rig, rig_ask(&rig, 0)); /* now b is the longest unused */
	rig_add(&rig, 3, 4);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b, spawn c, dispatch 3 c, "
	                 "dispatch 4 a");
	rig.decisions = true;
	rig_ask(&rig, 3);
	rig_expect(&rig, "[evict b least_recent for d], stop b");
	assert_true(rig.last.need_bytes == 4 * GIB || rig.last.kind == DECISION_QUEUE);
	rig_close(&rig);
}

static void nobody_goes_in_vain(void **state)
{
	struct rig rig;
	(void)state;

	/* c needs 9 of 12: the small old one alone would not help, the big one alone does. */
	rig_open(&rig, 12);
	rig_add(&rig, 0, 2);
	rig_add(&rig, 1, 8);
	rig_add(&rig, 2, 9);
	rig_once(&rig, 0);
	rig_wait(&rig, 1);
	rig_once(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn c");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_IDLE);
	rig_close(&rig);
}

static void nobody_idle_goes_while_a_busy_one_keeps_the_room(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 2);
	rig_add(&rig, 1, 8);
	rig_add(&rig, 2, 9);
	rig_once(&rig, 0);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	rig_ask(&rig, 2);
	rig_wait(&rig, 10);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 2).reason, REASON_CAPACITY);
	rig_finish(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_close(&rig);
}

static void a_later_model_that_fits_is_not_held_up(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 8);
	rig_add(&rig, 1, 9);
	rig_add(&rig, 2, 3);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_ask(&rig, 2);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn c");
	rig_close(&rig);
}

static void who_waits_for_a_busy_one_holds_up_nobody_else(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 7);
	rig_add(&rig, 1, 4);
	rig_add(&rig, 2, 11);
	rig_add(&rig, 3, 4);
	rig_once(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 2);
	rig_expect(&rig, "spawn b, dispatch 1 b, spawn a, dispatch 2 a");
	rig_ask(&rig, 3);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn d");
	/* Once it is overdue, all that goes is for it. */
	rig_load(&rig, 3);
	rig_finish(&rig, 4);
	rig_wait(&rig, 12);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_DRAINING);
	rig_ask(&rig, 1);
	rig_expect(&rig, "dispatch 4 d");
	rig_finish(&rig, 2);
	rig_expect(&rig, "stop d, stop a");
	rig_gone(&rig, 0);
	rig_gone(&rig, 3);
	rig_expect(&rig, "spawn c");
	rig_close(&rig);
}

static void room_on_its_way_is_not_given_to_those_behind(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 8);
	rig_add(&rig, 1, 9);
	rig_add(&rig, 2, 4);
	rig_once(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, stop a");
	rig_ask(&rig, 2); /* would fit now; but then b would not */
	rig_expect(&rig, "");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

static void loads_in_flight_are_bounded_and_some_go_alone(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 100);
	for (uint32_t model = 0; model < 3; model++)
		rig_add(&rig, model, 4);
	for (uint32_t model = 0; model < 3; model++)
		rig_ask(&rig, model);
	rig_expect(&rig, "spawn a, spawn b");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 1 a, spawn c");

	for (uint32_t model = 3; model < 5; model++) {
		rig_spec(&rig, model, 4)->flags |= MODEL_SERIAL_LOAD;
		rig.spec[model].engine_kind = 7;
		rig_model(&rig, model);
	}
	rig_load(&rig, 1);
	rig_load(&rig, 2);
	rig_ask(&rig, 3);
	rig_ask(&rig, 4);
	rig_expect(&rig, "dispatch 2 b, dispatch 3 c, spawn d");
	rig_load(&rig, 3);
	rig_expect(&rig, "dispatch 4 d, spawn e");
	rig_close(&rig);
}

static void what_nobody_can_tell_loads_alone_once(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 2);
	rig_spec(&rig, 1, 0)->flags |= MODEL_MEASURE_FIRST;
	rig_model(&rig, 1);
	rig_once(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn b");
	assert_int_equal(rig_view(&rig, 0).reason, REASON_MEASURE_FIRST);
	rig_load(&rig, 1);
	rig_expect(&rig, "dispatch 2 b");
	rig_measure(&rig, 1, 5, true, false);
	rig_sample(&rig, 5);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

static void who_waits_too_long_gets_a_busy_one_drained(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_ask(&rig, 0);
	rig_wait(&rig, 9);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig.decisions = true;
	rig_wait(&rig, 2);
	rig_expect(&rig, "[drain a overdue for b]");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_DRAINING);
	rig_finish(&rig, 1); /* the next one of a waits; b comes first now */
	rig_expect(&rig, "[evict a least_recent for b], stop a");
	rig.decisions = false;
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_expect(&rig, "spawn b, dispatch 2 b");
	rig_finish(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 3 a");
	rig_close(&rig);
}

static void an_interactive_request_waits_half_as_long(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask_as(&rig, 1, (struct request_spec){ .priority = PRIORITY_INTERACTIVE });
	rig_wait(&rig, 4);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_BUSY);
	rig_wait(&rig, 6);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_DRAINING);
	rig_close(&rig);
}

static void a_drain_that_takes_too_long_is_given_up(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_spec(&rig, 0, 6)->slots = 2;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_wait(&rig, 11);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig.decisions = true;
	rig_wait(&rig, 20); /* the victim's drain_timeout */
	rig_expect(&rig, "[drain_end a overdue for b], dispatch 3 a");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_BUSY);
	rig_wait(&rig, 25);
	rig_expect(&rig, ""); /* not again at once */
	rig_wait(&rig, 10);
	rig_expect(&rig, "[drain a overdue for b]");
	rig_close(&rig);
}

static void a_drain_ends_with_the_request_it_was_for(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	uint32_t request = rig_ask(&rig, 1);
	rig_wait(&rig, 11);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig.decisions = true;
	rig_leave(&rig, request);
	rig_expect(&rig, "[drain_end a none for b]");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_BUSY);
	rig_close(&rig);
}

static void a_dispatch_is_an_admission(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };
	(void)state;

	big.need.bytes[0][USE_HOST] = 3 * GIB;
	rig_open(&rig, 12);
	rig_spec(&rig, 0, 4)->slots = 4;
	rig_model(&rig, 0);
	rig_add(&rig, 1, 3);
	rig_once(&rig, 1);
	rig_ask_as(&rig, 0, big);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn b, dispatch 1 b, spawn a, dispatch 2 a");
	assert_true(rig_view(&rig, 0).claim_bytes == 7 * GIB);
	/* The second does not fit beside idle b, which goes; the third not at all for now. */
	rig_ask_as(&rig, 0, big);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "dispatch 3 a");
	rig_ask_as(&rig, 0, big);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 0).queued, 1);
	rig_finish(&rig, 2);
	rig_expect(&rig, "dispatch 4 a");
	assert_true(rig_view(&rig, 0).claim_bytes == 10 * GIB);
	rig_close(&rig);
}

static void background_work_evicts_nobody(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 7);
	rig_once(&rig, 0);
	rig_ask_as(&rig, 1, (struct request_spec){ .flags = REQUEST_NO_EVICT });
	rig_wait(&rig, 10);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_wait(&rig, 30);
	rig_expect(&rig, "reject 2 no_room");
	rig_close(&rig);
}

static void two_that_block_each_other_with_waiting_requests_do_not_hang(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };
	(void)state;

	big.need.bytes[0][USE_HOST] = 5 * GIB;
	rig_open(&rig, 10);
	rig_add(&rig, 0, 4);
	rig_add(&rig, 1, 4);
	rig_ask_as(&rig, 0, big);
	rig_ask_as(&rig, 1, big);
	rig_expect(&rig, "spawn a, spawn b");
	rig_load(&rig, 0);
	rig_load(&rig, 1);
	rig_expect(&rig, "stop b"); /* the older request goes first */
	rig_gone(&rig, 1);
	rig_expect(&rig, "dispatch 1 a");
	rig_finish(&rig, 1);
	rig_load(&rig, 1);
	rig_expect(&rig, "spawn b, stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "dispatch 2 b");
	rig_close(&rig);
}

/* What there is nobody knows: nothing loads, what is loaded serves, who is told to go goes, and its claim stays. */
static void nothing_loads_on_an_account_that_is_old(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	for (uint32_t model = 0; model < 3; model++)
		rig_add(&rig, model, 4);
	rig_once(&rig, 0);
	rig_once(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	rig_blind(&rig);
	rig_once(&rig, 0);
	rig_ask(&rig, 2);
	rig_expect(&rig, "dispatch 3 a");
	assert_int_equal(rig_view(&rig, 2).reason, REASON_BLIND);
	rig_ask_as(&rig, 1, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_exit(&rig, 1, false);
	rig_expect(&rig, "stop b, done 5");
	assert_true(rig_view(&rig, 1).claim_bytes == 4 * GIB);
	rig_wait(&rig, 11);
	rig_blind(&rig);
	rig_expect(&rig, "reject 4 blind");
	rig_ask(&rig, 2);
	rig_gone(&rig, 1); /* with a sample */
	rig_expect(&rig, "spawn c");
	rig_close(&rig);
}

static void pressure_evicts_then_aborts_then_ends_the_least(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	for (uint32_t model = 0; model < 5; model++)
		rig_spec(&rig, model, 4)->priority = model == 1 ? PRIORITY_BATCH : PRIORITY_NORMAL;
	rig.spec[4].flags |= MODEL_PINNED;
	for (uint32_t model = 0; model < 5; model++)
		rig_model(&rig, model);
	rig_ask(&rig, 4);
	rig_load(&rig, 4);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_once(&rig, 2);
	rig_expect(&rig, "spawn e, dispatch 1 e, spawn a, dispatch 2 a, spawn b, dispatch 3 b, "
	                 "spawn c, dispatch 4 c");
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "stop c");
	rig_gone(&rig, 2);
	rig_ask(&rig, 3);
	rig_expect(&rig, ""); /* no loads */
	assert_int_equal(rig_view(&rig, 3).reason, REASON_PRESSURE);
	rig_pressure(&rig, PRESSURE_NONE);
	rig_expect(&rig, "spawn d");
	rig_once(&rig, 2);
	rig_expect(&rig, "spawn c, dispatch 6 c");
	rig.decisions = true;
	rig_pressure(&rig, PRESSURE_CRIT);
	rig_expect(&rig, "[pressure pressure], [load_failed d pressure], abort d");
	rig.decisions = false;
	rig_gone(&rig, 3);
	rig_expect(&rig, "kill c");
	rig_gone(&rig, 2);
	rig_expect(&rig, "kill b, cancel 3 emergency");
	rig_finish(&rig, 3);
	rig_gone(&rig, 1);
	rig_expect(&rig, "kill a, cancel 2 emergency");
	rig_leave(&rig, 2);
	rig_gone(&rig, 0);
	rig_expect(&rig, "kill e, cancel 1 emergency");
	assert_int_equal(arbiter_counters(rig.arbiter)->emergencies, 3);
	rig_close(&rig);
}

static void as_many_idle_ones_go_at_once_as_are_needed(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	for (uint32_t model = 0; model < 4; model++)
		rig_add(&rig, model, 4);
	uint32_t running = rig_ask(&rig, 3);
	rig_load(&rig, 3);
	for (uint32_t model = 0; model < 3; model++) {
		rig_once(&rig, model);
		rig_wait(&rig, 1);
	}
	for (uint32_t model = 0; model < 4; model++)
		rig_measure(&rig, model, 4, true, false);
	rig_sample(&rig, 16);
	rig_expect(&rig, "spawn d, dispatch 1 d, spawn a, dispatch 2 a, spawn b, dispatch 3 b, "
	                 "spawn c, dispatch 4 c");
	rig_short(&rig, PRESSURE_CRIT, 7);
	rig_expect(&rig, "kill a, kill b");
	rig_short(&rig, PRESSURE_CRIT, 20);
	rig_expect(&rig, "kill c"); /* d runs something: not while others leave */
	for (uint32_t model = 0; model < 3; model++)
		rig_gone(&rig, model);
	rig_expect(&rig, "kill d, cancel 1 emergency");
	rig_finish(&rig, running);
	rig_gone(&rig, 3);
	rig_close(&rig);
}

static void after_a_critical_moment_loads_wait_a_minute(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 4);
	rig_pressure(&rig, PRESSURE_CRIT);
	rig_ask(&rig, 0);
	rig_pressure(&rig, PRESSURE_NONE);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 0).reason, REASON_PRESSURE);
	rig_wait(&rig, 59);
	rig_expect(&rig, "");
	rig_wait(&rig, 2); /* the timer alone brings it on */
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

static void a_plan_tells_what_then_happens(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	rig_open(&rig, 12);
	rig_add(&rig, 0, 4);
	rig_add(&rig, 1, 4);
	rig_add(&rig, 2, 7);
	rig_spec(&rig, 3, 14)->lower.bytes[0][USE_HOST] = 13 * GIB;
	rig_model(&rig, 3);
	void *scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 0, scratch, &plan));
	assert_int_equal(plan.fits, FITS_NOW);
	assert_true(plan.asked_bytes >= 4 * GIB && plan.room_bytes >= plan.asked_bytes && !plan.loaded);
	assert_int_equal(plan.reason, REASON_NONE); /* nothing binds what fits */
	rig_once(&rig, 0);
	rig_wait(&rig, 1);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");

	uint64_t steps = arbiter_counters(rig.arbiter)->steps;
	free(scratch);
	scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 2, scratch, &plan));
	assert_int_equal(plan.fits, FITS_AFTER_EVICTION);
	assert_int_equal(plan.victims, 1);
	assert_int_equal(plan.victim[0], 0);
	assert_true(plan.victim_bytes[0] == 4 * GIB && plan.need_bytes == 7 * GIB);
	assert_true(plan.free_bytes == 4 * GIB);
	assert_int_equal(plan.reason, REASON_CAPACITY);
	assert_true(plan.asked_bytes >= 7 * GIB && plan.room_bytes < plan.asked_bytes);
	rig_expect(&rig, ""); /* and changes nothing */
	assert_true(arbiter_counters(rig.arbiter)->steps == steps);
	arbiter_check(rig.arbiter);
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop a");

	free(scratch);
	scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 1, scratch, &plan));
	assert_true(plan.fits == FITS_NOW && plan.loaded && plan.asked_bytes == 0);

	free(scratch);
	scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 3, scratch, &plan));
	assert_int_equal(plan.fits, FITS_NEVER);
	assert_false(arbiter_plan(rig.arbiter, 7, scratch, &plan));
	free(scratch);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_unused_goes_and_only_as_many_as_it_takes),
		cmocka_unit_test(nobody_goes_in_vain),
		cmocka_unit_test(nobody_idle_goes_while_a_busy_one_keeps_the_room),
		cmocka_unit_test(a_later_model_that_fits_is_not_held_up),
		cmocka_unit_test(who_waits_for_a_busy_one_holds_up_nobody_else),
		cmocka_unit_test(room_on_its_way_is_not_given_to_those_behind),
		cmocka_unit_test(loads_in_flight_are_bounded_and_some_go_alone),
		cmocka_unit_test(what_nobody_can_tell_loads_alone_once),
		cmocka_unit_test(who_waits_too_long_gets_a_busy_one_drained),
		cmocka_unit_test(an_interactive_request_waits_half_as_long),
		cmocka_unit_test(a_drain_that_takes_too_long_is_given_up),
		cmocka_unit_test(a_drain_ends_with_the_request_it_was_for),
		cmocka_unit_test(a_dispatch_is_an_admission),
		cmocka_unit_test(background_work_evicts_nobody),
		cmocka_unit_test(two_that_block_each_other_with_waiting_requests_do_not_hang),
		cmocka_unit_test(nothing_loads_on_an_account_that_is_old),
		cmocka_unit_test(pressure_evicts_then_aborts_then_ends_the_least),
		cmocka_unit_test(as_many_idle_ones_go_at_once_as_are_needed),
		cmocka_unit_test(after_a_critical_moment_loads_wait_a_minute),
		cmocka_unit_test(a_plan_tells_what_then_happens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
