/* Nobody waits without end: each scenario stood still, or went round in circles, once. */
#include "rig.h"

/* So many samples, one a second, of one that takes `gib` beside what others use. */
static void settle(struct rig *rig, uint32_t model, double gib, double foreign, int seconds)
{
	for (int i = 0; i < seconds; i++) {
		rig_measure(rig, model, gib, true, false);
		rig_sample(rig, gib + foreign);
		rig_wait(rig, 1);
	}
}

/* a takes 30 of 64 GiB as measured, and has served request 1; others use 8. */
static void open_with_one_known(struct rig *rig)
{
	rig_open_learning(rig, 64);
	rig_add(rig, 0, 30);
	rig_sample(rig, 8);
	rig_ask(rig, 0);
	rig_load(rig, 0);
	rig_finish(rig, 1);
	settle(rig, 0, 30, 8, 3);
}

/* A sample that counts a third twice must not bar a model from the machine for good. */
static void one_wrong_sample_does_not_bar_a_model(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 64);
	rig_add(&rig, 0, 38);
	rig_add(&rig, 1, 30);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	settle(&rig, 0, 38, 8, 3);
	rig_measure(&rig, 0, 57, true, false); /* it lies */
	rig_sample(&rig, 46);
	rig_wait(&rig, 1);
	settle(&rig, 0, 38, 8, 3);
	rig_expect(&rig, "spawn a, dispatch 1 a");

	rig_ask(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	settle(&rig, 1, 30, 8, 3);
	rig_expect(&rig, "spawn b, dispatch 2 b");
	rig_ask(&rig, 0);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

/* ... nor may it, where it was the first of all. */
static void a_wrong_first_sample_is_corrected_by_the_next(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 64);
	rig_add(&rig, 0, 38);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 57, true, false);
	rig_sample(&rig, 46);
	settle(&rig, 0, 38, 8, 3);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_exit(&rig, 0, false);
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 8);
	rig_wait(&rig, 30);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

/* What a load seemed to take for a moment is not claimed by each load from then on. */
static void a_wrong_sample_of_a_load_raises_no_later_claim(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 64);
	rig_add(&rig, 0, 30);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_measure(&rig, 0, 20, true, false);
	rig_sample(&rig, 28);
	rig_measure(&rig, 0, 50, true, false); /* it lies */
	rig_sample(&rig, 38);
	rig_measure(&rig, 0, 30, true, false);
	rig_sample(&rig, 38);
	rig_ready(&rig, 0);
	rig_finish(&rig, 1);
	settle(&rig, 0, 30, 8, 3);
	assert_true(rig_view(&rig, 0).load_peak_bytes < 34 * GIB);
	rig_close(&rig);
}

/* The same of what running requests seemed to take. */
static void a_wrong_sample_of_work_raises_no_later_claim(void **state)
{
	struct rig rig;

	(void)state;
	open_with_one_known(&rig);
	rig_ask(&rig, 0);
	settle(&rig, 0, 30.5, 8, 3);
	rig_measure(&rig, 0, 50, true, false); /* it lies */
	rig_sample(&rig, 38);
	settle(&rig, 0, 30.5, 8, 3);
	rig_finish(&rig, 2);
	settle(&rig, 0, 30, 8, 3);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes < 34 * GIB);
	rig_close(&rig);
}

/* What it grew by as it ran is its base, once it was seen idle: not both. */
static void what_an_engine_grew_by_is_counted_once(void **state)
{
	struct rig rig;

	(void)state;
	open_with_one_known(&rig);
	rig_ask(&rig, 0);
	settle(&rig, 0, 40, 8, 3);
	rig_finish(&rig, 2);
	settle(&rig, 0, 40, 8, 3);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes >= 40 * GIB);
	assert_true(rig_view(&rig, 0).claim_bytes < 43 * GIB);
	rig_close(&rig);
}

/* What work once took beyond all room is doubted with each refusal: else nothing would ever show that it was wrong. */
static void what_was_learned_of_work_bars_nobody_for_good(void **state)
{
	struct rig rig;
	int refused = 0;

	(void)state;
	open_with_one_known(&rig);
	rig_ask(&rig, 0);
	settle(&rig, 0, 48, 8, 3);
	rig_finish(&rig, 2);
	settle(&rig, 0, 30, 22, 3); /* others take more than then */
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a");
	for (; refused < 40; refused++) {
		uint32_t request = rig_ask(&rig, 0);
		settle(&rig, 0, 30, 22, 15);
		if (rig_view(&rig, 0).running) {
			rig_finish(&rig, request);
			break;
		}
	}
	assert_true(refused > 0 && refused < 10);
	rig_close(&rig);
}

/* ---- alone on the machine ---- */

static uint32_t ask_needing(struct rig *rig, uint32_t model, int64_t gib)
{
	struct request_spec spec = { .priority = PRIORITY_INTERACTIVE, .expected_us = 5 * SEC };

	spec.need.bytes[0][USE_HOST] = gib * GIB;
	return rig_ask_as(rig, model, spec);
}

/* It would be loaded again at once, and evicted again. */
static void who_is_alone_and_waited_for_is_not_evicted_under_pressure(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 15);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	settle(&rig, 0, 15, 1, 3);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 0); /* runs while others take what is free */
	ask_needing(&rig, 0, 3);
	rig_expect(&rig, "dispatch 2 a");
	settle(&rig, 0, 15, 4.8, 3);
	rig_finish(&rig, 2);
	settle(&rig, 0, 15, 4.8, 5);
	rig_expect(&rig, "");
	settle(&rig, 0, 15, 1, 1);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

/* It was let in though it may not fit: what was known then is no reason to abort it. */
static void the_load_of_one_alone_is_not_aborted_by_what_it_will_take(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 20)->lower.bytes[0][USE_HOST] = 14 * GIB;
	rig_model(&rig, 0);
	rig_sample(&rig, 2);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	for (int i = 1; i < 10; i++) {
		rig_progress(&rig, 0, (uint32_t)(100 * i));
		settle(&rig, 0, 1.7 * i, 2, 1);
	}
	rig_ready(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_close(&rig);
}

/* Nothing moves, so nothing will change: it starts though memory is nearly full. */
static void starts_are_held_back_only_while_something_moves(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 15)->flags |= MODEL_DECLARED; /* a request needs nothing more */
	rig_model(&rig, 0);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	settle(&rig, 0, 15, 1, 3);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a");
	rig_ask(&rig, 0);
	settle(&rig, 0, 15, 4.8, 3);
	rig_expect(&rig, "");
	rig_finish(&rig, 2);
	settle(&rig, 0, 15, 4.8, 1);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

/* ---- in each other's way ---- */

/* What a first one needs is not there and nothing that ends would bring it: the others start. */
static void who_is_blocked_while_nothing_runs_holds_up_nobody(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 4);
	rig_pin(&rig, 1, true);
	rig_sample(&rig, 1);
	for (uint32_t model = 0; model < 2; model++) {
		uint32_t request = rig_ask(&rig, model);
		rig_load(&rig, model);
		rig_finish(&rig, request);
	}
	for (int i = 0; i < 3; i++) {
		rig_measure(&rig, 0, 6, true, false);
		rig_measure(&rig, 1, 4, true, false);
		rig_sample(&rig, i < 2 ? 11 : 16);
	}
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	ask_needing(&rig, 0, 7); /* once others' use has fallen */
	rig_expect(&rig, "");
	struct request_spec batch = { .priority = PRIORITY_BATCH, .expected_us = 500 * SEC };
	rig_ask_as(&rig, 1, batch);
	rig_expect(&rig, "dispatch 4 b");
	rig_close(&rig);
}

static void what_is_reserved_for_nobody_is_given_back(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 12)->flags = MODEL_AUTOLOAD | MODEL_RESERVATION | MODEL_DECLARED;
	rig_model(&rig, 0);
	rig_add(&rig, 1, 10);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_leave(&rig, 1); /* before it was granted */
	rig_ready(&rig, 0);
	rig_expect(&rig, "spawn a, stop a");
	rig_ask(&rig, 1);
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

static void a_load_that_nobody_waits_for_keeps_nobody_from_his(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 12);
	rig_add(&rig, 1, 12);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_leave(&rig, 1);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, abort a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

static void for_one_that_loads_alone_its_own_mate_goes(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 4)->set = 1;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 0)->set = 1;
	rig.spec[1].flags |= MODEL_MEASURE_FIRST;
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	settle(&rig, 0, 4, 1, 3);
	rig_model(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

/* A server that somebody else runs stays, and its mates go all the same. */
static void a_server_of_somebody_else_keeps_no_mate(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	for (uint32_t model = 0; model < 2; model++)
		rig_spec(&rig, model, model ? 12 : 0)->set = 1;
	rig.spec[0].flags |= MODEL_OUTSIDE;
	rig_model(&rig, 0);
	rig_model(&rig, 1);
	rig_add(&rig, 2, 10);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	settle(&rig, 1, 12, 1, 3);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn c");
	rig_close(&rig);
}

/* ---- tried for ever ---- */

/* Beside what is pinned there is no room for what nobody can tell: its clients hear so. */
static void what_does_not_fit_beside_pins_is_not_measured_for_ever(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 12);
	rig_pin(&rig, 0, true);
	rig_spec(&rig, 1, 0)->flags |= MODEL_MEASURE_FIRST;
	rig_model(&rig, 1);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	for (int tries = 0; tries < 2; tries++) {
		rig_expect(&rig, "spawn b");
		rig_spawned(&rig, 1);
		rig_measure(&rig, 0, 12, true, false);
		rig_measure(&rig, 1, 6.9, true, false);
		rig_sample(&rig, 19.9);
		rig_expect(&rig, tries ? "abort b, reject 2 no_room" : "abort b");
		rig_exit(&rig, 1, false);
		rig_measure(&rig, 0, 12, true, false);
		rig_measure(&rig, 1, 0, true, true);
		rig_sample(&rig, 13);
		rig_wait(&rig, 60);
	}
	rig_expect(&rig, "");
	rig_close(&rig);
}

static void under_pressure_beside_pins_waiting_has_an_end(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 12);
	rig_add(&rig, 1, 3);
	rig_pin(&rig, 0, true);
	rig_sample(&rig, 1);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	rig_wait(&rig, 50);
	rig_expect(&rig, "");
	rig_wait(&rig, 12);
	rig_expect(&rig, "reject 2 no_room");
	rig_close(&rig);
}

/* By their own marks nothing would ever be loaded beside what others use here, and what is pinned. */
static void the_earlier_policies_do_not_stand_still(void **state)
{
	static const enum policy policies[] = { POLICY_THRESHOLD, POLICY_HYSTERESIS, POLICY_COST_BENEFIT,
		                                POLICY_ONE_AT_A_TIME, POLICY_LRU };
	struct rig rig;

	(void)state;
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		rig_open_learning(&rig, 20);
		rig.machine.policy = policies[i];
		rig_machine(&rig);
		rig_add(&rig, 0, 2);
		rig_add(&rig, 1, 1);
		rig_pin(&rig, 1, true);
		rig_sample(&rig, 1);
		rig_ask(&rig, 1);
		rig_load(&rig, 1);
		rig_finish(&rig, 1);
		settle(&rig, 1, 1, 15, 3);
		rig_expect(&rig, "spawn b, dispatch 1 b");
		rig_ask(&rig, 0);
		settle(&rig, 1, 1, 15, 60);
		rig_expect(&rig, "spawn a");
		rig_close(&rig);
	}
}

/* Each can only run alone and is waited for, so neither goes for the other: who came later is told so. */
static void of_two_that_can_only_run_alone_one_yields(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };

	(void)state;
	big.need.bytes[0][USE_HOST] = 15 * GIB;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 6);
	rig_ask_as(&rig, 0, big);
	rig_ask_as(&rig, 1, big);
	rig_load(&rig, 0);
	rig_load(&rig, 1);
	rig_wait(&rig, 50);
	rig_expect(&rig, "spawn a, spawn b");
	rig_wait(&rig, 15);
	rig_expect(&rig, "reject 2 no_room, stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "dispatch 1 a");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_wrong_sample_does_not_bar_a_model),
		cmocka_unit_test(a_wrong_first_sample_is_corrected_by_the_next),
		cmocka_unit_test(a_wrong_sample_of_a_load_raises_no_later_claim),
		cmocka_unit_test(a_wrong_sample_of_work_raises_no_later_claim),
		cmocka_unit_test(what_an_engine_grew_by_is_counted_once),
		cmocka_unit_test(what_was_learned_of_work_bars_nobody_for_good),
		cmocka_unit_test(who_is_alone_and_waited_for_is_not_evicted_under_pressure),
		cmocka_unit_test(the_load_of_one_alone_is_not_aborted_by_what_it_will_take),
		cmocka_unit_test(starts_are_held_back_only_while_something_moves),
		cmocka_unit_test(who_is_blocked_while_nothing_runs_holds_up_nobody),
		cmocka_unit_test(what_is_reserved_for_nobody_is_given_back),
		cmocka_unit_test(a_load_that_nobody_waits_for_keeps_nobody_from_his),
		cmocka_unit_test(for_one_that_loads_alone_its_own_mate_goes),
		cmocka_unit_test(a_server_of_somebody_else_keeps_no_mate),
		cmocka_unit_test(what_does_not_fit_beside_pins_is_not_measured_for_ever),
		cmocka_unit_test(under_pressure_beside_pins_waiting_has_an_end),
		cmocka_unit_test(the_earlier_policies_do_not_stand_still),
		cmocka_unit_test(of_two_that_can_only_run_alone_one_yields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
