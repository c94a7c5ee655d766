#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/message.h"

/*
 * body - where a message's body ends, and its bytes without the framing.
 *
 * The decoder holds no bytes: it hands out slices of what it is fed. What it
 * accepts has one reading only: chunk sizes are 1 to 15 hex digits with CRLF,
 * extensions and trailers are well-formed, bounded, and dropped.
 */

enum body_kind {
	BODY_NONE, /* the message ends with its head */
	BODY_LENGTH,
	BODY_CHUNKED,
	BODY_UNTIL_CLOSE, /* an answer that ends with its connection */
	BODY_TUNNEL,      /* bytes of another protocol follow, both ways, until close */
};

enum body_kind body_kind_of_request(const struct message *request);
/* `asked`: the method of the request it answers (HEAD has no body whatever the head says). */
enum body_kind body_kind_of_response(const struct message *response, enum method asked);

enum body_step {
	BODY_MORE,   /* all of `in` was taken; feed more */
	BODY_DATA,   /* `data` is body */
	BODY_END,    /* complete; what is left in `in` belongs to the next message */
	BODY_BROKEN, /* the framing makes no sense: close the connection */
};

struct body_decoder {
	/* private */
	enum body_kind kind;
	int state;
	uint64_t left;     /* bytes of this chunk, or of the whole with BODY_LENGTH */
	uint32_t part;     /* bytes of this size, extension's name, trailer's name, ... */
	uint32_t overhead; /* bytes of this line's extensions, or of all trailers */
	const char *fault;
};

/* `length`: with BODY_LENGTH the Content-Length. */
void body_decoder_init(struct body_decoder *decoder, enum body_kind kind, int64_t length);

/*
 * One step: take bytes from the front of `in` (which moves on) and say what they
 * were. `data` is set with BODY_DATA, points into `in` and is never empty. Call
 * until BODY_MORE, BODY_END or BODY_BROKEN. A body of no bytes says BODY_END at
 * the first call, even with an empty `in`.
 */
enum body_step body_decode(struct body_decoder *decoder, struct str *in, struct str *data);

/* The peer closed. Was that a clean end? */
bool body_decoder_may_close(const struct body_decoder *decoder);

/* Why BODY_BROKEN. */
const char *body_decoder_fault(const struct body_decoder *decoder);

/*
 * Chunked encoding: a whole chunk, or its head and tail for data that goes out
 * by itself.
 */
enum { CHUNK_HEAD_MAX = 20 };
void chunk_append(struct buf *out, struct str data);         /* nothing for empty data */
size_t chunk_head(char out[CHUNK_HEAD_MAX], uint64_t bytes); /* returns its length */
#define CHUNK_TAIL STR("\r\n")
#define CHUNK_END STR("0\r\n\r\n")

#endif
