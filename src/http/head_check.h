#ifndef HTTP_HEAD_CHECK_H
#define HTTP_HEAD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * head_check - judges the raw bytes of a head before any parser acts on them.
 *
 * Two programs that read the same bytes differently are how requests are
 * smuggled. So a head passes only if it can be read in one way: lines end in
 * CRLF and nothing else does, names are tokens with the colon right behind
 * them, no folds, no control bytes, one Host, and a body length that is said at
 * most once. What is refused is answered and the connection closed; nothing of
 * it reaches an engine.
 *
 * Heads of engines' answers go through the same check by other rules: a reason
 * phrase may be missing and HTTP/1.0 may leave the length to the end of the
 * connection, but lines and lengths must be as unambiguous.
 */

enum {
	HEAD_BYTES_MAX = 32 * 1024,
	HEAD_FIELDS_MAX = 128,
	HEAD_TARGET_MAX = 8 * 1024,
};

enum head_kind {
	HEAD_REQUEST_TCP,  /* exactly one Host, and it looks like one */
	HEAD_REQUEST_UNIX, /* at most one Host, any text */
	HEAD_RESPONSE,
};

enum head_fault {
	HEAD_OK,
	HEAD_INCOMPLETE, /* does not end with its blank line */
	HEAD_TOO_LARGE,
	HEAD_TOO_MANY_FIELDS,
	HEAD_BARE_CR,
	HEAD_BARE_LF,
	HEAD_CONTROL_BYTE,  /* NUL and other control bytes */
	HEAD_LEADING_BLANK, /* an empty line or a blank before the first line */
	HEAD_BAD_LINE,   /* the first line is not "METHOD target HTTP/1.x" or "HTTP/1.x status" */
	HEAD_BAD_METHOD, /* not a token */
	HEAD_UNKNOWN_METHOD, /* a token, but none that we serve */
	HEAD_BAD_TARGET,
	HEAD_TARGET_TOO_LONG,
	HEAD_BAD_VERSION, /* HTTP/0.9, HTTP/2 or something else */
	HEAD_BAD_STATUS,
	HEAD_FOLD,
	HEAD_NO_COLON,
	HEAD_BLANK_BEFORE_COLON,
	HEAD_BAD_NAME,
	HEAD_NO_HOST,
	HEAD_DUPLICATE_HOST,
	HEAD_BAD_HOST,
	HEAD_HOST_DISAGREES,   /* with the authority of an absolute target */
	HEAD_BAD_LENGTH,       /* Content-Length is not digits alone */
	HEAD_DUPLICATE_LENGTH, /* even where both say the same */
	HEAD_LENGTH_TOO_LARGE, /* over int64 */
	HEAD_DUPLICATE_ENCODING,
	HEAD_BAD_ENCODING, /* Transfer-Encoding is not exactly "chunked" */
	HEAD_ENCODING_IN_1_0,
	HEAD_BOTH_LENGTHS, /* Content-Length and Transfer-Encoding */
	HEAD_DISAGREEMENT, /* the parser read it differently; see message.h */
	HEAD_FAULT_COUNT,
};

/* What the check itself read; the parser must agree with it. */
struct head_facts {
	int minor_version;      /* of HTTP/1.x: 0 or 1 */
	int status;             /* responses; 0 for requests */
	int64_t content_length; /* -1: none said */
	bool chunked;
	uint32_t fields;
};

/*
 * How many of `bytes` head_check() needs to see: the head with its blank line,
 * or less where that already shows a head which must be refused (a bare LF, a
 * first line without a version), so that nobody waits for a blank line that
 * never comes. 0: more bytes are needed. -E2BIG: HEAD_BYTES_MAX without an end.
 * `*scanned` starts at 0 and is kept between calls on the same growing bytes,
 * so that a head which drips in is read once.
 */
int64_t head_find(struct str bytes, enum head_kind kind, size_t *scanned);

/* Judge a head as head_find() measured it. `facts` may be NULL; filled only with HEAD_OK. */
enum head_fault head_check(struct str head, enum head_kind kind, struct head_facts *facts);

/* What a client reads, and with which status (400, 413, 414, 431, 501, 505). */
const char *head_fault_text(enum head_fault fault);
int head_fault_status(enum head_fault fault);

#endif
