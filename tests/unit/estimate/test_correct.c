/* What loads teach: remembered exactly, carried over with care, bounded with the coverage that is stated. */
#include <stdlib.h>

#include "../cmocka_all.h"
#include "estimate/calibration.h"

#define MIB (INT64_C(1) << 20)

static const struct formula_parts formula = { 4000 * MIB, 300 * MIB, true };

static struct observation load_of(uint64_t build, uint64_t model, uint64_t params, int64_t compute,
                                  int64_t constant)
{
	return (struct observation){ .keys = { build, model, params },
		                     .formula = formula,
		                     .compute_bytes = compute,
		                     .total_bytes = formula.fixed_bytes + compute + constant,
		                     .touched = true };
}

static struct correction correction_of(const struct corrector *c, uint64_t build, uint64_t model,
                                       uint64_t params)
{
	struct correction out;
	struct correction_keys keys = { build, model, params };
	correct(c, &keys, &formula, &out);
	return out;
}

static void nothing_observed_changes_nothing(void **state)
{
	struct corrector *c = corrector_new();
	(void)state;
	struct correction out = correction_of(c, 1, 1, 1);
	assert_int_equal(out.best_bytes, 4300 * MIB);
	assert_int_equal(out.source, CORRECTION_NONE);
	assert_true(out.upper_bytes > out.best_bytes + 300 * MIB); /* a device's constant is hardly known */
	corrector_free(c);
}

static void the_same_launch_takes_the_same(void **state)
{
	struct corrector *c = corrector_new();
	struct observation o = load_of(1, 1, 1, 360 * MIB, 20 * MIB);
	(void)state;
	for (int i = 0; i < 3; i++)
		corrector_observe(c, &o, NULL);
	struct correction out = correction_of(c, 1, 1, 1);
	assert_int_equal(out.source, CORRECTION_MEMO);
	assert_in_range(out.best_bytes, 4378 * MIB, 4382 * MIB);
	/* Another context of that model leans on it, another model of that engine less. */
	struct correction near = correction_of(c, 1, 1, 2), far = correction_of(c, 1, 2, 2);
	assert_int_equal(near.source, CORRECTION_LEARNED);
	assert_true(near.best_bytes < out.best_bytes && near.best_bytes > far.best_bytes);
	assert_true(far.best_bytes > 4300 * MIB);
	corrector_free(c);
}

static void a_new_engine_begins_with_a_tenth(void **state)
{
	struct corrector *c = corrector_new();
	(void)state;
	for (uint64_t i = 0; i < 50; i++) {
		struct observation o = load_of(1, i % 5, i, 330 * MIB, 10 * MIB);
		corrector_observe(c, &o, NULL);
	}
	struct correction before = correction_of(c, 1, 1, 99), after = correction_of(c, 2, 1, 99);
	assert_true(before.is_conformal);
	assert_false(after.is_conformal);
	assert_int_equal(after.observations, 0);
	assert_true(after.factor < before.factor && after.factor > 1);
	assert_true(after.upper_bytes > before.upper_bytes);
	corrector_free(c);
}

static void a_killed_load_takes_more_than_it_had(void **state)
{
	struct corrector *c = corrector_new();
	struct observation killed = { .keys = { 1, 1, 1 }, .formula = formula, .killed_bytes = 6000 * MIB };
	(void)state;
	corrector_observe(c, &killed, NULL);
	struct correction out = correction_of(c, 1, 1, 1);
	assert_int_equal(out.best_bytes, 6000 * MIB);
	assert_true(out.upper_bytes >= 6300 * MIB);
	assert_int_equal(correction_of(c, 1, 1, 2).best_bytes, 4300 * MIB);
	/* Once it came through, that counts. */
	struct observation o = load_of(1, 1, 1, 300 * MIB, 0);
	corrector_observe(c, &o, NULL);
	assert_true(correction_of(c, 1, 1, 1).best_bytes < 4400 * MIB);
	corrector_free(c);
}

static void buffers_not_yet_touched_lower_nothing(void **state)
{
	struct corrector *c = corrector_new();
	struct observation o = load_of(1, 1, 1, 0, 30 * MIB); /* 270 MiB less than was said */
	(void)state;
	o.touched = false;
	corrector_observe(c, &o, NULL);
	assert_in_range(correction_of(c, 1, 1, 1).best_bytes, 4299 * MIB, 4301 * MIB);
	o.total_bytes = 4500 * MIB; /* but more than that is more */
	corrector_observe(c, &o, NULL);
	assert_true(correction_of(c, 1, 1, 1).best_bytes > 4400 * MIB);
	corrector_free(c);

	/* Nor where the engine says that it reserved more than was said. */
	c = corrector_new();
	o = load_of(1, 1, 1, 400 * MIB, 0);
	o.total_bytes = 4050 * MIB;
	o.touched = false;
	corrector_observe(c, &o, NULL);
	assert_in_range(correction_of(c, 1, 1, 1).best_bytes, 4399 * MIB, 4401 * MIB);
	corrector_free(c);
}

static uint64_t dice_state;

static double dice(void)
{
	dice_state = dice_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (double)(dice_state >> 11) / (double)(UINT64_C(1) << 53);
}

/* Each model's buffer has its own factor, each launch its own on top; the engine changes in the middle. */
static void bounds_hold_as_often_as_stated(void **state)
{
	enum { LOADS = 2000 };
	struct observation *stream = calloc(LOADS, sizeof(*stream));
	struct calibration out;
	(void)state;
	assert_non_null(stream);
	dice_state = 7;
	for (int i = 0; i < LOADS; i++) {
		uint64_t build = i < LOADS / 2 ? 1 : 2, model = (uint64_t)(dice() * 30), params = (uint64_t)(dice() * 40);
		double factor = 0.95 + 0.1 * (double)(model % 7) / 7 + 0.02 * (double)(params % 5) + (build == 2 ? 0.25 : 0);
		int64_t compute = (int64_t)(factor * 300 * (double)MIB);
		stream[i] = load_of(build, model, params, dice() < 0.5 ? compute : 0, 0);
		stream[i].total_bytes = formula.fixed_bytes + compute +
		                        (int64_t)((-40 + 12 * (dice() + dice() - 1)) * (double)MIB);
	}
	calibrate(stream, NULL, LOADS, &out);
	assert_int_equal(out.all.loads, LOADS);
	assert_int_equal(out.builds, 2);
	assert_in_range((uint64_t)out.all.covered * 1000 / LOADS, 930, 970);
	assert_in_range((uint64_t)out.build[1].covered * 1000 / out.build[1].loads, 930, 970);
	assert_true(out.all.error_median < 0.002);
	/* What is kept is all there is: the same stream again says the same. */
	struct calibration again;
	calibrate(stream, NULL, LOADS, &again);
	assert_memory_equal(&out, &again, sizeof(out));
	free(stream);
}

/* What is not touched yet is no error of the estimate, and is told all the same: with its sign, and when. */
static void too_much_is_told_with_its_sign(void **state)
{
	enum { SOME = 2 * CALIBRATION_FEW + 1 };
	struct observation stream[SOME];
	int64_t at_ms[SOME];
	struct calibration out;
	(void)state;
	for (int i = 0; i < SOME; i++) {
		at_ms[i] = 1000 * (i + 1);
		stream[i] = load_of(1, (uint64_t)i, 1, 0, 0);
		stream[i].total_bytes = (formula.fixed_bytes + formula.compute_bytes) / 10 * 8;
		stream[i].touched = false;
	}
	calibrate(stream, at_ms, 1, &out);
	assert_true(out.all.error_median == 0);
	assert_true(out.all.off_median > 0.24 && out.all.off_median < 0.26 && out.all.off_p95 == out.all.off_median);
	assert_int_equal(out.all.at_ms, 1000);
	/* A part of time is no single load. */
	calibrate(stream, at_ms, 3, &out);
	assert_int_equal(out.spans, 1);
	calibrate(stream, at_ms, SOME, &out);
	assert_int_equal(out.spans, 3);
	assert_int_equal(out.span[2].at_ms, 1000 * SOME);
	stream[0].total_bytes = (formula.fixed_bytes + formula.compute_bytes) * 2;
	calibrate(stream, NULL, 1, &out);
	assert_true(out.all.off_median < -0.49 && out.all.off_p95 > 0.49 && out.all.error_median > 0.49);
	assert_int_equal(out.all.at_ms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_observed_changes_nothing),
		cmocka_unit_test(too_much_is_told_with_its_sign),
		cmocka_unit_test(the_same_launch_takes_the_same),
		cmocka_unit_test(a_new_engine_begins_with_a_tenth),
		cmocka_unit_test(a_killed_load_takes_more_than_it_had),
		cmocka_unit_test(buffers_not_yet_touched_lower_nothing),
		cmocka_unit_test(bounds_hold_as_often_as_stated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
