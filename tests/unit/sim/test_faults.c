/* The study's worlds with faults: every kind happens, to all policies alike, and then everything ends. */
#include "../cmocka_all.h"

#include <math.h>
#include <string.h>

#include "sim/faults.h"
#include "sim/study.h"

static struct study_result play(const char *workload, uint64_t seed, const char *policy, bool faults)
{
	struct study_result result;
	struct scene scene;

	assert_true(scene_draw(&scene, workload, seed, faults ? 1 : 1.5, faults ? 2 : 6));
	if (faults)
		faults_scene(&scene);
	assert_true(study_run(&scene, policy, &result));
	scene_free(&scene);
	return result;
}

/* The arbiter's own rules are proved after each of its steps there. */
static void the_default_policy_outlives_all_faults(void **state)
{
	uint64_t seen[FAULT_KINDS] = { 0 };

	(void)state;
	for (uint32_t i = 0; scene_workload(i); i++) {
		struct study_result result = play(scene_workload(i), 7 + i, "cotenant", true);
		if (result.invariant_violations || result.unfinished)
			fail_msg("%s: %u violations, %lu without an end", scene_workload(i),
			         result.invariant_violations, (unsigned long)result.unfinished);
		assert_true(result.overdue_max_s <= result.overdue_bound_s);
		assert_true(result.finished > result.requests / 2);
		assert_int_equal(result.requests, result.finished + result.rejected + result.left);
		for (uint32_t kind = 0; kind < FAULT_KINDS; kind++)
			seen[kind] += result.faults[kind];
	}
	for (uint32_t kind = 0; fault_name(kind); kind++)
		if (!seen[kind])
			fail_msg("%s never happened", fault_name(kind));
}

static void the_earlier_policies_meet_the_same_faults(void **state)
{
	static const enum fault alike[] = { FAULT_LIE, FAULT_CLOCK, FAULT_OTHERS_GREW, FAULT_PINNED };
	struct study_result first = play("mixed48", 3, "cotenant", true);

	(void)state;
	for (uint32_t i = 1; study_policy(i); i++) {
		struct study_result result = play("mixed48", 3, study_policy(i), true);
		assert_int_equal(result.unfinished, 0);
		assert_true(result.faults[FAULT_LOAD_FAILED] + result.faults[FAULT_LOAD_HUNG] > 0);
		for (size_t k = 0; k < sizeof(alike) / sizeof(alike[0]); k++)
			assert_int_equal(result.faults[alike[k]], first.faults[alike[k]]);
	}
}

static void nothing_goes_wrong_where_nothing_was_asked_for(void **state)
{
	struct study_result result = play("mixed48", 3, "cotenant", false);

	(void)state;
	for (uint32_t kind = 0; kind < FAULT_KINDS; kind++)
		assert_int_equal(result.faults[kind], 0);
	assert_int_equal(result.left, 0);
	assert_int_equal(result.invariant_violations, 0);
}

/* The look at what waits sees one who starves: what is used longest ago goes, and the busy ones never are. */
static void who_starves_is_seen(void **state)
{
	struct study_result starved = play("starve96", 2, "lru", false);
	struct study_result served = play("starve96", 2, "cotenant", false);

	(void)state;
	assert_true(starved.overdue_max_s > starved.overdue_bound_s);
	assert_true(served.overdue_max_s < served.overdue_bound_s / 2);
}

/* More cold models that somebody waits for than are weighed at a time, and more work than there is time for. */
static void of_forty_models_none_is_overlooked(void **state)
{
	struct scene scene = {
		.physical_gb = 64, .disk_gbps = 3, .cached_gbps = 9, .horizon_s = 7200, .drain_s = 36000, .tick_s = 1,
		.stall_s = 10, .start_gb = 4, .min_gb = 4, .max_gb = 4, .models = 40, .rng_seed = 1,
	};
	struct study_result result;

	(void)state;
	for (uint32_t m = 0; m < scene.models; m++) {
		scene.model[m] = (struct scene_model){ .base_gb = 18, .estimate_gb = 18, .file_gb = 18, .slots = 1,
			                               .bandwidth = 1, .startup_s = 2, .ratio = 1 };
		double every = m == 0 ? 1500 : 90;
		for (double t = 10 + m; t < scene.horizon_s; t += every) {
			scene_add_session(&scene, t);
			scene_add_step(&scene, &(struct scene_step){ .model = m, .class = m == 0 ? 2 : 0, .weight = 1,
			                                             .work_s = 3, .hint_s = 3 });
		}
	}
	scene_sort(&scene);
	assert_true(study_run(&scene, "cotenant", &result));
	assert_int_equal(result.invariant_violations, 0);
	assert_true(result.overdue_max_s > 0 && result.overdue_max_s <= result.overdue_bound_s);
	scene_free(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_policy_outlives_all_faults),
		cmocka_unit_test(the_earlier_policies_meet_the_same_faults),
		cmocka_unit_test(nothing_goes_wrong_where_nothing_was_asked_for),
		cmocka_unit_test(who_starves_is_seen),
		cmocka_unit_test(of_forty_models_none_is_overlooked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
