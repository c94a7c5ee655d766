#include "../cmocka_all.h"

#include <string.h>

#include "engine/redactor.h"

/* Feed `text` in pieces of `step` bytes. */
static void assert_redacted(const char *const *secrets, const char *text, const char *wanted)
{
	size_t length = strlen(text);

	for (size_t step = 1; step <= length; step++) {
		struct redactor redactor = { 0 };
		struct buf out = BUF_INIT;
		for (const char *const *secret = secrets; *secret; secret++)
			redactor_add(&redactor, *secret);
		for (size_t at = 0; at < length; at += step)
			redactor_feed(&redactor,
			              (struct str){ text + at, length - at < step ? length - at : step }, &out);
		redactor_flush(&redactor, &out);
		assert_string_equal(buf_cstr(&out), wanted);
		buf_release(&out);
		redactor_release(&redactor);
	}
}

static void a_secret_never_shows_however_it_is_cut(void **state)
{
	(void)state;
	assert_redacted((const char *const[]){ "hunter22", NULL }, "key hunter22, hunter2 hhunter22hunter22.",
	                "key [redacted], hunter2 h[redacted][redacted].");
	assert_redacted((const char *const[]){ "aaab", NULL }, "aaaaab aaa", "aa[redacted] aaa");
}

static void the_longest_of_several_goes(void **state)
{
	(void)state;
	assert_redacted((const char *const[]){ "abcd", "abcdef", "cdef", NULL }, "abcdef abcde xcdefx abcd",
	                "[redacted] [redacted]e x[redacted]x [redacted]");
}

static void what_is_held_back_comes_at_the_end(void **state)
{
	struct redactor redactor = { 0 };
	struct buf out = BUF_INIT;

	(void)state;
	redactor_add(&redactor, "secret");
	redactor_feed(&redactor, STR("is sec"), &out);
	assert_string_equal(buf_cstr(&out), "is ");
	redactor_flush(&redactor, &out);
	assert_string_equal(buf_cstr(&out), "is sec");
	buf_release(&out);
	redactor_release(&redactor);
}

static void short_ones_and_none_change_nothing(void **state)
{
	(void)state;
	assert_redacted((const char *const[]){ "abc", "", NULL }, "abc abc", "abc abc");
	assert_redacted((const char *const[]){ NULL }, "any\ntext", "any\ntext");
}

static void forgotten_secrets_pass_and_new_ones_do_not(void **state)
{
	struct redactor redactor = { 0 };
	struct buf out = BUF_INIT;

	(void)state;
	redactor_add(&redactor, "first-one");
	redactor_feed(&redactor, STR("first-"), &out);
	redactor_clear(&redactor);
	redactor_add(&redactor, "other-one");
	redactor_feed(&redactor, STR("one other-one\n"), &out);
	assert_string_equal(buf_cstr(&out), "first-one [redacted]\n");
	buf_release(&out);
	redactor_release(&redactor);
}

static void names_that_hold_secrets(void **state)
{
	static const char *const secret[] = { "HF_TOKEN", "OPENAI_API_KEY", "--api-key",
		                              "Password", "x.auth",         "apikey" };
	static const char *const open[] = { "--tokenizer", "HOME", "--threads", "KEYBOARD", "AUTHOR", "", "-" };

	(void)state;
	for (size_t i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
		assert_true(names_secret(secret[i]));
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		assert_false(names_secret(open[i]));
}

static void words_of_a_command_line_are_shown_without_secrets(void **state)
{
	static const char *const words[] = { "--api-key", "abc", "--api-key=abc", "-m", "x=y", "--token", "--port", "80",
		                             "http://u:pw@h/x" };
	static const char *const shown[] = { "--api-key", "***", "--api-key=***", "-m", "x=y", "--token", "--port",
		                             "80", "http://***@h/x" };
	bool is_value = false;

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct buf out = BUF_INIT;
		redact_word(words[i], &is_value, &out);
		assert_string_equal(buf_cstr(&out), shown[i]);
		buf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_secret_never_shows_however_it_is_cut),
		cmocka_unit_test(the_longest_of_several_goes),
		cmocka_unit_test(what_is_held_back_comes_at_the_end),
		cmocka_unit_test(short_ones_and_none_change_nothing),
		cmocka_unit_test(forgotten_secrets_pass_and_new_ones_do_not),
		cmocka_unit_test(names_that_hold_secrets),
		cmocka_unit_test(words_of_a_command_line_are_shown_without_secrets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
