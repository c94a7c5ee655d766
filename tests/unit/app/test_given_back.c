#include "../cmocka_all.h"

#include "app/given_back.h"

#define MIB (INT64_C(1) << 20)
#define SEC INT64_C(1000000)

/* It had 2000 MiB that may stay behind, beside 3000 MiB that nobody owned. */
static struct given_back begun(int64_t unowned_mib)
{
	struct given_back g;

	given_back_begin(&g, 100 * SEC, 2000 * MIB, 2100 * MIB, 3000 * MIB, unowned_mib * MIB);
	return g;
}

static enum given_back_news look(struct given_back *g, int64_t seconds, int64_t unowned_mib)
{
	return given_back_look(g, (100 + seconds) * SEC, unowned_mib * MIB);
}

static void what_came_back_is_not_awaited(void **state)
{
	struct given_back g = begun(3000);
	(void)state;

	assert_int_equal(g.ended_at_us, 0);
	assert_int_equal(look(&g, 20, 9000), GIVEN_BACK_NO_NEWS);
	g = begun(3250); /* a little may be anybody's */
	assert_int_equal(g.ended_at_us, 0);
}

static void what_stays_is_told_late_and_given_up(void **state)
{
	struct given_back g = begun(4500);
	(void)state;

	assert_int_equal(look(&g, 9, 4500), GIVEN_BACK_NO_NEWS);
	assert_int_equal(look(&g, 10, 4500), GIVEN_BACK_LATE);
	assert_true(g.missing_bytes == 1500 * MIB);
	assert_int_equal(look(&g, 30, 4400), GIVEN_BACK_NO_NEWS);
	assert_int_equal(look(&g, 60, 4400), GIVEN_BACK_NEVER);
	assert_true(g.missing_bytes == 1400 * MIB);
	assert_int_equal(look(&g, 70, 4400), GIVEN_BACK_NO_NEWS);
	assert_int_equal(look(&g, 900, 3000), GIVEN_BACK_WHOLE); /* somebody removed the file */
}

static void what_comes_late_ends_it(void **state)
{
	struct given_back g = begun(4500);
	(void)state;

	assert_int_equal(look(&g, 3, 3010), GIVEN_BACK_NO_NEWS);
	assert_int_equal(g.ended_at_us, 0);
	g = begun(4500);
	assert_int_equal(look(&g, 11, 4500), GIVEN_BACK_LATE);
	assert_int_equal(look(&g, 20, 3010), GIVEN_BACK_WHOLE);
}

/* Never more than it had; and what others take later is theirs. */
static void others_are_not_blamed_on_it(void **state)
{
	struct given_back g = begun(9000);
	(void)state;

	assert_true(g.missing_bytes == 2000 * MIB);
	look(&g, 1, 3500);
	look(&g, 2, 9000);
	assert_true(g.missing_bytes == 500 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_came_back_is_not_awaited),
		cmocka_unit_test(what_stays_is_told_late_and_given_up),
		cmocka_unit_test(what_comes_late_ends_it),
		cmocka_unit_test(others_are_not_blamed_on_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
