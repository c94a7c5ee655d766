#include "../cmocka_all.h"

#include "http/json_text.h"

static void expect(struct str text, const char *expected)
{
	struct buf out = BUF_INIT;

	json_append_string(&out, text);
	assert_string_equal(buf_cstr(&out), expected);
	buf_release(&out);
}

static void what_json_forbids_is_escaped(void **state)
{
	(void)state;

	expect(STR("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
	expect(STR("\n\r\t\001\0\x7f"), "\"\\n\\r\\t\\u0001\\u0000\x7f\"");
	expect(STR(""), "\"\"");
}

static void what_is_not_utf8_is_replaced(void **state)
{
	(void)state;

	expect(STR("\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80"),
	       "\"\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80\"");
	expect(STR("a\xff"
	           "b"),
	       "\"a\\ufffdb\"");
	expect(STR("\xe4\xb8"), "\"\\ufffd\\ufffd\"");
	expect(STR("\xc0\xaf"), "\"\\ufffd\\ufffd\"");
	expect(STR("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
	expect(STR("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_json_forbids_is_escaped),
		cmocka_unit_test(what_is_not_utf8_is_replaced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
