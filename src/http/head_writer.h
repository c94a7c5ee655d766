#ifndef HTTP_HEAD_WRITER_H
#define HTTP_HEAD_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/message.h"

/*
 * head_writer - heads written anew from parsed fields.
 *
 * Nothing that we received is sent on as it stood. A table says which fields
 * belong to one connection only, which carry the client's credentials, and
 * which we say ourselves; these are left out, and so is every field that the
 * Connection field names. The rest goes through in its order.
 *
 * Not passed to an engine besides: Origin (checked here; engines compare it
 * with a Host that is no longer the client's), Accept-Encoding (answers stay
 * readable, so that tokens can be counted and keep-alives put between events).
 * Not passed to a client besides: Access-Control-* (who may read is decided
 * here) and X-Cotenant-* of an engine's own.
 */

/* How long a body is said to be. */
enum { LENGTH_NONE = -1, LENGTH_CHUNKED = -2 };

struct request_head {
	struct str target; /* path and query for the engine; empty = as the client sent them */
	struct str host;   /* empty: the caller writes the field */
	int64_t length;    /* >= 0, LENGTH_NONE or LENGTH_CHUNKED */
	bool keep_alive;
};

/* An upgrade that the client asks for is passed on. */
void head_write_request(struct buf *out, const struct message *request,
                        const struct request_head *how);
/* The fields by which the client says who it is, as whole lines: for a server that is to know. */
void head_write_credentials(struct buf *out, const struct message *request);

struct head_field {
	struct str name, value; /* CR, LF and NUL in a value are written as blanks */
};

struct response_head {
	int64_t length; /* >= 0, LENGTH_NONE or LENGTH_CHUNKED */
	bool keep_alive;
	/* Of HTTP/1.x. With 0 a kept connection is said so, and LENGTH_CHUNKED is not to be used.
	 */
	int client_minor_version;
	const struct head_field *extra; /* X-Cotenant-..., Retry-After, Access-Control-... */
	uint32_t extra_count;
};

/* An engine's answer for the client; with a 101 the upgrade is passed on. */
void head_write_response(struct buf *out, const struct message *response,
                         const struct response_head *how);

/* An answer of our own. `content_type` may be NULL. */
void head_write_own(struct buf *out, int status, const char *content_type,
                    const struct response_head *how);

const char *status_reason(int status); /* "" where it is not known */

#define HEAD_CONTINUE STR("HTTP/1.1 100 Continue\r\n\r\n")

#endif
