/* What is said to take as much as there is, and what then shows to take more. */
#include "../cmocka_all.h"

#include "sim/study.h"

static const struct scene_model models[] = {
	{ .name = "pinned", .base_gb = 30, .estimate_gb = 30, .file_gb = 30, .slots = 1, .bandwidth = 1, .startup_s = 2,
	  .ratio = 1, .pinned = true },
	{ .name = "small", .base_gb = 10, .estimate_gb = 10, .file_gb = 10, .slots = 1, .bandwidth = 1, .startup_s = 2,
	  .ratio = 1 },
	{ .name = "large", .base_gb = 40, .estimate_gb = 40, .file_gb = 40, .slots = 1, .bandwidth = 1, .startup_s = 2 },
};

/* 64 GB, others 2; `first` and the large one, which takes `ratio` of what is said, are asked for in turn. */
static struct study_result play(const struct scene_model *first, double limit_gb, double ratio)
{
	struct scene scene = {
		.physical_gb = 64, .disk_gbps = 3, .cached_gbps = 9, .horizon_s = 7200, .drain_s = 3600, .tick_s = 1,
		.stall_s = 10, .start_gb = 2, .min_gb = 2, .max_gb = 2, .models = 2, .rng_seed = 1,
		.limit_gb = limit_gb,
		.model = { *first, models[2] },
	};
	struct study_result result;

	scene.model[1].ratio = ratio;

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
	struct study_result result = play(&models[0], 0, 0.7);

	(void)state;
	assert_int_equal(result.finished, result.requests);
	assert_int_equal(result.loads, 2);
	assert_int_equal(result.ooms, 0);
}

static void who_takes_as_much_as_was_said_is_given_up_before_memory_is_full(void **state)
{
	struct study_result result = play(&models[0], 0, 1);

	(void)state;
	assert_int_equal(result.model[0].requests, result.requests / 2);
	assert_int_equal(result.finished, result.requests / 2); /* the pinned one's, all of them */
	assert_int_equal(result.ooms, 0);
}

/* It is loaded once; who asks for it later is told at once, and nobody goes for it. */
static void who_was_measured_too_large_is_refused_without_a_wait(void **state)
{
	struct study_result result = play(&models[1], 42, 1.1);

	(void)state;
	assert_int_equal(result.model[0].loads, 2);
	assert_int_equal(result.model[1].loads, 1);
	assert_int_equal(result.finished, result.requests / 2); /* the small one's, all of them */
	assert_true(result.model[1].wait_mean_s < 1);
	assert_int_equal(result.ooms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_less_than_was_said_is_served),
		cmocka_unit_test(who_was_measured_too_large_is_refused_without_a_wait),
		cmocka_unit_test(who_takes_as_much_as_was_said_is_given_up_before_memory_is_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
