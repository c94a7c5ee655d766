#include "../cmocka_all.h"

#include "base/units.h"

static void sizes_are_read_exactly(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} good[] = {
		{ "0", 0 }, { "1", 1 }, { "1KiB", 1024 }, { "1.5GiB", 1610612736 }, { "24GB", 24000000000 },
		{ " 8 MiB ", 8388608 }, { "9223372036854775807", INT64_MAX }, { "0.001KB", 1 }, { "12gib", 12884901888 },
	};
	static const char *const bad[] = { "", "GiB", "-1", "1XB", "9223372036854775808", "8796093022208MiB",
		                           "1..5GiB", "1e9", "0.1234567890GiB", "12 parsecs" };
	(void)state;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		int64_t bytes = -7;
		assert_true(units_parse_size(str_from(good[i].text), &bytes));
		assert_int_equal(bytes, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int64_t bytes = -7;
		assert_false(units_parse_size(str_from(bad[i]), &bytes));
		assert_int_equal(bytes, -7);
	}
}

static void durations_need_a_unit(void **state)
{
	int64_t us = -7;
	(void)state;

	assert_true(units_parse_duration(STR("1.5s"), &us));
	assert_int_equal(us, 1500000);
	assert_true(units_parse_duration(STR("0"), &us));
	assert_int_equal(us, 0);
	assert_true(units_parse_duration(STR("2d"), &us));
	assert_int_equal(us, 172800 * US_PER_S);
	us = -7;
	assert_false(units_parse_duration(STR("30"), &us));
	assert_false(units_parse_duration(STR("5 minutes"), &us));
	assert_int_equal(us, -7);
}

static void texts_have_three_digits(void **state)
{
	char text[UNITS_TEXT];
	(void)state;

	assert_string_equal(units_size(text, 0), "0 B");
	assert_string_equal(units_size(text, 1023), "1023 B");
	assert_string_equal(units_size(text, 1536), "1.50 KiB");
	assert_string_equal(units_size(text, INT64_C(4206299840)), "3.92 GiB");
	assert_string_equal(units_size(text, INT64_C(1) << 37), "128 GiB");
	assert_string_equal(units_duration(text, 850000), "850 ms");
	assert_string_equal(units_duration(text, 3100000), "3.1 s");
	assert_string_equal(units_duration(text, 130 * US_PER_S), "2 m 10 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_exactly),
		cmocka_unit_test(durations_need_a_unit),
		cmocka_unit_test(texts_have_three_digits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
