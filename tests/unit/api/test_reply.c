#include "../cmocka_all.h"

#include <errno.h>

#include "app/cli_reply.h"
#include "base/str.h"

/* Feed `text` in pieces of `step` bytes; what reply_feed said last. */
static int feed(struct reply *reply, struct str text, size_t step, struct buf *body)
{
	struct err err;
	int error = 0;

	*reply = REPLY_INIT;
	for (size_t at = 0; at < text.length && error == 0; at += step) {
		size_t count = text.length - at < step ? text.length - at : step;
		error = reply_feed(reply, text.data + at, count, body, &err);
	}
	return error;
}

static void assert_whole(struct str text, int status, const char *body_wanted)
{
	for (size_t step = 1; step <= text.length; step++) {
		struct reply reply;
		struct buf body = BUF_INIT;
		assert_int_equal(feed(&reply, text, step, &body), 0);
		assert_int_equal(reply_close(&reply, NULL), 0);
		assert_int_equal(reply.status, status);
		assert_string_equal(buf_cstr(&body), body_wanted);
		buf_release(&body);
		reply_release(&reply);
	}
}

static void an_answer_reads_the_same_however_it_is_cut(void **state)
{
	(void)state;
	assert_whole(STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 200, "hello");
	assert_whole(STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	                 "5;x=1\r\nhello\r\nB\r\n, wonderful\r\n0\r\nTrailer: 1\r\n\r\n"),
	             200, "hello, wonderful");
}

static void each_kind_of_body_ends_where_it_should(void **state)
{
	(void)state;
	assert_whole(STR("HTTP/1.1 204 No Content\r\n\r\n"), 204, "");
	assert_whole(STR("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\nbehind the end"), 404, "");
	assert_whole(STR("HTTP/1.0 200 OK\r\n\r\nuntil the end"), 200, "until the end");
	assert_whole(STR("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 200,
	             "ok");
	assert_whole(STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	                 "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"),
	             200, "hello, world");
}

static void an_answer_that_stops_short_never_looks_whole(void **state)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";

	(void)state;
	for (size_t length = 0; length + 1 < sizeof(text); length++) {
		struct reply reply;
		struct buf body = BUF_INIT;
		struct err err;
		assert_int_equal(feed(&reply, (struct str){ text, length }, 7, &body), 0);
		assert_int_equal(reply_close(&reply, &err), -ECONNRESET);
		buf_release(&body);
		reply_release(&reply);
	}
}

static void what_makes_no_sense_is_refused(void **state)
{
	static const char *const texts[] = {
		"SSH-2.0-OpenSSH\r\n",
		"HTTP/2 200\r\n",
		"HTTP/1.1 20x OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nname without colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nspace : x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct reply reply;
		struct buf body = BUF_INIT;
		assert_int_equal(feed(&reply, str_from(texts[i]), 3, &body), -EBADMSG);
		buf_release(&body);
		reply_release(&reply);
	}
}

static void a_head_without_end_is_bounded(void **state)
{
	struct reply reply = REPLY_INIT;
	struct buf body = BUF_INIT;
	struct err err;
	char line[1000];
	int error = 0, fed = 0;

	(void)state;
	memset(line, 'a', sizeof(line));
	error = reply_feed(&reply, "HTTP/1.1 200 OK\r\n", 17, &body, &err);
	while (error == 0 && fed < 1000000) {
		error = reply_feed(&reply, line, sizeof(line), &body, &err);
		fed += (int)sizeof(line);
	}
	assert_int_equal(error, -EBADMSG);
	assert_true(fed <= REPLY_HEAD_MAX + 1000);
	buf_release(&body);
	reply_release(&reply);
}

static void a_long_stream_of_chunks_is_no_long_head(void **state)
{
	struct reply reply;
	struct buf body = BUF_INIT;
	struct err err;

	(void)state;
	assert_int_equal(feed(&reply, STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 99, &body), 0);
	for (int i = 0; i < 50000; i++) {
		assert_int_equal(reply_feed(&reply, "1\r\nx\r\n", 6, &body, &err), 0);
		buf_consume(&body, buf_length(&body));
	}
	assert_int_equal(reply_feed(&reply, "0\r\n\r\n", 5, &body, &err), 0);
	assert_int_equal(reply.state, REPLY_DONE);
	buf_release(&body);
	reply_release(&reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_reads_the_same_however_it_is_cut),
		cmocka_unit_test(each_kind_of_body_ends_where_it_should),
		cmocka_unit_test(an_answer_that_stops_short_never_looks_whole),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(a_head_without_end_is_bounded),
		cmocka_unit_test(a_long_stream_of_chunks_is_no_long_head),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
