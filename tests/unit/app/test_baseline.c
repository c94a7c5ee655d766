/* What the system needs by itself: from readings to a figure, and from one life of the daemon to the next. */
#include "../cmocka_all.h"

#include "app/baseline.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

static const int64_t total = 64 * GIB;

static bool reading(struct baseline *b, int64_t second, int64_t mib, bool quiet)
{
	return baseline_read(b, &(struct baseline_reading){ .at_us = second * 1000000, .foreign_bytes = mib * MIB,
	                                                    .unaccounted_bytes = 300 * MIB, .quiet = quiet });
}

static void without_a_quiet_minute_it_is_the_least_that_was_seen(void **state)
{
	struct baseline b;

	(void)state;
	baseline_open(&b, total, NULL);
	assert_int_equal(baseline_bytes(&b), -1);
	assert_false(reading(&b, 0, 3000, false));
	assert_int_equal(baseline_bytes(&b), 3000 * MIB);
	assert_false(reading(&b, 1, 2500, false));
	assert_false(reading(&b, 100, 4000, false));
	assert_int_equal(baseline_bytes(&b), 2500 * MIB);
	assert_int_equal(b.known.bytes, -1);
}

static void a_quiet_minute_teaches_the_most_that_it_needed(void **state)
{
	struct baseline b;

	(void)state;
	baseline_open(&b, total, NULL);
	assert_false(reading(&b, 0, 2000, true));
	assert_false(reading(&b, 10, 2300, true));
	assert_false(reading(&b, 50, 2100, true));
	assert_true(reading(&b, 60, 2200, true));
	assert_int_equal(b.known.bytes, 2300 * MIB);
	assert_int_equal(b.known.unaccounted_bytes, 300 * MIB);
	/* No more than there ever was. */
	assert_int_equal(baseline_bytes(&b), 2000 * MIB);
	/* A minute in which somebody worked says nothing, one that was quieter does. */
	assert_false(reading(&b, 120, 9000, true));
	assert_int_equal(b.known.bytes, 2300 * MIB);
	for (int64_t s = 130; s < 190; s += 10)
		assert_false(reading(&b, s, 1900, true));
	reading(&b, 190, 1900, true);
	reading(&b, 250, 1900, true);
	assert_int_equal(b.known.bytes, 1900 * MIB);
}

static void what_is_loaded_ends_the_minute(void **state)
{
	struct baseline b;

	(void)state;
	baseline_open(&b, total, NULL);
	reading(&b, 0, 2000, true);
	reading(&b, 50, 2000, true);
	assert_false(reading(&b, 55, 2000, false));
	assert_false(reading(&b, 65, 2000, true));
	assert_false(reading(&b, 124, 2000, true));
	assert_true(reading(&b, 125, 2000, true));
}

static void it_is_kept_until_this_life_knows_better(void **state)
{
	struct baseline b, next;

	(void)state;
	baseline_open(&b, total, NULL);
	reading(&b, 0, 2000, true);
	assert_true(reading(&b, 60, 2000, true));
	/* The next begins while others use much. */
	baseline_open(&next, total, &b.known);
	reading(&next, 100, 30000, false);
	assert_int_equal(baseline_bytes(&next), 2000 * MIB);
	/* The system was updated and needs more: the first quiet minute says so. */
	reading(&next, 200, 2500, true);
	assert_true(reading(&next, 260, 2600, true));
	assert_int_equal(next.known.bytes, 2600 * MIB);
	assert_int_equal(baseline_bytes(&next), 2500 * MIB);
}

static void what_is_kept_must_be_of_this_machine_and_possible(void **state)
{
	const struct baseline_row good = { BASELINE_VERSION, total, 2 * GIB, 100 * MIB };
	struct baseline_row bad[] = { good, good, good, good, good };
	struct baseline b;

	(void)state;
	bad[0].version++;
	bad[1].total_bytes /= 2;
	bad[2].bytes = total + 1;
	bad[3].bytes = -5;
	bad[4].unaccounted_bytes = total / 2;
	baseline_open(&b, total, &good);
	assert_int_equal(baseline_bytes(&b), 2 * GIB);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		baseline_open(&b, total, &bad[i]);
		assert_int_equal(baseline_bytes(&b), -1);
	}
}

/* A leak that was there in the quiet minute is not usual for it. */
static void much_that_nobody_accounts_for_is_never_usual(void **state)
{
	struct baseline b;
	struct baseline_reading leaking = { .foreign_bytes = 40 * GIB, .unaccounted_bytes = 35 * GIB, .quiet = true };

	(void)state;
	baseline_open(&b, total, NULL);
	baseline_read(&b, &leaking);
	leaking.at_us = 60000000;
	assert_true(baseline_read(&b, &leaking));
	assert_int_equal(b.known.unaccounted_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_quiet_minute_it_is_the_least_that_was_seen),
		cmocka_unit_test(a_quiet_minute_teaches_the_most_that_it_needed),
		cmocka_unit_test(what_is_loaded_ends_the_minute),
		cmocka_unit_test(it_is_kept_until_this_life_knows_better),
		cmocka_unit_test(what_is_kept_must_be_of_this_machine_and_possible),
		cmocka_unit_test(much_that_nobody_accounts_for_is_never_usual),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
