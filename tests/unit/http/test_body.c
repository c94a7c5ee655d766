#include "../cmocka_all.h"

#include <string.h>

#include "http/body.h"

static enum body_kind kind_of(const char *head, enum method asked)
{
	struct message message;

	assert_int_equal(message_parse(&message, str_from(head), HEAD_RESPONSE), HEAD_OK);
	return body_kind_of_response(&message, asked);
}

static void the_head_decides_how_a_body_ends(void **state)
{
	(void)state;

	assert_int_equal(kind_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", METHOD_GET),
	                 BODY_LENGTH);
	assert_int_equal(kind_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", METHOD_HEAD),
	                 BODY_NONE);
	assert_int_equal(kind_of("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", METHOD_GET),
	                 BODY_NONE);
	assert_int_equal(
	        kind_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", METHOD_GET),
	        BODY_CHUNKED);
	assert_int_equal(kind_of("HTTP/1.1 200 OK\r\n\r\n", METHOD_GET), BODY_UNTIL_CLOSE);
	assert_int_equal(kind_of("HTTP/1.1 100 Continue\r\n\r\n", METHOD_POST), BODY_NONE);
	assert_int_equal(kind_of("HTTP/1.1 204 No\r\n\r\n", METHOD_GET), BODY_NONE);
	assert_int_equal(kind_of("HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", METHOD_GET),
	                 BODY_NONE);
	assert_int_equal(
	        kind_of("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	                METHOD_GET),
	        BODY_TUNNEL);
}

static void a_length_leaves_what_follows(void **state)
{
	struct body_decoder decoder;
	struct str in = STR("hellonext"), data;
	(void)state;

	body_decoder_init(&decoder, BODY_LENGTH, 5);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_DATA);
	assert_true(str_is(data, "hello"));
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_END);
	assert_true(str_is(in, "next"));
}

static void no_body_ends_at_once(void **state)
{
	struct body_decoder decoder;
	struct str in = STR(""), data;
	(void)state;

	body_decoder_init(&decoder, BODY_NONE, -1);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_END);
	body_decoder_init(&decoder, BODY_LENGTH, 0);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_END);
}

/* Decodes `text`; the body goes to `out`, at most 63 bytes of it. */
static enum body_step decode(const char *text, char out[64], struct body_decoder *decoder)
{
	struct str in = str_from(text), data;
	enum body_step step;
	size_t length = 0;

	body_decoder_init(decoder, BODY_CHUNKED, -1);
	while ((step = body_decode(decoder, &in, &data)) == BODY_DATA) {
		assert_true(length + data.length < 64);
		memcpy(out + length, data.data, data.length);
		length += data.length;
	}
	out[length] = '\0';
	return step;
}

static void chunks_are_joined(void **state)
{
	struct body_decoder decoder;
	char out[64];
	(void)state;

	assert_int_equal(
	        decode("3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\n", out, &decoder),
	        BODY_END);
	assert_string_equal(out, "abc0123456789");
	assert_true(body_decoder_may_close(&decoder));
	assert_int_equal(decode("3\r\nabc\r\n", out, &decoder), BODY_MORE);
	assert_false(body_decoder_may_close(&decoder));
}

static void absurd_chunks_are_refused_with_a_reason(void **state)
{
	static const char *const bodies[] = { "ffffffffffffffff\r\n",
		                              "-1\r\n",
		                              "\r\n",
		                              "5 \r\n",
		                              "5\n",
		                              "1\r\nab\r\n",
		                              "1;=\r\n",
		                              "0\r\nno colon\r\n",
		                              "0\r\n: v\r\n",
		                              "0\r\nA: \001\r\n" };
	struct body_decoder decoder;
	char out[64];
	(void)state;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		assert_int_equal(decode(bodies[i], out, &decoder), BODY_BROKEN);
		assert_true(strlen(body_decoder_fault(&decoder)) > 0);
		assert_false(body_decoder_may_close(&decoder));
	}
}

static void only_a_body_without_end_may_be_closed_in_the_middle(void **state)
{
	struct body_decoder decoder;
	struct str in = STR("ab"), data;
	(void)state;

	body_decoder_init(&decoder, BODY_UNTIL_CLOSE, -1);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_DATA);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_MORE);
	assert_true(body_decoder_may_close(&decoder));
	in = STR("ab");
	body_decoder_init(&decoder, BODY_LENGTH, 3);
	assert_int_equal(body_decode(&decoder, &in, &data), BODY_DATA);
	assert_false(body_decoder_may_close(&decoder));
}

static void chunks_are_written(void **state)
{
	struct buf out = BUF_INIT;
	char head[CHUNK_HEAD_MAX];
	(void)state;

	chunk_append(&out, STR("0123456789abcdef"));
	chunk_append(&out, STR("")); /* would end the body */
	buf_append_str(&out, CHUNK_END);
	assert_true(str_is(buf_str(&out), "10\r\n0123456789abcdef\r\n0\r\n\r\n"));
	assert_int_equal(chunk_head(head, UINT64_MAX), 18);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_head_decides_how_a_body_ends),
		cmocka_unit_test(a_length_leaves_what_follows),
		cmocka_unit_test(no_body_ends_at_once),
		cmocka_unit_test(chunks_are_joined),
		cmocka_unit_test(absurd_chunks_are_refused_with_a_reason),
		cmocka_unit_test(only_a_body_without_end_may_be_closed_in_the_middle),
		cmocka_unit_test(chunks_are_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
