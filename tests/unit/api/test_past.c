#include "../cmocka_all.h"

#include "api/past.h"

#define S INT64_C(1000000)

static void the_newest_comes_first_and_the_oldest_is_lost(void **state)
{
	struct past past;

	(void)state;
	past_init(&past);
	for (uint64_t i = 1; i <= PAST_DECISIONS + 3; i++)
		past_add_decision(&past, &(struct decision){ .sequence = i });
	assert_int_equal(past_decision(&past, 0)->sequence, PAST_DECISIONS + 3);
	assert_int_equal(past_decision(&past, PAST_DECISIONS - 1)->sequence, 4);
	assert_null(past_decision(&past, PAST_DECISIONS));
	past_release(&past);
}

static void an_ended_request_is_found_by_its_number_with_its_own_names(void **state)
{
	char path[200];
	struct conf_key key = { .name = (char *)"laptop" };
	struct past past;

	(void)state;
	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	past_init(&past);
	past_add_request(&past, &(struct exchange_end){ .sequence = 7, .path = path, .key = &key });
	memset(path, 'x', 4); /* it dies with its exchange */
	assert_null(past_find_request(&past, 8));
	const struct past_request *row = past_find_request(&past, 7);
	assert_non_null(row);
	assert_string_equal(row->key_name, "laptop");
	assert_int_equal(strlen(row->path), sizeof(row->path) - 1);
	assert_int_equal(row->path[0], 'p');
	past_release(&past);
}

/* load_ms is the part of the wait that the load took, never more than the wait. */
static void the_load_a_request_waited_for_is_part_of_its_wait(void **state)
{
	struct past past;

	(void)state;
	past_init(&past);
	past_add_decision(&past, &(struct decision){ .kind = DECISION_READY, .model = 1, .at_us = 10 * S,
	                                             .load_us = 4 * S });
	const struct past_request *whole = past_add_request(
		&past, &(struct exchange_end){ .model = 1, .arrived_at_us = 5 * S, .dispatched_at_us = 10 * S });
	assert_int_equal(whole->load_us, 4 * S);
	const struct past_request *late = past_add_request(
		&past, &(struct exchange_end){ .model = 1, .arrived_at_us = 9 * S, .dispatched_at_us = 10 * S });
	assert_int_equal(late->load_us, 1 * S);
	const struct past_request *after = past_add_request(
		&past, &(struct exchange_end){ .model = 1, .arrived_at_us = 11 * S, .dispatched_at_us = 12 * S });
	assert_int_equal(after->load_us, 0);
	const struct past_request *other = past_add_request(
		&past, &(struct exchange_end){ .model = 2, .arrived_at_us = 5 * S, .dispatched_at_us = 12 * S });
	assert_int_equal(other->load_us, 0);
	past_release(&past);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_comes_first_and_the_oldest_is_lost),
		cmocka_unit_test(an_ended_request_is_found_by_its_number_with_its_own_names),
		cmocka_unit_test(the_load_a_request_waited_for_is_part_of_its_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
