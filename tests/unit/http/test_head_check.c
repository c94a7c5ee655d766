#include "../cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "http/head_check.h"

#define HOST "Host: a.example\r\n"

static enum head_fault check(const char *head, enum head_kind kind)
{
	return head_check(str_from(head), kind, NULL);
}

static void each_fault_has_its_name(void **state)
{
	static const struct {
		const char *head;
		enum head_fault fault;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n" HOST "\r\n", HEAD_OK },
		{ "GET / HTTP/1.1\r\n" HOST, HEAD_INCOMPLETE },
		{ "GET / HTTP/1.1\r\n" HOST "\r\nmore", HEAD_INCOMPLETE },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", HEAD_BARE_CR },
		{ "GET / HTTP/1.1\n" HOST "\r\n", HEAD_BARE_LF },
		{ "GET / HTTP/1.1\r\n" HOST "A: \001\r\n\r\n", HEAD_CONTROL_BYTE },
		{ "\r\nGET / HTTP/1.1\r\n" HOST "\r\n", HEAD_LEADING_BLANK },
		{ "GET / x HTTP/1.1\r\n" HOST "\r\n", HEAD_BAD_LINE },
		{ "G(T / HTTP/1.1\r\n" HOST "\r\n", HEAD_BAD_METHOD },
		{ "BREW / HTTP/1.1\r\n" HOST "\r\n", HEAD_UNKNOWN_METHOD },
		{ "GET x HTTP/1.1\r\n" HOST "\r\n", HEAD_BAD_TARGET },
		{ "GET / HTTP/2.0\r\n" HOST "\r\n", HEAD_BAD_VERSION },
		{ "GET /\r\n", HEAD_BAD_VERSION },
		{ "GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", HEAD_FOLD },
		{ "GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", HEAD_NO_COLON },
		{ "GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", HEAD_BLANK_BEFORE_COLON },
		{ "GET / HTTP/1.1\r\n" HOST "(A): b\r\n\r\n", HEAD_BAD_NAME },
		{ "GET / HTTP/1.1\r\n\r\n", HEAD_NO_HOST },
		{ "GET / HTTP/1.1\r\n" HOST HOST "\r\n", HEAD_DUPLICATE_HOST },
		{ "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HEAD_BAD_HOST },
		{ "GET http://b/ HTTP/1.1\r\n" HOST "\r\n", HEAD_HOST_DISAGREES },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 1x\r\n\r\n", HEAD_BAD_LENGTH },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
		  HEAD_DUPLICATE_LENGTH },
		{ "PUT / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775808\r\n\r\n",
		  HEAD_LENGTH_TOO_LARGE },
		{ "PUT / HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		  HEAD_DUPLICATE_ENCODING },
		{ "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", HEAD_BAD_ENCODING },
		{ "PUT / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		  HEAD_ENCODING_IN_1_0 },
		{ "PUT / HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		  HEAD_BOTH_LENGTHS },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum head_fault fault = check(cases[i].head, HEAD_REQUEST_TCP);
		if (fault != cases[i].fault)
			fail_msg("%s\nis: %s\nnot: %s", cases[i].head, head_fault_text(fault),
			         head_fault_text(cases[i].fault));
	}
}

static void facts_are_what_the_head_says(void **state)
{
	struct head_facts facts;
	(void)state;

	assert_int_equal(head_check(STR("PUT / HTTP/1.1\r\n" HOST
	                                "content-LENGTH: 9223372036854775807\r\n\r\n"),
	                            HEAD_REQUEST_TCP, &facts),
	                 HEAD_OK);
	assert_true(facts.content_length == INT64_MAX);
	assert_int_equal(facts.minor_version, 1);
	assert_int_equal(facts.fields, 2);
	assert_false(facts.chunked);
	assert_int_equal(head_check(STR("HTTP/1.0 404\r\n\r\n"), HEAD_RESPONSE, &facts), HEAD_OK);
	assert_int_equal(facts.status, 404);
	assert_int_equal(facts.minor_version, 0);
	assert_true(facts.content_length == -1);
}

static void limits_are_exact(void **state)
{
	struct buf head = BUF_INIT;
	(void)state;

	buf_printf(&head, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 1; i < HEAD_FIELDS_MAX; i++)
		buf_printf(&head, "X: y\r\n");
	buf_printf(&head, "\r\n");
	assert_int_equal(head_check(buf_str(&head), HEAD_REQUEST_TCP, NULL), HEAD_OK);
	head.end -= 2;
	buf_printf(&head, "X: y\r\n\r\n");
	assert_int_equal(head_check(buf_str(&head), HEAD_REQUEST_TCP, NULL), HEAD_TOO_MANY_FIELDS);
	buf_release(&head);

	buf_printf(&head, "GET /");
	for (int i = 1; i < HEAD_TARGET_MAX; i++)
		buf_append_char(&head, 'a');
	buf_printf(&head, " HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(head_check(buf_str(&head), HEAD_REQUEST_TCP, NULL), HEAD_OK);
	buf_release(&head);
}

static int64_t find(const char *bytes, enum head_kind kind)
{
	size_t scanned = 0;

	return head_find(str_from(bytes), kind, &scanned);
}

static void a_head_ends_with_its_blank_line(void **state)
{
	(void)state;

	assert_int_equal(find("GET / HTTP/1.1\r\nA: b\r\n\r\nbody\r\n\r\n", HEAD_REQUEST_TCP), 24);
	assert_int_equal(find("GET / HTTP/1.1\r\nA: b\r\n\r", HEAD_REQUEST_TCP), 0);
	assert_int_equal(find("", HEAD_REQUEST_TCP), 0);
}

static void nobody_waits_for_a_head_that_is_hopeless(void **state)
{
	(void)state;

	assert_int_equal(find("GET / HTTP/1.1\n", HEAD_REQUEST_TCP), 15);
	assert_int_equal(find("GET /\r\n", HEAD_REQUEST_TCP), 7);
	assert_int_equal(find("\x16\x03\x01", HEAD_REQUEST_TCP), 1);
	assert_int_equal(find("HTTP/1.1 200\r\n", HEAD_RESPONSE), 0);
}

static void a_head_without_end_is_too_large(void **state)
{
	struct buf head = BUF_INIT;
	size_t scanned = 0;
	(void)state;

	buf_printf(&head, "GET / HTTP/1.1\r\nX: ");
	while (buf_length(&head) < HEAD_BYTES_MAX - 1)
		buf_append_char(&head, 'y');
	assert_int_equal(head_find(buf_str(&head), HEAD_REQUEST_TCP, &scanned), 0);
	buf_append_str(&head, STR("\r\n\r\n"));
	assert_int_equal(head_find(buf_str(&head), HEAD_REQUEST_TCP, &scanned), -E2BIG);
	buf_release(&head);
}

static void each_fault_can_be_answered(void **state)
{
	(void)state;

	for (int fault = HEAD_OK + 1; fault < HEAD_FAULT_COUNT; fault++) {
		assert_non_null(head_fault_text((enum head_fault)fault));
		assert_true(head_fault_status((enum head_fault)fault) >= 400);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_has_its_name),
		cmocka_unit_test(facts_are_what_the_head_says),
		cmocka_unit_test(limits_are_exact),
		cmocka_unit_test(a_head_ends_with_its_blank_line),
		cmocka_unit_test(nobody_waits_for_a_head_that_is_hopeless),
		cmocka_unit_test(a_head_without_end_is_too_large),
		cmocka_unit_test(each_fault_can_be_answered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
