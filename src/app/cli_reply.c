#include "app/cli_reply.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

void reply_release(struct reply *reply)
{
	buf_release(&reply->line);
}

static int malformed(struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "the answer is not HTTP: %s", what);
}

/* "HTTP/1.1 200 OK" */
static int take_status(struct reply *reply, struct str line, struct err *err)
{
	struct str rest, status;
	uint64_t code;

	if (!str_starts(line, "HTTP/1.1 ") && !str_starts(line, "HTTP/1.0 "))
		return malformed(err, "no status line");
	status = str_cut((struct str){ line.data + 9, line.length - 9 }, ' ', &rest);
	if (status.length != 3 || !str_to_u64(status, &code) || code < 100)
		return malformed(err, "no status code");
	reply->status = (int)code;
	reply->state = REPLY_HEADER;
	return 0;
}

static int take_length(struct reply *reply, struct str value, struct err *err)
{
	uint64_t length;

	if (!str_to_u64(value, &length))
		return malformed(err, "its Content-Length is no number");
	if (reply->has_length && length != reply->remaining)
		return malformed(err, "it has two lengths");
	reply->has_length = true;
	reply->remaining = length;
	return 0;
}

static int take_header(struct reply *reply, struct str line, struct err *err)
{
	struct str value, name = str_cut(line, ':', &value);

	if (!value.data || name.length == 0 || name.data[name.length - 1] == ' ')
		return malformed(err, "a header without a name");
	value = str_trim(value);
	if (str_equal_nocase(name, STR("content-length")))
		return take_length(reply, value, err);
	if (str_equal_nocase(name, STR("transfer-encoding"))) {
		if (reply->chunked || !str_equal_nocase(value, STR("chunked")))
			return malformed(err, "an unknown Transfer-Encoding");
		reply->chunked = true;
	} else if (str_equal_nocase(name, STR("content-type"))) {
		str_copy(reply->content_type, sizeof(reply->content_type), value);
	} else if (str_equal_nocase(name, STR("server"))) {
		str_copy(reply->server, sizeof(reply->server), value);
	} else if (str_equal_nocase(name, STR("x-cotenant-request-id"))) {
		str_copy(reply->request_id, sizeof(reply->request_id), value);
	}
	return 0;
}

/* The empty line: what kind of body follows. */
static int end_head(struct reply *reply, struct err *err)
{
	if (reply->chunked && reply->has_length)
		return malformed(err, "it has both kinds of length");
	if (reply->status < 200) {
		reply->state = REPLY_STATUS;
		reply->chunked = reply->has_length = false;
		reply->remaining = 0;
	} else if (reply->status == 204 || reply->status == 304 ||
	           (reply->has_length && reply->remaining == 0)) {
		reply->state = REPLY_DONE;
	} else if (reply->chunked) {
		reply->state = REPLY_CHUNK_SIZE;
	} else {
		reply->state = reply->has_length ? REPLY_BODY_LENGTH : REPLY_BODY_TO_END;
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int take_chunk_size(struct reply *reply, struct str line, struct err *err)
{
	struct str rest, digits = str_trim(str_cut(line, ';', &rest));
	uint64_t size = 0;

	if (digits.length == 0 || digits.length > 8)
		return malformed(err, "a chunk without a sensible size");
	for (size_t i = 0; i < digits.length; i++) {
		int digit = hex_digit(digits.data[i]);
		if (digit < 0)
			return malformed(err, "a chunk without a sensible size");
		size = size << 4 | (unsigned)digit;
	}
	reply->remaining = size;
	reply->state = size ? REPLY_CHUNK_DATA : REPLY_TRAILER;
	return 0;
}

static int take_line(struct reply *reply, struct str line, struct err *err)
{
	switch (reply->state) {
	case REPLY_STATUS:
		return take_status(reply, line, err);
	case REPLY_HEADER:
		return line.length ? take_header(reply, line, err) : end_head(reply, err);
	case REPLY_CHUNK_SIZE:
		return take_chunk_size(reply, line, err);
	case REPLY_CHUNK_END:
		reply->state = REPLY_CHUNK_SIZE;
		return line.length ? malformed(err, "a chunk longer than it said") : 0;
	case REPLY_TRAILER:
		if (line.length == 0)
			reply->state = REPLY_DONE;
		return 0;
	case REPLY_BODY_LENGTH:
	case REPLY_BODY_TO_END:
	case REPLY_CHUNK_DATA:
	case REPLY_DONE:
		break;
	}
	return 0;
}

/* Up to the end of a line: what of `bytes` was used, or a negative errno. */
static int64_t feed_line(struct reply *reply, const char *bytes, size_t count, struct err *err)
{
	const char *end = memchr(bytes, '\n', count);
	size_t used = end ? (size_t)(end - bytes) + 1 : count;

	/* Chunk lines are bounded one by one, the head as a whole. */
	if (reply->state == REPLY_CHUNK_SIZE || reply->state == REPLY_CHUNK_END)
		reply->head_bytes = buf_length(&reply->line);
	reply->head_bytes += used;
	if (reply->head_bytes > REPLY_HEAD_MAX)
		return malformed(err, "its head does not end");
	buf_append(&reply->line, bytes, used);
	if (!end)
		return (int64_t)used;

	struct str line = buf_str(&reply->line);
	line.length--;
	if (line.length && line.data[line.length - 1] == '\r')
		line.length--;
	int error = take_line(reply, line, err);
	buf_consume(&reply->line, buf_length(&reply->line));
	return error ? error : (int64_t)used;
}

static size_t feed_body(struct reply *reply, const char *bytes, size_t count, struct buf *body)
{
	if (reply->state != REPLY_BODY_TO_END && count > reply->remaining)
		count = (size_t)reply->remaining;
	buf_append(body, bytes, count);
	if (reply->state == REPLY_BODY_TO_END)
		return count;
	reply->remaining -= count;
	if (reply->remaining == 0)
		reply->state = reply->state == REPLY_CHUNK_DATA ? REPLY_CHUNK_END : REPLY_DONE;
	return count;
}

static bool in_body(const struct reply *reply)
{
	return reply->state == REPLY_BODY_LENGTH || reply->state == REPLY_BODY_TO_END ||
	       reply->state == REPLY_CHUNK_DATA;
}

int reply_feed(struct reply *reply, const char *bytes, size_t count, struct buf *body,
               struct err *err)
{
	while (count > 0 && reply->state != REPLY_DONE) {
		int64_t used = in_body(reply) ? (int64_t)feed_body(reply, bytes, count, body)
		                              : feed_line(reply, bytes, count, err);
		if (used < 0)
			return (int)used;
		bytes += used;
		count -= (size_t)used;
	}
	return 0;
}

int reply_close(struct reply *reply, struct err *err)
{
	if (reply->state == REPLY_DONE || reply->state == REPLY_BODY_TO_END) {
		reply->state = REPLY_DONE;
		return 0;
	}
	if (reply->state == REPLY_STATUS && buf_length(&reply->line) == 0)
		return err_set(err, -ECONNRESET, "the connection was closed before an answer");
	return err_set(err, -ECONNRESET, "the answer stops short");
}
