/* A machine of one's own: the documented one plays; what is wrong in a file is told with its place. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sketch.h"
#include "sim/study.h"

static void the_documented_machine_is_played_by_every_policy(void **state)
{
	struct buf told = BUF_INIT;
	struct sketch *sketch = sketch_read(getenv("MACHINE"), &told);
	struct study_result result;
	struct scene scene;
	(void)state;

	assert_string_equal(buf_cstr(&told), "");
	assert_non_null(sketch);
	sketch_draw(sketch, 1, 1, 1, &scene);
	assert_int_equal(scene.models, 5);
	for (uint32_t i = 0; study_policy(i); i++) {
		assert_true(study_run(&scene, study_policy(i), &result));
		assert_true(result.requests > 100);
		assert_int_equal(result.requests, result.finished);
		assert_true(result.model[0].requests > 0 && result.model[0].loads > 0);
		assert_int_equal(result.model[4].requests, 0); /* a reservation */
	}
	scene_free(&scene);
	sketch_free(sketch);
	buf_release(&told);
}

static struct sketch *read_text(const char *text, struct buf *told)
{
	FILE *file = fopen("sketch.yaml", "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	struct sketch *sketch = sketch_read("sketch.yaml", told);
	remove("sketch.yaml");
	return sketch;
}

/* Values mean what they say: a load's time, a file's size, what arrives when. */
static void what_is_written_is_what_is_drawn(void **state)
{
	struct buf told = BUF_INIT;
	struct scene scene;
	struct sketch *sketch = read_text("machine: {memory: 100GB, disk: 2GB, others: {use: 10GB}}\n"
	                                  "hours: 1h\n"
	                                  "models:\n"
	                                  "  a: {footprint: 10GB, per_request: 1GB, slots: 3, file: 8GB, load: 6s,\n"
	                                  "      actual: 1.25, work: 2s, spread: 0,\n"
	                                  "      requests: [{every: 10s, priority: batch, at_once: 2}]}\n"
	                                  "  b: {footprint: 20GB, reservation: true, requests: [{every: 10m}]}\n",
	                                  &told);
	(void)state;

	assert_string_equal(buf_cstr(&told), "");
	sketch_draw(sketch, 3, 1, 0, &scene);
	assert_true(fabs(scene.physical_gb - 100) < 1e-9 && fabs(scene.start_gb - 10) < 1e-9);
	assert_true(fabs(scene.model[0].startup_s - 2) < 1e-9); /* 6 s less 8 GB at 2 GB/s */
	assert_true(fabs(scene.model[0].estimate_gb - 13) < 1e-9);
	assert_true(fabs(scene.model[0].ratio - 1.25) < 1e-9);
	assert_true(scene.model[1].external && scene.model[1].slots == 1);
	assert_true(fabs(sketch_requests(sketch, 1, 0) - 726) < 1e-6);
	assert_true(scene.sessions > 600 && scene.sessions < 850);
	assert_true(scene.step[0].model == 1 || fabs(scene.step[0].work_s - 2) < 1e-9);
	uint32_t sessions = scene.sessions;
	scene_free(&scene);

	sketch_draw(sketch, 3, 2, 0, &scene);
	assert_true(scene.sessions > sessions * 17 / 10 && scene.sessions < sessions * 23 / 10);
	scene_free(&scene);
	sketch_free(sketch);
	buf_release(&told);
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "", "machine: {memory: 64GiB}" },
		{ "machine: {memory: 8GiB}\n", "models is missing" },
		{ "machine: {memory: 8GiB, dsk: 1GB}\nmodels: {a: {footprint: 1GiB}}\n",
		  "sketch.yaml:1:25: error: machine: unknown key 'dsk'; try: disk" },
		{ "machine: {memory: 8GiB}\nmodels:\n  a: {footprint: 9GiB}\n",
		  "sketch.yaml:3:3: error: models.a: it takes" },
		{ "machine: {memory: 64GiB, disk: 1GB}\nmodels:\n  a: {footprint: 9GiB, load: 1s}\n",
		  "sketch.yaml:3:30: error: models.a.load: the disk needs 9.7 s" },
		{ "machine: {memory: 8GiB}\nmodels:\n  \"a,b\": {footprint: 1GiB}\n", "no commas" },
		{ "machine: {memory: 8GiB}\nmodels:\n  a: {footprint: 1GiB, requests: [{every: 0s}]}\n",
		  "out of range" },
		{ "machine: {memory: 8GiB}\nmodels:\n  a: {footprint: 1GiB, requests: [{every: 1ms}]}\n",
		  "more than a million requests" },
		{ "machine: {memory: 8GiB}\nmodels: {a: {footprint: 1GiB, requests: [{every: 3s, priority: high}]}}\n",
		  "no choice here" },
		{ "machine: [\n", "not valid YAML" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf told = BUF_INIT;
		assert_null(read_text(cases[i].text, &told));
		if (!strstr(buf_cstr(&told), cases[i].says))
			fail_msg("'%s' does not say '%s'", buf_cstr(&told), cases[i].says);
		buf_release(&told);
	}
	struct buf told = BUF_INIT;
	assert_null(sketch_read("there/is/none.yaml", &told));
	assert_non_null(strstr(buf_cstr(&told), "cannot be read"));
	buf_release(&told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_documented_machine_is_played_by_every_policy),
		cmocka_unit_test(what_is_written_is_what_is_drawn),
		cmocka_unit_test(what_is_wrong_is_told_with_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
