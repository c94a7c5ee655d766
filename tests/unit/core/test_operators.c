/* What operators and the configuration ask for: load, unload, stop, pin, preload, reload, shutdown. */
#include "rig.h"

static void a_pinned_model_stays_loaded_though_idle(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->unload_after_us = 60 * SEC;
	rig_model(&rig, 0);
	rig_pin(&rig, 0, true);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_wait(&rig, 600);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_pin(&rig, 0, false);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

static void operators_unload_stop_and_load(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_expect(&rig, "done 1");
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, done 2");
	/* Nobody's request waits for it: what is said is what was ended. */
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_expect(&rig, "stop a");
	assert_int_equal(rig.last.kind, DECISION_UNLOAD);
	rig_gone(&rig, 0);
	rig_expect(&rig, "done 3");
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	assert_int_equal(rig.last.kind, DECISION_QUEUE);
	assert_int_equal(rig.last.request_kind, REQUEST_LOAD);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, done 4");
	rig_ask(&rig, 0);
	/* An unload drains ... */
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_expect(&rig, "dispatch 5 a");
	assert_int_equal(rig.last.kind, DECISION_DRAIN);
	assert_int_equal(rig.last.reason, REASON_OPERATOR);
	rig_finish(&rig, 5);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "done 6");
	/* ... and a stop does not. */
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 7 a");
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_STOP });
	rig_expect(&rig, "stop a, reject 8 cancelled, cancel 7 cancelled");
	rig_finish(&rig, 7);
	rig_gone(&rig, 0);
	rig_expect(&rig, "done 9");
	rig_close(&rig);
}

static void an_unload_is_cut_at_the_drain_timeout(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_wait(&rig, 19);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_wait(&rig, 2);
	rig_expect(&rig, "cancel 1 draining");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

static void a_wish_takes_nothing_from_anybody(void **state)
{
	struct rig rig;
	struct request_spec wish = { .kind = REQUEST_UNLOAD, .flags = REQUEST_WISH };
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask_as(&rig, 0, wish);
	rig_expect(&rig, "spawn a, dispatch 1 a, reject 2 wish_refused");
	rig_finish(&rig, 1);
	rig_pin(&rig, 0, true);
	rig_ask_as(&rig, 0, wish);
	rig_expect(&rig, "reject 3 wish_refused");
	rig_pin(&rig, 0, false);
	rig_ask_as(&rig, 0, wish);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

static void a_server_of_somebody_else_takes_no_room_and_never_goes(void **state)
{
	struct rig rig;
	struct request_spec wish = { .kind = REQUEST_UNLOAD, .flags = REQUEST_WISH };
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 1, 9);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	struct model_spec *spec = rig_spec(&rig, 0, 0);
	spec->flags |= MODEL_OUTSIDE;
	spec->unload_after_us = SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn b, dispatch 1 b, spawn a");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 2 a");
	rig_finish(&rig, 2);
	rig_wait(&rig, 60);
	rig_ask_as(&rig, 0, wish);
	rig_expect(&rig, "reject 3 wish_refused");
	/* Whoever needs room takes it from others. */
	rig_finish(&rig, 1);
	rig_add(&rig, 2, 8);
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

static void what_runs_under_old_settings_drains_and_starts_anew(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	struct model_spec *spec = rig_spec(&rig, 0, 6);
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	spec->flags |= MODEL_RENEW;
	rig_model(&rig, 0);
	spec->flags &= ~(uint32_t)MODEL_RENEW;
	/* What runs is finished, who comes waits for the new one. */
	rig_ask(&rig, 0);
	rig_expect(&rig, "");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 2 a");
	rig_finish(&rig, 2);
	/* Idle it goes at once, and comes back though nobody asks, and says why; but only this once. */
	rig.decisions = true;
	spec->flags |= MODEL_RENEW;
	rig_model(&rig, 0);
	spec->flags &= ~(uint32_t)MODEL_RENEW;
	rig_gone(&rig, 0);
	rig_expect(&rig, "[unload a config], stop a, [released a config], [load a config], spawn a");
	rig.decisions = false;
	rig_load(&rig, 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 0);
	rig_wait(&rig, 60);
	rig_expect(&rig, "stop a, done 3");
	rig_close(&rig);
}

static void preload_loads_at_start_and_when_room_returns(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags |= MODEL_PRELOAD;
	rig_model(&rig, 0);
	rig_load(&rig, 0);
	rig_add(&rig, 1, 7);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, stop a");
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, 1);
	rig_wait(&rig, 100);
	rig_expect(&rig, "spawn b, dispatch 1 b"); /* nobody goes for what nobody asked for */
	rig_ask_as(&rig, 1, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 1);
	rig_expect(&rig, "stop b, done 2, spawn a");
	/* An operator's unload is the end of it. */
	rig_load(&rig, 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 0);
	rig_expect(&rig, "stop a, done 3");
	rig_close(&rig);
}

static void without_autoload_only_a_load_starts_it(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags = 0;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 1 not_loaded");
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, done 2, dispatch 3 a");
	rig_ask(&rig, 0);
	rig_exit(&rig, 0, false);
	rig_expect(&rig, "reject 4 not_loaded, cancel 3 engine_died");
	rig_close(&rig);
}

static void a_removed_model_drains_and_goes(void **state)
{
	struct rig rig;
	struct model_view view;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig.spec[0].present = 0;
	rig_model(&rig, 0);
	rig_expect(&rig, "reject 2 model_removed");
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 3 unknown_model");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	assert_false(arbiter_model(rig.arbiter, 0, &view));
	rig_close(&rig);
}

static void a_changed_footprint_applies_at_the_next_load(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_add(&rig, 0, 3);
	assert_true(rig_view(&rig, 0).claim_bytes == 6 * GIB);
	rig_finish(&rig, 1);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 0);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 3 * GIB);
	rig_close(&rig);
}

static void shutdown_lets_running_requests_end(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 6);
	rig_add(&rig, 2, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	rig_ask(&rig, 0);
	rig_ask(&rig, 2);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b, spawn c");
	rig_shutdown(&rig);
	rig_expect(&rig, "reject 3 draining, reject 4 draining, abort c, stop b");
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 5 draining");
	rig_gone(&rig, 1);
	rig_gone(&rig, 2);
	rig_wait(&rig, 10);
	rig_expect(&rig, "");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_exit(&rig, 0, false);
	rig_expect(&rig, ""); /* its memory was not seen back yet */
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 1);
	rig_expect(&rig, "drained");
	struct decision kept[DECISIONS_KEPT];
	arbiter_decisions(rig.arbiter, 0, kept);
	assert_int_equal(kept[0].kind, DECISION_RELEASED);
	rig_close(&rig);
}

static void shutdown_cuts_at_the_drain_timeout(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_shutdown(&rig);
	rig_wait(&rig, 21);
	rig_expect(&rig, "spawn a, dispatch 1 a, cancel 1 draining");
	rig_leave(&rig, 1);
	rig_gone(&rig, 0);
	rig_expect(&rig, "stop a, drained");
	rig_close(&rig);
}

static void shutdown_does_not_wait_for_ever_for_a_release(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_shutdown(&rig);
	rig_exit(&rig, 0, false);
	rig_wait(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, stop a");
	rig_wait(&rig, 2);
	rig_expect(&rig, "drained");
	rig_close(&rig);
}

/* Who waits is told why, not that an engine died of it. */
static void a_second_shutdown_cuts_what_runs_at_once(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	rig_shutdown(&rig);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b, stop b");
	rig_shutdown(&rig);
	rig_expect(&rig, "kill a, cancel 1 draining");
	rig_leave(&rig, 1);
	rig_gone(&rig, 0);
	rig_expect(&rig, "");
	rig_gone(&rig, 1);
	rig_expect(&rig, "drained");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pinned_model_stays_loaded_though_idle),
		cmocka_unit_test(operators_unload_stop_and_load),
		cmocka_unit_test(an_unload_is_cut_at_the_drain_timeout),
		cmocka_unit_test(a_wish_takes_nothing_from_anybody),
		cmocka_unit_test(a_server_of_somebody_else_takes_no_room_and_never_goes),
		cmocka_unit_test(what_runs_under_old_settings_drains_and_starts_anew),
		cmocka_unit_test(preload_loads_at_start_and_when_room_returns),
		cmocka_unit_test(without_autoload_only_a_load_starts_it),
		cmocka_unit_test(a_removed_model_drains_and_goes),
		cmocka_unit_test(a_changed_footprint_applies_at_the_next_load),
		cmocka_unit_test(shutdown_lets_running_requests_end),
		cmocka_unit_test(shutdown_cuts_at_the_drain_timeout),
		cmocka_unit_test(shutdown_does_not_wait_for_ever_for_a_release),
		cmocka_unit_test(a_second_shutdown_cuts_what_runs_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
