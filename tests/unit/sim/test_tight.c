/* One model is pinned, and the other's estimate is more than that leaves. */
#include "../cmocka_all.h"

#include "sim/study.h"

/* 64 GB, others 2, a pinned model of 30, and one that is said to take 40. */
static struct study_result play(double ratio)
{
	struct scene scene = {
		.physical_gb = 64, .disk_gbps = 3, .cached_gbps = 9, .horizon_s = 7200, .drain_s = 3600, .tick_s = 1,
		.stall_s = 10, .start_gb = 2, .min_gb = 2, .max_gb = 2, .models = 2, .rng_seed = 1,
		.model = {
			{ .name = "pinned", .base_gb = 30, .estimate_gb = 30, .file_gb = 30, .slots = 1, .bandwidth = 1,
			  .startup_s = 2, .ratio = 1, .pinned = true },
			{ .name = "large", .base_gb = 40, .estimate_gb = 40, .file_gb = 40, .slots = 1, .bandwidth = 1,
			  .startup_s = 2, .ratio = ratio },
		},
	};
	struct study_result result;

	for (double t = 10; t < scene.horizon_s; t += 60)
		for (uint32_t m = 0; m < scene.models; m++) {
			scene_add_session(&scene, t + 30 * m);
			scene_add_step(&scene, &(struct scene_step){ .model = m, .weight = 1, .work_s = 3, .hint_s = 3 });
		}
	scene_sort(&scene);
	assert_true(study_run(&scene, "cotenant", &result));
	scene_free(&scene);
	assert_int_equal(result.invariant_violations, 0);
	assert_int_equal(result.unfinished, 0);
	return result;
}

static void who_takes_less_than_was_said_is_served(void **state)
{
	struct study_result result = play(0.7);

	(void)state;
	assert_int_equal(result.finished, result.requests);
	assert_int_equal(result.loads, 2);
	assert_int_equal(result.ooms, 0);
}

static void who_takes_as_much_as_was_said_is_given_up_before_memory_is_full(void **state)
{
	struct study_result result = play(1);

	(void)state;
	assert_int_equal(result.model[0].requests, result.requests / 2);
	assert_int_equal(result.finished, result.requests / 2); /* the pinned one's, all of them */
	assert_int_equal(result.ooms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_less_than_was_said_is_served),
		cmocka_unit_test(who_takes_as_much_as_was_said_is_given_up_before_memory_is_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
