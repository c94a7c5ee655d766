/* When to gather the free memory. */
#include "../cmocka_all.h"

#include "app/compact.h"

#define GIB (INT64_C(1) << 30)
#define MINUTE INT64_C(60000000)

/* A night in which it is due. */
static const struct compact_facts due = {
	.free_2m_bytes = GIB / 2,
	.free_bytes = 20 * GIB,
	.available_bytes = 60 * GIB,
	.unasked_us = 30 * MINUTE,
	.last_us = INT64_MAX,
	.minute = 3 * 60 + 30,
	.quiet = "03:00-05:00",
};

static void it_is_done_at_night_when_nobody_asks(void **state)
{
	struct compact_facts facts = due;
	(void)state;

	assert_true(compact_is_due(&facts));
	facts.minute = 5 * 60;
	assert_false(compact_is_due(&facts));
	facts = due;
	facts.busy = true;
	assert_false(compact_is_due(&facts));
	facts = due;
	facts.unasked_us = 9 * MINUTE;
	assert_false(compact_is_due(&facts));
	facts = due;
	facts.last_us = 60 * MINUTE; /* once a night */
	assert_false(compact_is_due(&facts));
	facts = due;
	facts.amd_stays = true;
	assert_false(compact_is_due(&facts));
}

static void only_what_is_broken_up_is_mended(void **state)
{
	struct compact_facts facts = due;
	(void)state;

	facts.free_2m_bytes = 3 * GIB; /* of 20 free */
	assert_false(compact_is_needed(&facts));
	facts.free_2m_bytes = 3 * GIB / 2;
	assert_true(compact_is_needed(&facts));
	facts.free_2m_bytes = -1;
	assert_false(compact_is_needed(&facts));
	facts = due;
	facts.available_bytes = 3 * GIB; /* full is not broken up */
	assert_false(compact_is_needed(&facts));
}

static void quiet_hours_may_go_over_midnight(void **state)
{
	(void)state;

	assert_true(compact_is_quiet("23:00-05:00", 23 * 60 + 1));
	assert_true(compact_is_quiet("23:00-05:00", 10));
	assert_false(compact_is_quiet("23:00-05:00", 12 * 60));
	assert_false(compact_is_quiet("03:00-05:00", -1));
	assert_false(compact_is_quiet("nonsense", 10));
	assert_false(compact_is_quiet(NULL, 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_done_at_night_when_nobody_asks),
		cmocka_unit_test(only_what_is_broken_up_is_mended),
		cmocka_unit_test(quiet_hours_may_go_over_midnight),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
