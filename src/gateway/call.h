#ifndef GATEWAY_CALL_H
#define GATEWAY_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "conf/conf.h"

/*
 * call - one request for an endpoint of our own (/api/v1, /metrics, /v1/models).
 *
 * The gateway parsed and bounded it, checked Host, Origin and key, and read the
 * whole body (at most 1 MiB) before the handler sees it. The handler answers at
 * once or later, with a whole body or as a stream; the call lives until the
 * answer was ended or the client left, whichever is first, and `on_gone` is
 * told of the latter (then the call is dead: do not touch it again).
 */
struct call;

enum call_from {
	CALL_FROM_UNIX,
	CALL_FROM_TCP,
};

/* All borrowed from the call, valid while it lives. */
struct str call_method(const struct call *call);
struct str call_path(const struct call *call);   /* as sent, without the query; still percent-encoded */
struct str call_query(const struct call *call);  /* behind the '?', "" where none */
struct str call_header(const struct call *call, const char *name); /* first of that name; "" where none */
struct str call_body(const struct call *call);
enum conf_role call_role(const struct call *call);
const struct conf_key *call_key(const struct call *call); /* NULL: no key was used */
enum call_from call_from(const struct call *call);
const char *call_id(const struct call *call);    /* the public request id, "<boot>-<sequence>" */

/* One parameter of the query, percent-decoded into `out`; false where it is absent or does not fit. */
bool call_parameter(const struct call *call, const char *name, char *out, uint32_t out_bytes);

/* One header more for the answer ("Allow"), before it begins; copied. At most 4. */
void call_answer_header(struct call *call, const char *name, const char *value);

/* A whole answer; the call is dead afterwards. */
void call_reply(struct call *call, int status, const char *content_type, struct str body);
/* {"error": {"message", "type", "code"}} with the status; `help` = one command to type, or NULL. */
void call_error(struct call *call, int status, const char *code, const char *message, const char *help);

/*
 * The endpoint takes `methods` ("GET, POST"), and the call came by another: OPTIONS is told so, any
 * other is refused with 405. The call is dead afterwards.
 */
void call_methods(struct call *call, const char *methods);

/* A stream (chunked): begin, any writes, end. call_pending: bytes not yet taken by the client. */
void call_begin(struct call *call, int status, const char *content_type);
void call_write(struct call *call, struct str bytes);
void call_end(struct call *call);
uint64_t call_pending(const struct call *call);

/* Who is told that the client left before the end. NULL unsets. */
void call_on_gone(struct call *call, void (*on_gone)(void *ctx, struct call *call), void *ctx);

#endif
