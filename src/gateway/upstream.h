#ifndef GATEWAY_UPSTREAM_H
#define GATEWAY_UPSTREAM_H

#include "engine/supervisor.h"
#include "gateway/intake.h"
#include "gateway/room.h"
#include "http/message.h"

/*
 * upstream - one request to an engine, and its answer as it comes.
 *
 * It takes a kept connection or dials, sends head and body at the engine's
 * pace, and reads the answer meanwhile. Where a connection breaks before a byte
 * of an answer came and the body is still held, it tries once more on a new
 * connection; after the first byte the body is given back and there is no
 * second try, because the engine may have acted.
 *
 * Life cycle: upstream_start() -> on_head -> on_body... -> on_end, or on_failed
 * or on_unreachable at any point. Those three are the last; the owner then frees it. The
 * owner may free it at any other time too, but not within on_head or on_body:
 * the connection is closed and the engine ends what it was doing.
 */
struct upstream;

struct upstream_events {
	/* The head of the answer, valid during the call, and how long its body is (-1 unknown). */
	void (*on_head)(void *ctx, const struct message *head, enum body_kind kind, int64_t length);
	/* Body bytes as one read brought them. At most UPSTREAM_PARTS_MAX parts, valid during the call. */
	void (*on_body)(void *ctx, const struct str *parts, uint32_t count);
	/* All that one read brought was handed out. */
	void (*on_pause)(void *ctx);
	/* What was sent by upstream_send() was taken. NULL where nothing ever is. */
	void (*on_sent)(void *ctx);
	/* The answer is complete. */
	void (*on_end)(void *ctx);
	/* There is none, or no more of it: `what` is half a sentence. */
	void (*on_failed)(void *ctx, const char *what);
	/* Nobody listens there: the engine is gone and never saw the request. Instead of on_failed. */
	void (*on_unreachable)(void *ctx);
};

enum { UPSTREAM_PARTS_MAX = 32 };

/*
 * `head` is a request head with everything but Host, length, credentials and the
 * blank line behind; `credentials` are whole lines; `body` is complete. Both stay with the caller, and
 * `body` is cleared at the first byte of the answer, or later where it is held.
 */
struct upstream_request {
	struct id instance;
	struct endpoint endpoint;
	uint32_t keep;        /* idle connections to that engine at most */
	enum method method;
	bool upgrade;         /* the client asked for another protocol: a 101 is an answer */
	struct str head;
	struct str ahead;     /* sent before the body, and part of it */
	struct str credentials; /* of the client, where its model passes them on; else empty */
	struct intake *body;
	bool holds_body;      /* it stays after the first byte of the answer, until upstream_let_go() */
};

struct upstream *upstream_start(struct gateway *gateway, const struct upstream_request *request,
                                const struct upstream_events *events, void *ctx);
/* While paused nothing is read, so the engine waits. */
void upstream_pause(struct upstream *upstream);
void upstream_resume(struct upstream *upstream);
/* Behind a 101: bytes of the other protocol, and whether earlier ones still wait. */
void upstream_send(struct upstream *upstream, struct str bytes);
bool upstream_sends(const struct upstream *upstream);
/* The body is not needed any more: given back as soon as all of it is sent. */
void upstream_let_go(struct upstream *upstream);
void upstream_free(struct upstream *upstream); /* NULL: nothing */

/* Kept connections to an instance are closed: it is told to stop. */
void upstream_forget(struct gateway *gateway, struct id instance);

#endif
