/* How near the memory is to running out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe/danger.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

/* 64 GiB, 3 of them reserve, plenty left, no control group. */
struct scene {
	struct sample sample;
	struct danger_facts facts;
	struct danger_watch watch;
	struct danger danger;
};

static void open_scene(struct scene *scene)
{
	*scene = (struct scene){ .sample = { .total_bytes = 64 * GIB,
		                             .unreclaimable_bytes = 10 * GIB,
		                             .free_bytes = 50 * GIB,
		                             .cgroup_limit_bytes = INT64_MAX,
		                             .psi_some_avg10_centi = -1,
		                             .psi_full_avg10_centi = -1,
		                             .cgroup_some_avg10_centi = -1,
		                             .cgroup_full_avg10_centi = -1 } };
	scene->facts = (struct danger_facts){ .sample = &scene->sample,
		                              .at_us = 1000000,
		                              .reserve_bytes = 3 * GIB,
		                              .free_2m_bytes = -1 };
}

/* `ms` later, with so much left. */
static enum danger_level after(struct scene *scene, int64_t ms, int64_t left_bytes)
{
	scene->facts.at_us += ms * 1000;
	scene->sample.unreclaimable_bytes = scene->sample.total_bytes - left_bytes;
	danger_judge(&scene->watch, &scene->facts, &scene->danger);
	return scene->danger.level;
}

/* All of its limit counts as used for what comes; nobody who is there is ended for it. */
static void a_group_whose_use_is_not_told_is_no_danger(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.cgroup_limit_bytes = scene.sample.cgroup_hard_bytes = 16 * GIB;
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_CRIT);
	open_scene(&scene);
	scene.sample.cgroup_limit_bytes = scene.sample.cgroup_hard_bytes = 16 * GIB;
	scene.sample.cgroup_use_unknown = true;
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_NONE);
}

static void what_is_left_is_held_against_the_reserve(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_NONE);
	assert_int_equal(scene.danger.look_ms, 1000);
	assert_int_equal(after(&scene, 600000, 1600 * MIB), DANGER_NONE);
	assert_int_equal(after(&scene, 600000, 1500 * MIB), DANGER_WARN);
	assert_string_equal(scene.danger.sign, "memory left");
	assert_int_equal(after(&scene, 600000, 1000 * MIB), DANGER_CRIT);
	assert_true(scene.danger.short_bytes >= 3 * GIB - 1000 * MIB);
	assert_int_equal(after(&scene, 1000, 50 * GIB), DANGER_NONE);
}

static void fast_growth_is_heard_early_and_looked_at_often(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.total_bytes = 4 * GIB;
	scene.facts.reserve_bytes = GIB;
	assert_int_equal(after(&scene, 0, 3 * GIB), DANGER_NONE);
	assert_int_equal(after(&scene, 1000, 2560 * MIB), DANGER_NONE);
	assert_int_equal(after(&scene, 1000, 1900 * MIB), DANGER_NONE); /* 3 s */
	assert_in_range(scene.danger.look_ms, 500, 1000);
	assert_int_equal(after(&scene, 900, 1100 * MIB), DANGER_WARN);  /* 1.2 s */
	assert_int_equal(after(&scene, 700, 420 * MIB), DANGER_CRIT);   /* 0.4 s */
	assert_in_range(scene.danger.look_ms, 20, 120);
	/* It stopped: what is left decides alone. */
	after(&scene, 500, 400 * MIB);
	assert_int_equal(after(&scene, 500, 520 * MIB), DANGER_NONE);
	/* Somebody who claimed it grows into it: no surprise. */
	open_scene(&scene);
	scene.facts.reserve_bytes = GIB;
	after(&scene, 0, 3 * GIB);
	scene.facts.promised_bytes = 2 * GIB;
	assert_int_equal(after(&scene, 1000, GIB), DANGER_NONE);
}

static void a_control_group_runs_out_while_the_machine_does_not(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.cgroup_limit_bytes = 8 * GIB;
	scene.sample.cgroup_hard_bytes = 7 * GIB;
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_NONE);
	scene.sample.cgroup_hard_bytes = 8 * GIB - 400 * MIB; /* its reserve is an eighth */
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_WARN);
	scene.sample.cgroup_hard_bytes = 8 * GIB - 300 * MIB;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_CRIT);
	assert_string_equal(scene.danger.sign, "the control group");
	assert_int_equal(scene.danger.left_bytes, 300 * MIB);
}

/* Of two control groups the one thrashes, the other is full and at rest; what the kernel does is told of each. */
static void stalls_are_those_of_the_place_where_little_is_left(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.cgroup_limit_bytes = 8 * GIB;
	scene.sample.cgroup_hard_bytes = 6 * GIB + 100 * MIB;
	scene.sample.psi_some_avg10_centi = 9000;
	scene.sample.cgroup_some_avg10_centi = scene.sample.cgroup_full_avg10_centi = 0;
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_NONE); /* somebody else's */
	scene.sample.cgroup_some_avg10_centi = 1500;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_WARN);
	scene.sample.cgroup_full_avg10_centi = 1500;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_CRIT);
	assert_string_equal(scene.danger.sign, "stalls");
	scene.sample.cgroup_hard_bytes = 3 * GIB; /* it reads a large file, say */
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_NONE);
	/* Where the group does not tell (version 1), the machine's stalls may be its own. */
	scene.sample.cgroup_some_avg10_centi = scene.sample.cgroup_full_avg10_centi = -1;
	scene.sample.cgroup_hard_bytes = 6 * GIB + 100 * MIB;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_CRIT);
}

static void the_kernels_troubles_count_where_little_is_left(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.psi_some_avg10_centi = 5000;
	scene.sample.file_refaults = 1;
	after(&scene, 0, 50 * GIB);
	scene.sample.file_refaults = 1000000;
	assert_int_equal(after(&scene, 1000, 50 * GIB), DANGER_NONE); /* somebody else's group thrashes */
	assert_int_equal(after(&scene, 60000, 10 * GIB), DANGER_CRIT);
	scene.sample.psi_some_avg10_centi = 1100;
	assert_int_equal(after(&scene, 60000, 10 * GIB), DANGER_WARN);
	scene.sample.psi_some_avg10_centi = 0;
	assert_int_equal(after(&scene, 60000, 10 * GIB), DANGER_NONE);
	scene.sample.file_refaults += 30000;
	assert_int_equal(after(&scene, 1000, 10 * GIB), DANGER_WARN);
	scene.sample.file_refaults += 200000;
	assert_int_equal(after(&scene, 1000, 2 * GIB), DANGER_CRIT);
	scene.sample.allocation_stalls = 10;
	after(&scene, 1000, 2 * GIB);
	scene.sample.allocation_stalls += 60;
	assert_int_equal(after(&scene, 1000, 2 * GIB), DANGER_CRIT);
}

static void a_full_compressed_swap_is_danger_and_a_small_one_is_not(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.swap_total_bytes = 29 * GIB;
	scene.sample.swap_free_bytes = GIB / 2;
	scene.sample.anon_bytes = 20 * GIB;
	scene.sample.shmem_bytes = 24 * GIB;
	assert_int_equal(after(&scene, 0, 19 * GIB), DANGER_CRIT); /* 30 % available, and dead 17 s later */
	scene.sample.shmem_bytes = 0;
	assert_int_equal(after(&scene, 60000, 19 * GIB), DANGER_WARN);
	scene.sample.swap_total_bytes = 2 * GIB;
	assert_int_equal(after(&scene, 60000, 19 * GIB), DANGER_NONE);
}

static void nvidia_needs_free_pages_during_a_load(void **state)
{
	struct scene scene;
	(void)state;

	open_scene(&scene);
	scene.sample.free_bytes = GIB / 2; /* the cache has the rest */
	assert_int_equal(after(&scene, 0, 50 * GIB), DANGER_NONE);
	scene.facts.nvidia_unified = true;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_NONE);
	scene.facts.free_2m_bytes = GIB / 4;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_WARN);
	/* A load that reads its file leaves no page free; it has that mended, and is not ended for it. */
	scene.facts.loading = true;
	scene.facts.free_2m_bytes = -1;
	assert_int_equal(after(&scene, 60000, 50 * GIB), DANGER_WARN);
	scene.sample.allocation_stalls = 1;
	assert_int_equal(after(&scene, 1000, 50 * GIB), DANGER_WARN);
	scene.sample.allocation_stalls = 11; /* a second: somebody waits for pages */
	assert_int_equal(after(&scene, 1000, 50 * GIB), DANGER_CRIT);
	assert_int_equal(after(&scene, 1000, 50 * GIB), DANGER_WARN);
	assert_int_equal(after(&scene, 1000, 5 * GIB / 2), DANGER_CRIT); /* of 3 GiB that are to stay */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_whose_use_is_not_told_is_no_danger),
		cmocka_unit_test(what_is_left_is_held_against_the_reserve),
		cmocka_unit_test(fast_growth_is_heard_early_and_looked_at_often),
		cmocka_unit_test(a_control_group_runs_out_while_the_machine_does_not),
		cmocka_unit_test(stalls_are_those_of_the_place_where_little_is_left),
		cmocka_unit_test(the_kernels_troubles_count_where_little_is_left),
		cmocka_unit_test(a_full_compressed_swap_is_danger_and_a_small_one_is_not),
		cmocka_unit_test(nvidia_needs_free_pages_during_a_load),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
