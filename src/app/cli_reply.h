#ifndef APP_CLI_REPLY_H
#define APP_CLI_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * cli_reply - one HTTP/1.1 answer, read from bytes as they come.
 *
 * Strict and bounded, because the other end may be anything (--url): a head
 * over 64 KiB, a length that is no number, both kinds of length or a chunk that
 * makes no sense end it with an error; an answer that stops short never looks
 * whole. Interim 1xx answers are skipped. It does no I/O: feed it what was
 * read, and tell it when the peer closed.
 */
enum reply_state {
	REPLY_STATUS,
	REPLY_HEADER,
	REPLY_BODY_LENGTH,  /* `remaining` bytes */
	REPLY_BODY_TO_END,  /* until the peer closes */
	REPLY_CHUNK_SIZE,
	REPLY_CHUNK_DATA,
	REPLY_CHUNK_END,
	REPLY_TRAILER,
	REPLY_DONE,
};

struct reply {
	enum reply_state state;
	int status;
	char content_type[64]; /* "" where absent */
	char server[64];
	char request_id[64];   /* ours; "" where absent */
	bool chunked;
	bool has_length;
	uint64_t remaining;
	size_t head_bytes;
	struct buf line; /* a line that is not whole yet */
};

enum { REPLY_HEAD_MAX = 64 * 1024 };

#define REPLY_INIT ((struct reply){ .state = REPLY_STATUS })

void reply_release(struct reply *reply);

/*
 * Take `count` bytes; the body goes to the end of `body`, whose growth the
 * caller bounds between calls. 0, or -EBADMSG with what is wrong. Bytes behind
 * the end of the answer are ignored.
 */
int reply_feed(struct reply *reply, const char *bytes, size_t count, struct buf *body,
               struct err *err);

/* The peer closed: 0 where the answer was whole, else -ECONNRESET. */
int reply_close(struct reply *reply, struct err *err);

#endif
