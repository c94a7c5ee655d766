/* The word for how a request ended agrees with the status that its client read. */
#include "../cmocka_all.h"

#include "api/outcome.h"

static void assert_outcome(const struct exchange_end *end, const char *name, int status)
{
	assert_string_equal(outcome_name(outcome_of(end)), name);
	assert_int_equal(outcome_status(end), status);
}

static void an_error_that_went_through_whole_is_no_success(void **state)
{
	(void)state;
	assert_outcome(&(struct exchange_end){ .status = 200, .dispatched_at_us = 1 }, "ok", 200);
	assert_outcome(&(struct exchange_end){ .status = 101, .dispatched_at_us = 1 }, "ok", 101);
	assert_outcome(&(struct exchange_end){ .status = 400, .dispatched_at_us = 1 }, "engine_refused", 400);
	assert_outcome(&(struct exchange_end){ .status = 500, .dispatched_at_us = 1 }, "engine_error", 500);
	assert_outcome(&(struct exchange_end){ .status = 400 }, "refused", 400);
}

static void what_stood_in_its_way_says_more_than_the_status(void **state)
{
	(void)state;
	assert_outcome(&(struct exchange_end){ .status = 507, .fail = FAIL_NEVER_FITS }, "never_fits", 507);
	assert_outcome(&(struct exchange_end){ .status = 200, .fail = FAIL_ENGINE_DIED, .dispatched_at_us = 1 },
	               "engine_died", 200);
	assert_outcome(&(struct exchange_end){ .fail = FAIL_CLIENT_GONE }, "client_gone", 499);
	assert_outcome(&(struct exchange_end){ .status = 200, .fail = FAIL_CLIENT_GONE }, "client_gone", 200);
}

static void every_outcome_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < OUTCOME_COUNT; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(outcome_name(i), outcome_name(j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_that_went_through_whole_is_no_success),
		cmocka_unit_test(what_stood_in_its_way_says_more_than_the_status),
		cmocka_unit_test(every_outcome_has_a_name_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
