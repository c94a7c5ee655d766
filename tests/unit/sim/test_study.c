/* The study's simulator: its random stream, its files, and figures that stand in its tables. */
#include "../cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/dice.h"
#include "sim/study.h"

static void test_the_stream_is_the_studys(void **state)
{
	struct rng rng = dice_seeded(7932);

	(void)state;
	assert_int_equal(rng_next(&rng), 0xcd969d4523ae24f0u);
	assert_int_equal(rng_next(&rng), 0x592aa789ddbf406fu);
	rng = dice_seeded(7932);
	assert_true(fabs(dice_normal(&rng) + 1.0440573130) < 1e-9);
	assert_true(fabs(dice_normal(&rng) + 0.6744856116) < 1e-9);
}

/* Two models that do not fit together, one request each, in turns. */
static const char world[] =
	"{\"workload\": \"two\", \"seed\": 3,"
	" \"machine\": {\"physical_gb\": 20, \"horizon_s\": 100, \"drain_s\": 1000},"
	" \"background\": {\"start_gb\": 2, \"walk_gb\": 0, \"rng_seed\": 1},"
	" \"models\": [{\"name\": \"a\", \"base_gb\": 12, \"startup_s\": 2},"
	"              {\"name\": \"b\", \"base_gb\": 9, \"startup_s\": 1}],"
	" \"sessions\": [[1, [[0, 0, 1, 0, 10, 10]]], [1.5, [[1, 1, 1, 0, 4, 4]]]]}";

static void write_world(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* a: 2 s and 12 GB at 3 GB/s, then 10 s; b: 0.6 s until a is gone, 1 s and 3 s, then 4 s. */
static void test_a_turn_costs_what_the_rules_say(void **state)
{
	struct scene scene;
	struct study_result result;
	struct err err;

	(void)state;
	write_world("world.json", world);
	assert_int_equal(scene_read(&scene, "world.json", &err), 0);
	assert_true(study_run(&scene, "lru", &result));
	assert_int_equal(result.requests, 2);
	assert_int_equal(result.finished, 2);
	assert_int_equal(result.loads, 2);
	assert_true(fabs(result.wait_p95_s[0] - 6) < 1e-6);
	assert_true(fabs(result.wait_max_s - (1 + 6 + 10 + 0.6 + 4 - 1.5)) < 1e-6);
	scene_free(&scene);
	remove("world.json");
}

static void test_what_is_no_world_is_refused(void **state)
{
	static const char *const texts[] = {
		"{",
		"{\"machine\": {\"physical_gb\": 0}}",
		"{\"machine\": {\"physical_gb\": 1}, \"models\": [{\"base_gb\": -1}]}",
		"{\"machine\": {\"physical_gb\": 1}, \"models\": [], \"sessions\": [[1, []]]}",
		("{\"machine\": {\"physical_gb\": 1}, \"models\": [{\"base_gb\": 1}],"
		 " \"sessions\": [[1, [[7, 0, 1, 0, 1, 1]]]]}"),
	};
	struct scene scene;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		write_world("nonsense.json", texts[i]);
		assert_true(scene_read(&scene, "nonsense.json", &err) < 0);
		scene_free(&scene);
	}
	remove("nonsense.json");
}

/* A load of one's own on a drawn machine; a wrong line is named. */
static void test_a_recorded_load_is_played(void **state)
{
	struct study_result result;
	struct scene scene;
	struct err err;

	(void)state;
	assert_true(scene_draw(&scene, "mixed48", 1, 1, 0));
	write_world("load.csv", "t_ms,model,class,service_ms\n2000,chat7b,interactive,1500\n\n1000, embed,batch,20\n");
	assert_int_equal(scene_arrivals(&scene, "load.csv", &err), 0);
	assert_int_equal(scene.sessions, 2);
	assert_true(scene.session[0].start_s < 1.5 && scene.horizon_s < 4);
	assert_true(study_run(&scene, "cotenant", &result));
	assert_int_equal(result.finished, 2);
	write_world("load.csv", "1,chat7b,interactive,5\n2,nobody,batch,5\n");
	assert_true(scene_arrivals(&scene, "load.csv", &err) < 0);
	assert_non_null(strstr(err.text, "load.csv:2"));
	write_world("load.csv", "-1,chat7b,interactive,5\n");
	assert_true(scene_arrivals(&scene, "load.csv", &err) < 0);
	scene_free(&scene);
	remove("load.csv");
}

/* Drawn worlds are of the study's kind: its tables say what is in the comments below. */
static void test_drawn_worlds_are_of_the_studys_kind(void **state)
{
	double lru = 0, threshold = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct scene scene;
		struct study_result result;
		assert_true(scene_draw(&scene, "mixed48", seed, 1, 0));
		assert_true(study_run(&scene, "lru", &result));
		lru += result.wait_mean_s / 6;
		assert_int_equal(result.unfinished, 0);
		assert_true(study_run(&scene, "threshold", &result));
		threshold += result.wait_mean_s / 6;
		scene_free(&scene);
	}
	assert_true(lru > 1.0 && lru < 3.0); /* 1.96 */
	assert_true(threshold > lru && threshold < 5.0); /* 3.18 */
}

/* Who knows what comes waits less; looking ahead changes nothing in the world itself. */
static void test_who_knows_the_future_waits_less(void **state)
{
	double lru = 0, knowing = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct study_result one, other, again;
		struct scene scene;
		assert_true(scene_draw(&scene, "cat96", seed, 1, 2));
		assert_true(study_run(&scene, "lru", &one));
		assert_true(study_run(&scene, "clairvoyant", &other));
		assert_true(study_run(&scene, "clairvoyant", &again));
		assert_int_equal(one.requests, other.requests);
		assert_int_equal(other.requests, other.finished);
		assert_memory_equal(&other, &again, sizeof(other));
		lru += one.wait_mean_s;
		knowing += other.wait_mean_s;
		scene_free(&scene);
	}
	assert_true(knowing < 0.8 * lru);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_stream_is_the_studys),
		cmocka_unit_test(test_a_turn_costs_what_the_rules_say),
		cmocka_unit_test(test_what_is_no_world_is_refused),
		cmocka_unit_test(test_a_recorded_load_is_played),
		cmocka_unit_test(test_drawn_worlds_are_of_the_studys_kind),
		cmocka_unit_test(test_who_knows_the_future_waits_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
