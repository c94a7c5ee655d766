/* What is held, what is foreign, and what is learned. */
#include "rig.h"

static struct pool_view pool_of(const struct rig *rig)
{
	struct pool_view pool;
	arbiter_pool(rig->arbiter, 0, &pool);
	return pool;
}

static void foreign_is_what_nobody_here_owns(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_measure(&rig, 0, 4, true, false);
	rig_sample(&rig, 9);
	assert_true(pool_of(&rig).foreign_bytes == 5 * GIB);
	assert_true(pool_of(&rig).held_bytes == 6 * GIB); /* the claim, not yet used */
	assert_true(pool_of(&rig).free_bytes == 9 * GIB);
	rig_measure(&rig, 0, 8, true, false);
	rig_sample(&rig, 9);
	assert_true(pool_of(&rig).held_bytes == 8 * GIB); /* never below what is measured */
	assert_true(pool_of(&rig).foreign_bytes == 1 * GIB);
	rig_measure(&rig, 0, 12, true, false); /* a lie: more than there is in use */
	rig_sample(&rig, 9);
	assert_true(pool_of(&rig).foreign_bytes == 0);
	rig_close(&rig);
}

static void unexplained_growth_belongs_to_claims_in_order_of_opening(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	rig_add(&rig, 0, 6);
	rig_add(&rig, 1, 6);
	rig_sample(&rig, 3);
	rig_ask(&rig, 0);
	rig_ask(&rig, 1);
	rig_measure(&rig, 0, 1, false, false);
	rig_measure(&rig, 1, 0, false, false);
	rig_sample(&rig, 7);
	assert_true(rig_view(&rig, 0).measured_bytes == 4 * GIB);
	assert_true(rig_view(&rig, 1).measured_bytes == 0);
	rig_measure(&rig, 0, 1, false, false);
	rig_measure(&rig, 1, 0, false, false);
	rig_sample(&rig, 11);
	assert_true(rig_view(&rig, 0).measured_bytes == 6 * GIB); /* no more than its claim */
	assert_true(rig_view(&rig, 1).measured_bytes == 2 * GIB);
	assert_true(pool_of(&rig).foreign_bytes == 3 * GIB);
	rig_sample(&rig, 17);
	assert_true(rig_view(&rig, 1).measured_bytes == 6 * GIB);
	assert_true(pool_of(&rig).foreign_bytes == 5 * GIB); /* what nobody owns */
	rig_close(&rig);
}

static void a_load_claims_its_peak_and_then_its_base(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_spec(&rig, 0, 6)->peak.bytes[0][USE_HOST] = 9 * GIB;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 9 * GIB);
	rig_load(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 6 * GIB);
	rig_close(&rig);
}

static void views_caps_and_limits_bind_by_name(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig.machine.pool[0].reserve_bytes = 2 * GIB;
	rig.machine.views = 2;
	rig.machine.view[0] = (struct view_spec){
		.cap_bytes = 16 * GIB,
		.mask = VIEW_BIT(0, USE_HOST) | VIEW_BIT(0, USE_GPU),
	};
	rig.machine.view[1] = (struct view_spec){
		.cap_bytes = 9 * GIB,
		.foreign_bytes = 1 * GIB,
		.mask = VIEW_BIT(0, USE_GPU),
	};
	rig_machine(&rig);
	assert_true(pool_of(&rig).capacity_bytes == 16 * GIB); /* a cap on every use bounds B */
	assert_true(pool_of(&rig).free_bytes == 16 * GIB);     /* for the host */
	rig.machine.limit_bytes = 7 * GIB;
	rig_machine(&rig);
	assert_true(pool_of(&rig).free_bytes == 7 * GIB);
	assert_int_equal(pool_of(&rig).binds, REASON_LIMIT);
	rig_close(&rig);
}

static void a_fixed_margin_stays_free_but_for_one_alone(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig.machine.margin_permille = 100;
	rig_machine(&rig);
	rig_add(&rig, 0, 5);
	rig_spec(&rig, 1, 5)->lower.bytes[0][USE_HOST] = 4 * GIB;
	rig_model(&rig, 1);
	rig_ask(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a"); /* 5 + 5 is over 9 of 10 */
	rig_close(&rig);

	rig_open(&rig, 10);
	rig.machine.margin_permille = 100;
	rig_machine(&rig);
	rig_add(&rig, 0, 10);
	rig.decisions = true;
	rig_ask(&rig, 0);
	rig_expect(&rig, "[load a alone], spawn a");
	rig_close(&rig);
}

static void the_automatic_margin_is_two_sigma_combined(void **state)
{
	struct rig rig;
	(void)state;

	/* 0.98 x 100 = 98; two with sigma 3 and 4 combine to 5: 98 - 10 = 88. */
	rig_open(&rig, 100);
	rig.machine.margin_permille = -1;
	rig_machine(&rig);
	rig_spec(&rig, 0, 44)->sigma.bytes[0][USE_HOST] = 3 * GIB;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 44)->sigma.bytes[0][USE_HOST] = 4 * GIB;
	rig_model(&rig, 1);
	rig_spec(&rig, 2, 45)->sigma.bytes[0][USE_HOST] = 4 * GIB;
	rig_model(&rig, 2);
	rig_ask(&rig, 0);
	rig_ask(&rig, 2);
	rig_expect(&rig, "spawn a");
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

static void what_was_declared_stands_against_a_lower_measurement(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->flags |= MODEL_DECLARED;
	rig_model(&rig, 0);
	uint32_t request = rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, request);
	rig_measure(&rig, 0, 1, true, false);
	rig_sample(&rig, 1);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 0);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 6 * GIB);
	rig_close(&rig);
}

static void what_was_measured_is_claimed_at_the_next_load(void **state)
{
	struct rig rig;
	struct learned_row row[4];
	(void)state;

	rig_open(&rig, 20);
	rig_spec(&rig, 0, 6)->peak.bytes[0][USE_HOST] = 7 * GIB;
	rig_model(&rig, 0);
	uint32_t request = rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_measure(&rig, 0, 9, true, false); /* busy: teaches no base */
	rig_sample(&rig, 9);
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 0);
	rig_finish(&rig, request);
	rig_measure(&rig, 0, 3.5, true, false);
	rig_sample(&rig, 4);
	rig_measure(&rig, 0, 4, true, false); /* one alone may be wrong */
	rig_sample(&rig, 4);
	rig_measure(&rig, 0, 4, true, false);
	rig_sample(&rig, 4);
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 1);
	assert_int_equal(row[0].loads, 1);
	assert_true(row[0].file_key == 1 && row[0].base.bytes[0][USE_HOST] == 4 * GIB);
	assert_true(row[0].sigma.bytes[0][USE_HOST] == 4 * GIB / 20);
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, 0);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 5 * GIB); /* and as much beyond it as before */
	rig_close(&rig);

	/* It comes back after a restart. */
	rig_open(&rig, 20);
	rig_spec(&rig, 0, 6)->peak.bytes[0][USE_HOST] = 7 * GIB;
	rig_model(&rig, 0);
	struct event event = { .type = EVENT_LEARNED, .learned = row[0] };
	rig_step(&rig, &event);
	request = rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes == 5 * GIB);
	rig_load(&rig, 0);
	rig_finish(&rig, request);
	rig_measure(&rig, 0, 4.5, true, false);
	rig_sample(&rig, 5);
	/* But takes back nothing that this life showed. */
	rig_step(&rig, &event);
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 1);
	assert_true(row[0].loads == 2 && row[0].base.bytes[0][USE_HOST] == (int64_t)(4.5 * GIB));
	rig_close(&rig);
}

static void idle_at(struct rig *rig, double gib)
{
	for (int i = 0; i < 2; i++) {
		rig_measure(rig, 0, gib, true, false);
		rig_sample(rig, gib);
	}
}

static int64_t claimed_anew(struct rig *rig)
{
	rig_ask_as(rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(rig, 0);
	rig_ask_as(rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	return rig_view(rig, 0).claim_bytes;
}

/* 8 GiB, of which 4 are buffers: 1 of those in proportion to the context. */
static void open_with_buffers(struct rig *rig, const struct learned_row *row)
{
	rig_open(rig, 20);
	struct model_spec *spec = rig_spec(rig, 0, 8);
	spec->compute_bytes = 4 * GIB;
	spec->compute_context_bytes = GIB;
	spec->context_tokens = 4096;
	spec->batch_tokens = 512;
	rig_model(rig, 0);
	struct event event = { .type = EVENT_LEARNED };
	if (row)
		event.learned = *row;
	if (row)
		rig_step(rig, &event);
	rig_ask_as(rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	rig_load(rig, 0);
}

static void buffers_that_no_long_prompt_touched_stay_counted(void **state)
{
	struct learned_row row[4];
	struct rig rig;
	(void)state;

	/* Idle from its load on: as estimated, and not above what it can come to. */
	open_with_buffers(&rig, NULL);
	idle_at(&rig, 5);
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 1);
	assert_true(claimed_anew(&rig) == 8 * GIB);
	rig_close(&rig);
	open_with_buffers(&rig, NULL);
	idle_at(&rig, 3);
	assert_true(claimed_anew(&rig) == 7 * GIB);
	rig_close(&rig);

	/* The next life of the daemon does not believe less. */
	open_with_buffers(&rig, row);
	idle_at(&rig, 5);
	assert_true(claimed_anew(&rig) == 8 * GIB);
	rig_close(&rig);
}

static int64_t learned_base(struct rig *rig)
{
	struct learned_row row;

	assert_int_equal(arbiter_export(rig->arbiter, &row, 1), 1);
	return row.base.bytes[0][USE_HOST];
}

static void a_long_prompt_shows_what_it_touched(void **state)
{
	struct rig rig;
	(void)state;

	open_with_buffers(&rig, NULL);
	rig_answer(&rig, rig_ask(&rig, 0), 500, 1000, 10, 10); /* shorter than a batch */
	idle_at(&rig, 5);
	assert_true(learned_base(&rig) == 8 * GIB);
	rig_answer(&rig, rig_ask(&rig, 0), 512 + 2048, 1000, 10, 10);
	idle_at(&rig, 6);
	assert_true(learned_base(&rig) == 6 * GIB + GIB / 2); /* half the context was filled */
	rig_answer(&rig, rig_ask(&rig, 0), 512 + 4096, 1000, 10, 10);
	idle_at(&rig, 6.25);
	assert_true(learned_base(&rig) == 6 * GIB + GIB / 4);
	rig_close(&rig);
}

static void a_prompt_cache_that_is_not_full_stays_counted(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_spec(&rig, 0, 8)->cache_bytes = 3 * GIB;
	rig_model(&rig, 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_LOAD });
	rig_load(&rig, 0);
	idle_at(&rig, 5.5);
	assert_true(learned_base(&rig) == 8 * GIB);
	rig_close(&rig);
}

static void run_out(struct rig *rig)
{
	struct event event = { .type = EVENT_INSTANCE_EXITED };

	event.instance.instance = rig_view(rig, 0).instance;
	event.instance.fail = FAIL_OUT_OF_MEMORY;
	rig_step(rig, &event);
	rig_measure(rig, 0, 0, true, true);
	rig_sample(rig, 0);
}

static int64_t claimed_mib(struct rig *rig)
{
	return rig_view(rig, 0).claim_bytes >> 20;
}

static void who_ran_out_of_memory_is_allowed_more_for_a_while(void **state)
{
	struct request_spec load = { .kind = REQUEST_LOAD }, unload = { .kind = REQUEST_UNLOAD };
	struct rig rig;
	struct learned_row row[4];
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 5);
	rig_ask_as(&rig, 0, load);
	assert_int_equal(claimed_mib(&rig), 5 * 1024);
	rig_load(&rig, 0);
	rig_measure(&rig, 0, 5, true, false);
	rig_sample(&rig, 5);
	run_out(&rig);
	rig_ask_as(&rig, 0, load);
	assert_int_equal(claimed_mib(&rig), 5 * 1024 + 512);
	run_out(&rig); /* while it loads */
	rig_wait(&rig, 10);
	rig_ask_as(&rig, 0, load);
	assert_int_equal(claimed_mib(&rig), 6 * 1024);
	rig_load(&rig, 0);
	assert_int_equal(claimed_mib(&rig), 5 * 1024); /* what it takes when loaded is measured */
	assert_int_equal(arbiter_export(rig.arbiter, row, 4), 1);
	assert_int_equal(row[0].caution_milli, 2000);
	rig_ask_as(&rig, 0, unload);
	rig_gone(&rig, 0);
	rig_ask_as(&rig, 0, load);
	assert_int_equal(claimed_mib(&rig), 5 * 1024 + 512);
	rig_close(&rig);

	/* A restart does not forget it. */
	rig_open(&rig, 20);
	rig_add(&rig, 0, 5);
	struct event event = { .type = EVENT_LEARNED, .learned = row[0] };
	rig_step(&rig, &event);
	event.learned.caution_milli = CAUTION_MILLI_MAX + 1;
	rig_step(&rig, &event);
	assert_int_equal(arbiter_counters(rig.arbiter)->invalid_events, 1);
	rig_ask_as(&rig, 0, load);
	assert_int_equal(claimed_mib(&rig), 6 * 1024);
	rig_close(&rig);
}

static void a_claim_ends_when_the_bytes_are_seen_back(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 6, true, false);
	rig_sample(&rig, 7);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	/* Read before the exit: proves nothing, though it says gone. */
	rig_measure(&rig, 0, 0, true, true);
	rig_exit(&rig, 0, false);
	rig_sample(&rig, 1);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_UNLOADING);
	assert_true(pool_of(&rig).held_bytes == 6 * GIB);
	rig_measure(&rig, 0, 3, true, true); /* gone, but the driver still counts for it */
	rig_sample(&rig, 4);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_UNLOADING);
	rig_wait(&rig, 2);
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 1);
	assert_int_equal(rig_view(&rig, 0).state, MODEL_UNLOADED);
	assert_true(pool_of(&rig).held_bytes == 0);
	struct decision kept[DECISIONS_KEPT];
	assert_true(arbiter_decisions(rig.arbiter, 0, kept) >= 4);
	assert_int_equal(kept[0].kind, DECISION_RELEASED);
	assert_true(kept[0].wait_us == 2 * SEC);
	/* What it had, and by how much the machine has less in use since then. */
	assert_true(kept[0].measured_bytes == 6 * GIB);
	assert_true(kept[0].machine_bytes == 6 * GIB);
	assert_true(kept[0].claim_bytes == 6 * GIB);
	assert_int_equal(kept[1].kind, DECISION_UNLOAD);
	rig_close(&rig);
}

/* It claims six, had four, and while it went others took one more. */
static void what_came_back_is_what_was_measured(void **state)
{
	struct rig rig;
	struct decision kept[DECISIONS_KEPT];
	(void)state;

	rig_open(&rig, 20);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 4, true, false);
	rig_sample(&rig, 5);
	rig_ask_as(&rig, 0, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_measure(&rig, 0, 2, true, false); /* half of it is back while it ends: that counts too */
	rig_sample(&rig, 3);
	rig_exit(&rig, 0, false);
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 2);
	arbiter_decisions(rig.arbiter, 0, kept);
	assert_int_equal(kept[0].kind, DECISION_RELEASED);
	assert_true(kept[0].measured_bytes == 4 * GIB);
	assert_true(kept[0].machine_bytes == 3 * GIB);
	assert_true(kept[0].claim_bytes == 6 * GIB);
	assert_int_equal(kept[1].kind, DECISION_UNLOAD);
	assert_true(kept[1].measured_bytes == 4 * GIB);
	assert_true(kept[1].claim_bytes == 6 * GIB);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(foreign_is_what_nobody_here_owns),
		cmocka_unit_test(unexplained_growth_belongs_to_claims_in_order_of_opening),
		cmocka_unit_test(a_load_claims_its_peak_and_then_its_base),
		cmocka_unit_test(views_caps_and_limits_bind_by_name),
		cmocka_unit_test(a_fixed_margin_stays_free_but_for_one_alone),
		cmocka_unit_test(the_automatic_margin_is_two_sigma_combined),
		cmocka_unit_test(what_was_declared_stands_against_a_lower_measurement),
		cmocka_unit_test(what_was_measured_is_claimed_at_the_next_load),
		cmocka_unit_test(buffers_that_no_long_prompt_touched_stay_counted),
		cmocka_unit_test(a_long_prompt_shows_what_it_touched),
		cmocka_unit_test(a_prompt_cache_that_is_not_full_stays_counted),
		cmocka_unit_test(who_ran_out_of_memory_is_allowed_more_for_a_while),
		cmocka_unit_test(a_claim_ends_when_the_bytes_are_seen_back),
		cmocka_unit_test(what_came_back_is_what_was_measured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
