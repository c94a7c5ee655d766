/* The table of endings: whole, each name its own, each row one that a client can act on. */
#include "../cmocka_all.h"

#include <string.h>

#include "core/arbiter.h"

static void every_ending_has_its_row(void **state)
{
	(void)state;

	for (int i = 0; i < FAIL_COUNT; i++) {
		const struct fail_facts *row = fail_facts((enum fail)i);
		assert_non_null(row->name);
		assert_non_null(row->code);
		assert_true(row->status >= 400 && row->status < 600);
		assert_true(row->before && row->after && row->before[0] + row->after[0]);
		assert_true(row->cause[0] && row->meaning[0]);
		assert_string_equal(fail_name((enum fail)i), row->name);
		/* Waiting helps against what is full or down, never against what is wrong. */
		if (row->retry_after_s)
			assert_true(row->status == 429 || row->status >= 502);
		for (int j = 0; j < i; j++) {
			assert_string_not_equal(row->name, fail_facts((enum fail)j)->name);
			assert_string_not_equal(row->code, fail_facts((enum fail)j)->code);
		}
	}
}

static void no_number_is_without_an_answer(void **state)
{
	(void)state;

	assert_ptr_equal(fail_facts((enum fail)FAIL_COUNT), fail_facts(FAIL_NONE));
	assert_ptr_equal(fail_facts((enum fail)-1), fail_facts(FAIL_NONE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_ending_has_its_row),
		cmocka_unit_test(no_number_is_without_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
