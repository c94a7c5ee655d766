#include "../cmocka_all.h"

#include "base/str.h"

static void cut_leaves_the_rest(void **state)
{
	struct str rest;
	(void)state;

	assert_true(str_is(str_cut(STR("a=b=c"), '=', &rest), "a"));
	assert_true(str_is(rest, "b=c"));
	assert_true(str_is(str_cut(STR("abc"), '=', &rest), "abc"));
	assert_null(rest.data);
	assert_true(str_is(str_cut(STR("=x"), '=', &rest), ""));
	assert_true(str_is(rest, "x"));
}

static void numbers_are_whole_and_bounded(void **state)
{
	uint64_t value = 7;
	(void)state;

	assert_true(str_to_u64(STR("18446744073709551615"), &value));
	assert_true(value == UINT64_MAX);
	assert_false(str_to_u64(STR("18446744073709551616"), &value));
	assert_false(str_to_u64(STR(""), &value));
	assert_false(str_to_u64(STR("+1"), &value));
	assert_false(str_to_u64(STR("1 "), &value));
}

static void distance_counts_edits(void **state)
{
	(void)state;

	assert_int_equal(str_distance(STR("chat"), STR("chat")), 0);
	assert_int_equal(str_distance(STR("chat"), STR("CHAT")), 0);
	assert_int_equal(str_distance(STR("chat"), STR("caht")), 1);
	assert_int_equal(str_distance(STR("kitten"), STR("sitting")), 3);
	assert_int_equal(str_distance(STR(""), STR("abc")), 3);
}

static void copy_says_when_it_cut(void **state)
{
	char out[4];
	(void)state;

	assert_true(str_copy(out, sizeof(out), STR("abc")));
	assert_string_equal(out, "abc");
	assert_false(str_copy(out, sizeof(out), STR("abcd")));
	assert_string_equal(out, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_leaves_the_rest),
		cmocka_unit_test(numbers_are_whole_and_bounded),
		cmocka_unit_test(distance_counts_edits),
		cmocka_unit_test(copy_says_when_it_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
