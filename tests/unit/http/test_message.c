#include "../cmocka_all.h"

#include "http/message.h"

static struct message message;

static enum head_fault parse(const char *head, enum head_kind kind)
{
	return message_parse(&message, str_from(head), kind);
}

static void a_request_is_taken_apart(void **state)
{
	(void)state;

	assert_int_equal(
	        parse("POST /v1/chat%20x?a=1&b=?2 HTTP/1.1\r\nHost: h:80\r\nX-One:  two \r\n"
	              "Content-Length: 12\r\nExpect: 100-continue\r\n\r\n",
	              HEAD_REQUEST_TCP),
	        HEAD_OK);
	assert_int_equal(message.method, METHOD_POST);
	assert_true(str_is(message.method_text, "POST"));
	assert_true(str_is(message.path, "/v1/chat%20x"));
	assert_true(str_is(message.query, "a=1&b=?2"));
	assert_true(str_is(message.host, "h:80"));
	assert_true(message.content_length == 12);
	assert_true(message.expect_continue);
	assert_true(message.keep_alive);
	assert_false(message.chunked);
	assert_false(message.upgrade);
	assert_int_equal(message.field_count, 4);
	assert_true(str_is(message_name(&message, 1), "X-One"));
	assert_true(str_is(message_value(&message, 1), "two"));
	assert_true(str_is(message_header(&message, "x-ONE"), "two"));
	assert_null(message_header(&message, "x-two").data);
}

static void an_absolute_target_gives_path_and_query(void **state)
{
	(void)state;

	assert_int_equal(parse("GET http://h/x?y HTTP/1.1\r\nHost: h\r\n\r\n", HEAD_REQUEST_TCP),
	                 HEAD_OK);
	assert_true(str_is(message.path, "/x"));
	assert_true(str_is(message.query, "y"));
	assert_int_equal(parse("GET http://h?y HTTP/1.1\r\nHost: h\r\n\r\n", HEAD_REQUEST_TCP),
	                 HEAD_OK);
	assert_true(str_is(message.path, "/"));
	assert_true(str_is(message.query, "y"));
	assert_int_equal(parse("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", HEAD_REQUEST_TCP), HEAD_OK);
	assert_true(str_is(message.path, "*"));
}

static void connection_says_whether_it_is_kept(void **state)
{
	(void)state;

	parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", HEAD_REQUEST_TCP);
	assert_false(message.keep_alive);
	parse("GET / HTTP/1.0\r\nHost: h\r\n\r\n", HEAD_REQUEST_TCP);
	assert_false(message.keep_alive);
	parse("GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", HEAD_REQUEST_TCP);
	assert_true(message.keep_alive);
	parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
	      HEAD_REQUEST_TCP);
	assert_false(message.keep_alive);
}

static void only_websockets_are_an_upgrade(void **state)
{
	(void)state;

	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n"
	                       "Upgrade: WebSocket\r\n\r\n",
	                       HEAD_REQUEST_TCP),
	                 HEAD_OK);
	assert_true(message.upgrade);
	assert_true(str_is(message.upgrade_to, "WebSocket"));
	parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
	      HEAD_REQUEST_TCP);
	assert_false(message.upgrade);
	parse("POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	      "Content-Length: 3\r\n\r\n",
	      HEAD_REQUEST_TCP);
	assert_false(message.upgrade);
	parse("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n", HEAD_REQUEST_TCP);
	assert_false(message.upgrade);
}

static void an_answer_is_taken_apart(void **state)
{
	(void)state;

	assert_int_equal(parse("HTTP/1.1 503 Not now, later\r\nRetry-After: 3\r\n"
	                       "Transfer-Encoding: chunked\r\n\r\n",
	                       HEAD_RESPONSE),
	                 HEAD_OK);
	assert_int_equal(message.status, 503);
	assert_true(str_is(message.reason, "Not now, later"));
	assert_true(message.chunked);
	assert_true(message.content_length == -1);
	assert_int_equal(parse("HTTP/1.1 200\r\n\r\n", HEAD_RESPONSE), HEAD_OK);
	assert_true(str_is(message.reason, ""));
}

static void lists_are_searched_by_token(void **state)
{
	(void)state;

	parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: a ,B\r\nConnection: c\r\n\r\n",
	      HEAD_REQUEST_TCP);
	assert_true(message_header_has(&message, "connection", STR("A")));
	assert_true(message_header_has(&message, "connection", STR("b")));
	assert_true(message_header_has(&message, "connection", STR("c")));
	assert_false(message_header_has(&message, "connection", STR("a ,b")));
	assert_false(message_header_has(&message, "connection", STR("")));
}

static void methods_have_their_names(void **state)
{
	char head[64];
	(void)state;

	for (int method = 0; method < METHOD_COUNT; method++) {
		snprintf(head, sizeof(head), "%s / HTTP/1.1\r\nHost: h\r\n\r\n",
		         method_text((enum method)method));
		assert_int_equal(parse(head, HEAD_REQUEST_TCP), HEAD_OK);
		assert_int_equal(message.method, method);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_taken_apart),
		cmocka_unit_test(an_absolute_target_gives_path_and_query),
		cmocka_unit_test(connection_says_whether_it_is_kept),
		cmocka_unit_test(only_websockets_are_an_upgrade),
		cmocka_unit_test(an_answer_is_taken_apart),
		cmocka_unit_test(lists_are_searched_by_token),
		cmocka_unit_test(methods_have_their_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
