/* A leak is a slope. */
#include "../cmocka_all.h"

#include "app/leaks.h"

#define MIB (INT64_C(1) << 20)

static struct leak after(const int64_t *changes_mib, uint32_t count)
{
	struct leak leak = { 0 };

	for (uint32_t i = 0; i < count; i++)
		leak_add(&leak, changes_mib[i] * MIB);
	return leak;
}

static void what_grows_each_time_is_a_leak(void **state)
{
	static const int64_t changes[] = { 20, 22, 19, 20, 21, 18 };
	struct leak leak = after(changes, 5);
	(void)state;

	assert_int_equal(leak_slope_bytes(&leak), 0); /* too early to tell */
	leak = after(changes, 6);
	assert_in_range(leak_slope_bytes(&leak), 19 * MIB, 21 * MIB);
	assert_in_range(leak_total_bytes(&leak), 119 * MIB, 121 * MIB);
}

static void what_comes_and_goes_is_none(void **state)
{
	static const int64_t noise[] = { 300, -280, 120, -90, 40, -30, 210, -200 };
	static const int64_t once[] = { 0, 0, 900, 0, 0, 0, 0, 0 };
	static const int64_t small[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	static const int64_t less[] = { -20, -20, -20, -20, -20, -20, -20, -20 };
	const int64_t *all[] = { noise, once, small, less };
	(void)state;

	for (uint32_t i = 0; i < 4; i++) {
		struct leak leak = after(all[i], 8);
		assert_int_equal(leak_slope_bytes(&leak), 0);
	}
}

static void a_leak_that_was_mended_is_forgotten(void **state)
{
	static const int64_t changes[] = { 20, 20, 20, 20, 20, 20, 20, 20 };
	struct leak leak = after(changes, 8);
	(void)state;

	assert_true(leak_slope_bytes(&leak) > 0);
	for (int i = 0; i < LEAK_CYCLES; i++)
		leak_add(&leak, 0);
	assert_int_equal(leak_slope_bytes(&leak), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_grows_each_time_is_a_leak),
		cmocka_unit_test(what_comes_and_goes_is_none),
		cmocka_unit_test(a_leak_that_was_mended_is_forgotten),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
