#ifndef GATEWAY_CLIENT_H
#define GATEWAY_CLIENT_H

#include "gateway/room.h"
#include "http/message.h"

/*
 * client - one connection of a client, and the answer that is being written.
 *
 * A connection carries one request at a time: head, body, then the exchange
 * that answers it. What a client sends ahead waits in `in`; from 16 KiB on the
 * connection is not read, and once a second the kernel is asked whether the
 * client is still there. So one that leaves is noticed, unless it left more
 * behind than the kernel takes.
 *
 * The exchange (struct exchange or struct call) is told through `ops`, and it
 * ends by answer_end() or answer_break(), or is told `gone`. After either it
 * must not touch the client again.
 *
 * Nothing here calls back into an exchange from within a call of the exchange's
 * own, but answer_end(): it may begin the next request, so it comes last.
 */
enum client_state {
	CLIENT_HEAD,    /* between requests, or in a head */
	CLIENT_BODY,    /* an exchange takes the body */
	CLIENT_BUSY,    /* the exchange waits or answers */
	CLIENT_TUNNEL,  /* the same, and what the client sends is the exchange's */
	CLIENT_CLOSED,
};

struct exchange_ops {
	/* The whole body is in the intake. */
	void (*on_body)(void *exchange);
	/* The body is refused. The exchange answers with this failure. */
	void (*on_bad_body)(void *exchange, const struct failure *failure);
	/* The client left, or its connection broke. */
	void (*on_gone)(void *exchange);
	/* What was pending towards the client was taken. */
	void (*on_drained)(void *exchange);
	/* Bytes of another protocol, behind client_tunnel(). NULL: never called. */
	void (*on_tunnel)(void *exchange, struct str bytes);
	/* The alarm of client_alarm(). */
	void (*on_alarm)(void *exchange);
};

enum framing {
	FRAMING_NONE,        /* no body follows: HEAD, 204, 304 */
	FRAMING_LENGTH,
	FRAMING_CHUNKED,
	FRAMING_UNTIL_CLOSE, /* HTTP/1.0: the connection's end is the answer's */
	FRAMING_TUNNEL,      /* another protocol, until either side ends it */
};

struct answer {
	bool begun;          /* a status is chosen, and on its way unless still held */
	bool is_head;        /* the request was HEAD */
	bool keep_alive;     /* after the answer */
	uint8_t minor_version;
	enum framing framing;
	int status;
	int64_t left;        /* FRAMING_LENGTH */
	int64_t bytes;       /* of body, written so far */
	char *allow_origin;  /* NULL */
};

struct client {
	struct list node;
	struct gateway *gateway;
	struct stream *stream;  /* NULL once given up */
	struct peer peer;
	bool in_admin_group;
	bool unread;            /* `in` is full: the stream is paused */
	bool fresh;             /* an exchange ended: what is in `in` is to be looked at */
	enum client_state state;
	uint32_t depth;         /* calls under way on this client; it is freed when none is */
	uint64_t sequence;      /* of the request */
	const struct exchange_ops *ops; /* NULL between requests */
	void *exchange;
	struct intake *intake;  /* the exchange's */
	uint64_t body_due_ms;   /* when all of the body is to be there, by the loop's clock; 0 = never */
	struct buf in;
	size_t scanned;         /* of `in`, by head_find() */
	struct buf held;        /* an answer's head that waits for its first bytes */
	struct answer answer;
};

/* The connection is the client's; it frees itself when it is closed. */
void client_new(struct gateway *gateway, struct stream *stream, const struct peer *peer);
/* At once. An exchange under way is told that the client is gone. */
void client_close(struct client *client);
/* The daemon is going down: an idle one closes now, others after their answer. */
void client_drain(struct client *client);

/* What takes the request whose head was just read; `intake` was initialised. Called once a request. */
void client_serve(struct client *client, const struct exchange_ops *ops, void *exchange,
                  struct intake *intake);
/* While BUSY there is one alarm, the exchange's. 0 takes it back. */
void client_alarm(struct client *client, uint64_t ms);
size_t client_pending(const struct client *client);
/*
 * From now on both sides speak another protocol. What the client sent ahead is
 * moved to `ahead`; the rest comes by on_tunnel, while it is not held.
 */
void client_tunnel(struct client *client, struct buf *ahead);
void client_hold(struct client *client, bool hold);

/* For answer.c: the answer is complete and framed; the next request may begin. */
void client_next(struct client *client);
/* For answer.c: the answer is over and so is the connection: in peace, or visibly broken. */
void client_part(struct client *client, bool cut);

#endif
