/*
 * A head that passes is read alike by llhttp, byte by byte as in one piece, and
 * what we write anew from it passes again with the framing we meant.
 */
#include <assert.h>
#include <stdint.h>

#include "http/head_writer.h"
#include "http/message.h"
#include "reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rewrite_request(const struct message *message, int64_t length)
{
	struct request_head how = { .host = STR("localhost"), .length = length };
	struct message again;
	struct buf out = BUF_INIT, head = BUF_INIT;

	head_write_request(&head, message, &how);
	buf_append_str(&out, (struct str){ buf_cstr(&head), buf_length(&head) - 2 });
	head_write_credentials(&out, message);
	buf_append_str(&out, STR("\r\n"));
	buf_release(&head);
	if (buf_length(&out) <= HEAD_BYTES_MAX) {
		enum head_fault fault = message_parse(&again, buf_str(&out), HEAD_REQUEST_TCP);
		/* Our own fields may be the ones too many. */
		assert(fault == HEAD_OK || fault == HEAD_TOO_MANY_FIELDS);
		if (fault == HEAD_OK) {
			assert(again.method == message->method);
			assert(str_equal(again.path, message->path));
			assert(str_equal(again.query, message->query));
			assert(again.upgrade == message->upgrade);
			assert(again.chunked == (length == LENGTH_CHUNKED));
			assert(again.content_length == (length >= 0 ? length : -1));
			assert(str_equal(message_header(&again, "authorization"),
			                 message_header(message, "authorization")));
			assert(!message_header(&again, "cookie").data);
		}
	}
	buf_release(&out);
}

static void rewrite_response(const struct message *message, int64_t length)
{
	struct head_field extra = { STR("X-Cotenant-Request-Id"), STR("a\r\nb") };
	struct response_head how = {
		.length = length, .client_minor_version = 1, .extra = &extra, .extra_count = 1
	};
	struct message again;
	struct buf out = BUF_INIT;

	head_write_response(&out, message, &how);
	if (buf_length(&out) <= HEAD_BYTES_MAX) {
		enum head_fault fault = message_parse(&again, buf_str(&out), HEAD_RESPONSE);
		assert(fault == HEAD_OK || fault == HEAD_TOO_MANY_FIELDS);
		if (fault == HEAD_OK) {
			assert(again.status == message->status);
			assert(again.chunked == (length == LENGTH_CHUNKED));
			assert(again.content_length == (length >= 0 ? length : -1));
			assert(str_is(message_header(&again, "x-cotenant-request-id"), "a  b"));
		}
	}
	buf_release(&out);
}

static void rewrite(struct str stream, enum head_kind kind)
{
	struct message message;
	size_t scanned = 0;
	int64_t length = head_find(stream, kind, &scanned);

	if (length <= 0 ||
	    message_parse(&message, (struct str){ stream.data, (size_t)length }, kind))
		return;
	for (int64_t body = LENGTH_CHUNKED; body <= 1; body++) {
		if (kind == HEAD_RESPONSE)
			rewrite_response(&message, body);
		else if (!message.upgrade || body == LENGTH_NONE)
			rewrite_request(&message, body);
	}
}

static void try_kind(struct str stream, enum head_kind kind)
{
	struct reading whole, drips, theirs;

	reading_ours(&whole, stream, kind, SIZE_MAX);
	reading_ours(&drips, stream, kind, 1);
	reading_llhttp(&theirs, stream, kind);
	assert(reading_equal(&whole, &drips));
	assert(whole.fault != HEAD_DISAGREEMENT);
	/* Of trailers, which we drop, llhttp refuses some by their names; a body may hold anything.
	 */
	if (whole.is_complete && theirs.fault == HEAD_OK)
		assert(reading_equal(&whole, &theirs));
	reading_release(&whole);
	reading_release(&drips);
	reading_release(&theirs);
	rewrite(stream, kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str stream = { (const char *)data, size };

	try_kind(stream, HEAD_REQUEST_TCP);
	try_kind(stream, HEAD_REQUEST_UNIX);
	try_kind(stream, HEAD_RESPONSE);
	return 0;
}
