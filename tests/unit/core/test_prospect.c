/* Who may hope for room, and who is told that there is none: for good, or for now. */
#include "rig.h"

#include <stdlib.h>

static void what_can_never_fit_is_refused_once_with_numbers(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_sample(&rig, 2);
	rig_sample(&rig, 5);
	rig_add(&rig, 0, 4);
	rig_add(&rig, 1, 9);
	rig_once(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1); /* 9 + the least foreign use ever seen, 2, is over 10 */
	rig_expect(&rig, "reject 2 never_fits");
	assert_true(rig.reject.decision.need_bytes == 9 * GIB);
	assert_true(rig.reject.decision.room_bytes == 8 * GIB);
	assert_true(rig.reject.decision.capacity_bytes == 10 * GIB);
	assert_true(rig.reject.retry_after_us == 0);
	assert_int_equal(rig.reject.reason, REASON_CAPACITY);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_IDLE);

	rig.machine.limit_bytes = 6 * GIB;
	rig_machine(&rig);
	rig_add(&rig, 2, 7);
	rig_ask(&rig, 2);
	rig_expect(&rig, "reject 3 never_fits");
	assert_int_equal(rig.reject.reason, REASON_LIMIT);

	rig.machine.limit_bytes = INT64_MAX;
	rig.machine.views = 1;
	rig.machine.view[0].cap_bytes = 3 * GIB;
	rig.machine.view[0].mask = VIEW_BIT(0, USE_GPU);
	rig_machine(&rig);
	struct model_spec *gpu = rig_spec(&rig, 3, 0);
	gpu->base.bytes[0][USE_GPU] = gpu->peak.bytes[0][USE_GPU] = 4 * GIB;
	gpu->lower.bytes[0][USE_GPU] = 4 * GIB;
	rig_model(&rig, 3);
	rig_ask(&rig, 3);
	rig_expect(&rig, "reject 4 never_fits");
	assert_int_equal(rig.reject.reason, REASON_VIEW);
	rig_close(&rig);
}

static void an_upper_bound_alone_never_refuses(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 4);
	rig_spec(&rig, 1, 12)->lower.bytes[0][USE_HOST] = 8 * GIB;
	rig_model(&rig, 1);
	rig_once(&rig, 0);
	rig.decisions = true;
	rig_ask(&rig, 1);
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a, [evict a least_recent for b], stop a, "
	                 "[released a room], [load b alone], spawn b");
	rig_close(&rig);
}

/* Nobody who could go is beside it: refused for its estimate alone it would never be served. */
static void an_upper_bound_refuses_nobody_beside_the_pinned(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags |= MODEL_PINNED;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 5)->lower.bytes[0][USE_HOST] = 3 * GIB;
	rig_model(&rig, 1);
	rig_add(&rig, 2, 2);
	rig_once(&rig, 0);
	rig_once(&rig, 2);
	void *scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 1, scratch, &plan));
	assert_int_equal(plan.fits, FITS_AFTER_EVICTION);
	free(scratch);
	rig.decisions = true;
	rig_ask(&rig, 1);
	rig_gone(&rig, 2);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn c, dispatch 2 c, [evict c least_recent for b], stop c, "
	                 "[released c room], [load b alone], spawn b");
	rig.decisions = false;
	rig_load(&rig, 1);
	rig_expect(&rig, "dispatch 3 b");
	rig_finish(&rig, 3);
	rig_ask(&rig, 0);
	rig_expect(&rig, "dispatch 4 a"); /* nothing was promised away that it has */
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn c");
	rig_close(&rig);
}

static void a_plan_beside_the_pinned_says_that_it_is_tight(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags |= MODEL_PINNED;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 5)->lower.bytes[0][USE_HOST] = 3 * GIB;
	rig_model(&rig, 1);
	rig_once(&rig, 0);
	void *scratch = calloc(1, arbiter_bytes(&rig.limits));
	assert_true(arbiter_plan(rig.arbiter, 1, scratch, &plan));
	assert_int_equal(plan.fits, FITS_TIGHT);
	free(scratch);
	rig_close(&rig);
}

/* It takes no room here, but it is there for good. */
static void a_server_of_somebody_else_refuses_nobody(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 0)->flags |= MODEL_OUTSIDE;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 12)->lower.bytes[0][USE_HOST] = 8 * GIB;
	rig_model(&rig, 1);
	rig_once(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b");
	rig_close(&rig);
}

static void pins_stay_and_who_needs_their_room_is_told(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags |= MODEL_PINNED;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 5)->lower.bytes[0][USE_HOST] = 3 * GIB;
	rig_model(&rig, 1);
	rig_sample(&rig, 0);
	rig_once(&rig, 0);
	rig_measure(&rig, 0, 6, true, false);
	rig_sample(&rig, 8); /* others have 2: even the least that it takes is too much, for now */
	rig_ask(&rig, 1);
	rig_wait(&rig, 12);
	rig_expect(&rig, "spawn a, dispatch 1 a, reject 2 no_room");
	assert_int_equal(rig.reject.reason, REASON_PINS);
	assert_true(rig.reject.retry_after_us > 0);
	rig_pin(&rig, 0, false);
	rig_ask(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

/* What a pinned model's requests take ends with them: it keeps nobody out for good. */
static void a_pin_counts_without_its_requests_where_never_is_said(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };
	(void)state;

	big.need.bytes[0][USE_HOST] = 3 * GIB;
	rig_open(&rig, 10);
	rig_spec(&rig, 0, 4)->flags |= MODEL_PINNED;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 7)->lower.bytes[0][USE_HOST] = 5 * GIB;
	rig_model(&rig, 1);
	uint32_t running = rig_ask_as(&rig, 0, big);
	rig_load(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_finish(&rig, running);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

static void others_use_is_waited_for_a_while(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_sample(&rig, 1);
	rig_sample(&rig, 6);
	rig_add(&rig, 0, 7);
	rig_ask(&rig, 0);
	rig_wait(&rig, 5);
	rig_expect(&rig, "");
	assert_int_equal(rig_view(&rig, 0).state, MODEL_QUEUED);
	assert_int_equal(rig_view(&rig, 0).reason, REASON_CAPACITY);
	rig_sample(&rig, 2);
	rig_expect(&rig, "spawn a");
	rig_gone(&rig, 0);
	rig_sample(&rig, 6);
	rig_wait(&rig, 12);
	rig_expect(&rig, "reject 1 no_room");
	rig_close(&rig);
}

static void others_use_that_falls_is_waited_for_longer(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_sample(&rig, 1);
	rig_sample(&rig, 8);
	rig_add(&rig, 0, 7);
	rig_ask(&rig, 0);
	for (int i = 0; i < 20; i++) {
		rig_wait(&rig, 1);
		rig_sample(&rig, 8 - 0.2 * i);
	}
	rig_expect(&rig, ""); /* 4.2 in use after 20 s: no room yet, but it comes */
	for (int i = 20; i < 28; i++) {
		rig_wait(&rig, 1);
		rig_sample(&rig, 8 - 0.2 * i);
	}
	rig_expect(&rig, "spawn a");
	rig_gone(&rig, 0);
	for (int i = 0; i < 12; i++) { /* it falls no more */
		rig_sample(&rig, 6);
		rig_wait(&rig, 1);
	}
	rig_expect(&rig, "reject 1 no_room");
	rig_close(&rig);
}

/* One idle sample, as every second has one. */
static void idle_at(struct rig *rig, double gib)
{
	rig_wait(rig, 1);
	rig_measure(rig, 0, gib, true, false);
	rig_sample(rig, gib);
}

static void unload(struct rig *rig)
{
	rig_ask_as(rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(rig, 0);
	rig_wait(rig, 1);
	rig->words_length = 0;
	rig->words[0] = '\0';
}

/* Its estimate is 6, half of that is sure, and 5 is allowed. */
static void open_below_limit(struct rig *rig)
{
	rig_open_learning(rig, 100);
	rig->machine.limit_bytes = 5 * GIB;
	rig_machine(rig);
	rig_spec(rig, 0, 6)->lower.bytes[0][USE_HOST] = 3 * GIB;
	rig_model(rig, 0);
	rig_once(rig, 0);
	rig_expect(rig, "spawn a, dispatch 1 a");
}

static enum fits planned(const struct rig *rig, struct plan *plan)
{
	void *scratch = calloc(1, arbiter_bytes(&rig->limits));

	assert_true(arbiter_plan(rig->arbiter, 0, scratch, plan));
	free(scratch);
	return plan->fits;
}

static void what_was_measured_is_the_least_that_it_takes(void **state)
{
	struct rig rig;
	struct plan plan;
	struct decision never;
	(void)state;

	open_below_limit(&rig);
	for (int i = 0; i < 4; i++)
		idle_at(&rig, 5.25);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_NEVER);
	assert_true(plan.measured);
	assert_int_equal(plan.reason, REASON_LIMIT);
	assert_true(plan.asked_bytes == 5 * GIB + GIB / 4 && plan.room_bytes == 5 * GIB);
	assert_true(plan.wait_estimate_us == 0);
	assert_true(arbiter_never(rig.arbiter, 0, &never));
	assert_true(never.need_bytes == 5 * GIB + GIB / 4 && never.measured_bytes == never.need_bytes);
	rig_ask(&rig, 0);
	rig_expect(&rig, "reject 3 never_fits");
	assert_true(rig.reject.decision.need_bytes == 5 * GIB + GIB / 4);
	assert_true(rig.reject.decision.measured_bytes == 5 * GIB + GIB / 4);
	assert_int_equal(rig.reject.reason, REASON_LIMIT);

	rig.machine.limit_bytes = 6 * GIB;
	rig_machine(&rig);
	assert_false(arbiter_never(rig.arbiter, 0, &never));
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

/* A reload, whatever it changes, has it measured once more. */
static void what_was_measured_is_measured_once_more_after_a_reload(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	open_below_limit(&rig);
	for (int i = 0; i < 4; i++)
		idle_at(&rig, 5.25);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_NEVER);
	rig_model(&rig, 0);
	assert_int_equal(planned(&rig, &plan), FITS_TIGHT);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

/* One that nothing confirms, and two that agreed and were wrong. */
static void samples_that_lie_keep_nobody_out(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	open_below_limit(&rig);
	idle_at(&rig, 30);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_TIGHT);
	rig_once(&rig, 0);
	idle_at(&rig, 4);
	idle_at(&rig, 30);
	idle_at(&rig, 4);
	idle_at(&rig, 30);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_TIGHT);
	rig_once(&rig, 0);
	idle_at(&rig, 30);
	idle_at(&rig, 30);
	idle_at(&rig, 4);
	idle_at(&rig, 4);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_TIGHT);
	rig_close(&rig);
}

/* What a turn leaves on the side is not there when it is loaded again. */
static void what_it_keeps_on_the_side_is_not_the_least(void **state)
{
	struct rig rig;
	struct plan plan;
	(void)state;

	rig_open_learning(&rig, 100);
	rig.machine.limit_bytes = 5 * GIB;
	rig_machine(&rig);
	struct model_spec *spec = rig_spec(&rig, 0, 6);
	spec->lower.bytes[0][USE_HOST] = 3 * GIB;
	spec->cache_bytes = GIB;
	rig_model(&rig, 0);
	rig_once(&rig, 0);
	for (int i = 0; i < 4; i++)
		idle_at(&rig, 5.25);
	unload(&rig);
	assert_int_equal(planned(&rig, &plan), FITS_TIGHT);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_can_never_fit_is_refused_once_with_numbers),
		cmocka_unit_test(what_was_measured_is_the_least_that_it_takes),
		cmocka_unit_test(what_was_measured_is_measured_once_more_after_a_reload),
		cmocka_unit_test(samples_that_lie_keep_nobody_out),
		cmocka_unit_test(what_it_keeps_on_the_side_is_not_the_least),
		cmocka_unit_test(an_upper_bound_alone_never_refuses),
		cmocka_unit_test(an_upper_bound_refuses_nobody_beside_the_pinned),
		cmocka_unit_test(a_plan_beside_the_pinned_says_that_it_is_tight),
		cmocka_unit_test(a_server_of_somebody_else_refuses_nobody),
		cmocka_unit_test(pins_stay_and_who_needs_their_room_is_told),
		cmocka_unit_test(a_pin_counts_without_its_requests_where_never_is_said),
		cmocka_unit_test(others_use_is_waited_for_a_while),
		cmocka_unit_test(others_use_that_falls_is_waited_for_longer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
