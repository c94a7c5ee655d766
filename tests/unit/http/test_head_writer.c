#include "../cmocka_all.h"

#include "http/head_writer.h"

static void expect_request(const char *head, const struct request_head *how, const char *expected)
{
	struct message message;
	struct buf out = BUF_INIT;

	assert_int_equal(message_parse(&message, str_from(head), HEAD_REQUEST_TCP), HEAD_OK);
	head_write_request(&out, &message, how);
	assert_string_equal(buf_cstr(&out), expected);
	buf_release(&out);
}

static void what_is_the_clients_alone_stays_here(void **state)
{
	(void)state;

	expect_request(
	        "POST /v1/x?y=1 HTTP/1.1\r\nHost: public\r\nAuthorization: Bearer secret\r\n"
	        "X-Api-Key: secret\r\nApi-Key: secret\r\nCookie: secret\r\nProxy-Authorization: "
	        "secret\r\n"
	        "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
	        "Trailer: x\r\nExpect: 100-continue\r\nUpgrade: h2c\r\nOrigin: http://a\r\n"
	        "Accept-Encoding: gzip\r\nX-Cotenant-Deadline: 5\r\nContent-Length: 7\r\n"
	        "Content-Type: application/json\r\nX-Other: yes\r\n\r\n",
	        &(struct request_head){ .host = STR("localhost"), .length = 9, .keep_alive = true },
	        "POST /v1/x?y=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	        "X-Other: yes\r\nContent-Length: 9\r\n\r\n");
}

static void credentials_go_only_where_they_are_asked_for(void **state)
{
	const char *head = "GET /x HTTP/1.1\r\nHost: public\r\nAuthorization: Bearer theirs\r\n"
	                   "X-Other: 1\r\nX-Api-Key: too\r\nCookie: never\r\n\r\n";
	struct message message;
	struct buf out = BUF_INIT;
	(void)state;

	expect_request(head,
	               &(struct request_head){ .target = STR("/y"), .length = LENGTH_CHUNKED },
	               "GET /y HTTP/1.1\r\nConnection: close\r\nX-Other: 1\r\n"
	               "Transfer-Encoding: chunked\r\n\r\n");
	assert_int_equal(message_parse(&message, str_from(head), HEAD_REQUEST_TCP), HEAD_OK);
	head_write_credentials(&out, &message);
	assert_string_equal(buf_cstr(&out), "Authorization: Bearer theirs\r\nX-Api-Key: too\r\n");
	buf_release(&out);
}

static void a_websocket_is_asked_for_again(void **state)
{
	(void)state;

	expect_request(
	        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	        "Sec-WebSocket-Key: k\r\n\r\n",
	        &(struct request_head){ .host = STR("e"), .length = LENGTH_NONE },
	        "GET /ws HTTP/1.1\r\nHost: e\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	        "Sec-WebSocket-Key: k\r\n\r\n");
}

static void expect_response(const char *head, const struct response_head *how, const char *expected)
{
	struct message message;
	struct buf out = BUF_INIT;

	assert_int_equal(message_parse(&message, str_from(head), HEAD_RESPONSE), HEAD_OK);
	head_write_response(&out, &message, how);
	assert_string_equal(buf_cstr(&out), expected);
	buf_release(&out);
}

static void an_answer_says_our_framing_and_our_fields(void **state)
{
	struct head_field extra = { STR("X-Cotenant-Request-Id"), STR("1-2\r\nX: y") };
	(void)state;

	expect_response("HTTP/1.1 200 Fine\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
	                "Access-Control-Allow-Origin: *\r\nX-Cotenant-Request-Id: false\r\nServer: "
	                "e\r\n\r\n",
	                &(struct response_head){ .length = LENGTH_CHUNKED,
	                                         .keep_alive = true,
	                                         .client_minor_version = 1,
	                                         .extra = &extra,
	                                         .extra_count = 1 },
	                "HTTP/1.1 200 Fine\r\nServer: e\r\nX-Cotenant-Request-Id: 1-2  X: y\r\n"
	                "Transfer-Encoding: chunked\r\n\r\n");
	expect_response("HTTP/1.0 200\r\n\r\n",
	                &(struct response_head){ .length = LENGTH_NONE, .client_minor_version = 0 },
	                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	expect_response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
	                &(struct response_head){
	                        .length = 3, .keep_alive = true, .client_minor_version = 0 },
	                "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n");
}

static void a_switch_of_protocols_is_passed_on(void **state)
{
	(void)state;

	expect_response(
	        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	        "Sec-WebSocket-Accept: a\r\n\r\n",
	        &(struct response_head){ .length = LENGTH_NONE, .client_minor_version = 1 },
	        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	        "Sec-WebSocket-Accept: a\r\n\r\n");
}

static void our_own_answers(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;

	head_write_own(&out, 429, "application/json",
	               &(struct response_head){
	                       .length = 2, .keep_alive = true, .client_minor_version = 1 });
	assert_string_equal(buf_cstr(&out),
	                    "HTTP/1.1 429 Too Many Requests\r\n"
	                    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_the_clients_alone_stays_here),
		cmocka_unit_test(credentials_go_only_where_they_are_asked_for),
		cmocka_unit_test(a_websocket_is_asked_for_again),
		cmocka_unit_test(an_answer_says_our_framing_and_our_fields),
		cmocka_unit_test(a_switch_of_protocols_is_passed_on),
		cmocka_unit_test(our_own_answers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
