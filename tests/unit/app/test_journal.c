/* The log has what came, went and was refused, and does not drown in it. */
#include "../cmocka_all.h"

#include "app/journal.h"
#include "base/units.h"

static void what_every_request_brings_is_for_who_asked_for_more(void **state)
{
	(void)state;
	for (uint32_t kind = DECISION_LOAD; kind < DECISION_KIND_COUNT; kind++) {
		struct decision decision = { .kind = kind };
		bool often = kind == DECISION_DISPATCH || kind == DECISION_QUEUE || kind == DECISION_WARM ||
		             kind == DECISION_SHRINK;
		assert_true((journal_level(&decision) == LOG_LEVEL_DEBUG) == often);
	}
	assert_int_equal(journal_level(&(struct decision){ .kind = DECISION_EMERGENCY }), LOG_LEVEL_WARN);
	assert_int_equal(journal_level(&(struct decision){ .kind = DECISION_PRESSURE, .need_bytes = PRESSURE_WARN }),
	                 LOG_LEVEL_DEBUG);
	assert_int_equal(journal_level(&(struct decision){ .kind = DECISION_SHRINK, .context_was = 8 }), LOG_LEVEL_INFO);
	assert_int_equal(journal_level(&(struct decision){ .kind = DECISION_CANCEL, .fail = FAIL_CLIENT_GONE }),
	                 LOG_LEVEL_DEBUG);
}

static void refusals_are_counted_when_they_are_many(void **state)
{
	struct journal journal = { 0 };
	struct decision refusal = { .kind = DECISION_REFUSE }, load = { .kind = DECISION_LOAD };
	uint32_t left_out, told = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		told += journal_takes(&journal, &refusal, 100 * US_PER_S + i, &left_out);
	assert_int_equal(told, JOURNAL_REFUSALS_MAX);
	assert_true(journal_takes(&journal, &load, 101 * US_PER_S, &left_out) && left_out == 0);
	assert_true(journal_takes(&journal, &refusal, 110 * US_PER_S, &left_out));
	assert_int_equal(left_out, 1000 - JOURNAL_REFUSALS_MAX);
	assert_true(journal_takes(&journal, &refusal, 110 * US_PER_S, &left_out) && left_out == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_every_request_brings_is_for_who_asked_for_more),
		cmocka_unit_test(refusals_are_counted_when_they_are_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
