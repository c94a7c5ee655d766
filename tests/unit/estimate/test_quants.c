/* Which quantisation of each lets all stay. */
#include "../cmocka_all.h"

#include "estimate/quants.h"

#define GIB (INT64_C(1) << 30)

static void the_table_goes_down(void **state)
{
	(void)state;

	for (int i = 1; quant_at(i); i++)
		assert_true(quant_at(i)->bits_per_weight < quant_at(i - 1)->bits_per_weight);
	assert_string_equal(quant_at(quant_index("q4_k_m"))->name, "Q4_K_M");
	assert_string_equal(quant_at(quant_index("BF16"))->name, "F16");
	assert_int_equal(quant_index("MXFP4"), -1);
	assert_null(quant_at(-1));
}

static void with_room_all_have_eight_bits(void **state)
{
	struct quant_model models[] = { { "Q4_K_M", 5 * GIB, GIB, 0, 0 }, { "F16", 2 * GIB, GIB, 0, 0 },
		                        { "MXFP4", 12 * GIB, GIB, 0, 0 } };
	int64_t sum;
	(void)state;

	assert_true(quants_choose(models, 3, 100 * GIB, &sum));
	assert_string_equal(quant_at(models[0].chosen)->name, "Q8_0");
	assert_in_range(models[0].chosen_bytes, 8 * GIB, 9 * GIB);
	assert_string_equal(quant_at(models[1].chosen)->name, "F16");
	assert_int_equal(models[2].chosen, -1); /* not known: it stays */
	assert_int_equal(models[2].chosen_bytes, 12 * GIB);
	assert_int_equal(sum, models[0].chosen_bytes + 14 * GIB + 3 * GIB);
}

static void the_largest_gives_first_and_all_fit(void **state)
{
	struct quant_model models[] = { { "Q8_0", 70 * GIB, 4 * GIB, 0, 0 }, { "Q8_0", 8 * GIB, GIB, 0, 0 } };
	int64_t sum;
	(void)state;

	assert_true(quants_choose(models, 2, 60 * GIB, &sum));
	assert_true(sum <= 60 * GIB);
	/* A byte of the large one costs it less: it makes all the room. */
	assert_string_equal(quant_at(models[0].chosen)->name, "Q5_K_M");
	assert_string_equal(quant_at(models[1].chosen)->name, "Q8_0");
}

static void what_cannot_fit_is_said(void **state)
{
	struct quant_model models[] = { { "Q8_0", 70 * GIB, 4 * GIB, 0, 0 } };
	int64_t sum;
	(void)state;

	assert_false(quants_choose(models, 1, 20 * GIB, &sum));
	assert_string_equal(quant_at(models[0].chosen)->name, "Q2_K");
	assert_true(sum > 20 * GIB);
	assert_true(quants_choose(models, 0, 0, &sum));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_goes_down),
		cmocka_unit_test(with_room_all_have_eight_bits),
		cmocka_unit_test(the_largest_gives_first_and_all_fit),
		cmocka_unit_test(what_cannot_fit_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
