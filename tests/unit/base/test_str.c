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

	static const uint64_t numbers[] = { 0, 9, 10, 99, 100, 1234567890, UINT64_MAX };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		char text[STR_U64_BYTES];
		char *end = str_put_u64(text, numbers[i]);
		assert_true(*end == '\0' && str_to_u64((struct str){ text, (size_t)(end - text) }, &value));
		assert_true(value == numbers[i]);
	}
	assert_true(str_to_u64(STR("18446744073709551615"), &value));
	assert_true(value == UINT64_MAX);
	assert_false(str_to_u64(STR("18446744073709551616"), &value));
	assert_false(str_to_u64(STR(""), &value));
	assert_false(str_to_u64(STR("+1"), &value));
	assert_false(str_to_u64(STR("1 "), &value));
}

static void only_what_may_have_been_meant_is_near(void **state)
{
	static const struct {
		const char *name, *candidate;
		bool near;
	} cases[] = {
		{ "chta", "chat", true },      { "chat", "code", false },    { "xyzzyqq", "chat", false },
		{ "fa", "fb", true },          { "a", "b", false },          { "", "fa", false },
		{ "gpt-4o", "gpt-4o-mini", true }, { "org/qwen2.5", "Qwen2.5", true }, { "gpt-4o", "chat", false },
		{ "qwen2.5-7b-instrcut", "qwen2.5-7b-instruct", true },
		{ "qwen2.5-7b-instruct", "gemma-2-9b-it", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *found = str_nearer(str_from(cases[i].name), NULL, cases[i].candidate);
		assert_true((found != NULL) == cases[i].near);
	}
	assert_string_equal(str_nearer(STR("caht"), "that", "chat"), "chat");
	assert_string_equal(str_nearer(STR("chat"), "chat", "that"), "chat");
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

static void a_password_in_an_address_is_hidden(void **state)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{ "http://user:pass@host:1/x", "http://***@host:1/x" },
		{ "at http://user:p@ss/w?rd@host and ftp://u:p@h.", "at http://***@host and ftp://***@h." },
		{ "'http://u@h'", "'http://*@h'" },
		{ "http://host/a and me@home", "http://host/a and me@home" },
		{ "http://@host", "http://@host" },
		{ "http://", "http://" },
		{ "", "" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[80];
		assert_true(str_copy(text, sizeof(text), str_from(cases[i].text)));
		assert_string_equal(str_hide_passwords(text), cases[i].shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_leaves_the_rest),
		cmocka_unit_test(numbers_are_whole_and_bounded),
		cmocka_unit_test(distance_counts_edits),
		cmocka_unit_test(only_what_may_have_been_meant_is_near),
		cmocka_unit_test(copy_says_when_it_cut),
		cmocka_unit_test(a_password_in_an_address_is_hidden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
