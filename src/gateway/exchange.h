#ifndef GATEWAY_EXCHANGE_H
#define GATEWAY_EXCHANGE_H

#include "engine/routes.h"
#include "gateway/answer.h"
#include "gateway/job.h"
#include "gateway/reception.h"
#include "gateway/upstream.h"
#include "http/sse.h"

/*
 * exchange - one request for a model, from its head to the end of its answer.
 *
 *   reading -> waiting -> running -> ended
 *
 * While reading, the body comes in and names the model; a request that must be
 * refused is refused at the end of it. While waiting the exchange holds a
 * ticket and the client's connection, and nothing else but the bytes to be
 * sent. Running begins with the arbiter's dispatch (a look at a loaded model
 * runs at once and has no ticket) and relays the engine's answer as it comes.
 *
 * It ends exactly once, by one of exchange_end() and exchange_fail(); a client
 * that leaves ends it, unless the model's `on_disconnect: finish` says that the
 * engine is to be heard to its end, or the request begins a job: that one is
 * followed until it is over, with the client or without.
 */
struct exchange {
	struct list node;
	struct gateway *gateway;
	struct client *client;       /* NULL: it left, and the engine finishes for nobody */
	const struct conf *conf;     /* the one it began with */
	uint32_t model;              /* MODEL_NONE until it is known */
	enum exchange_stage stage;
	struct id ticket;
	struct id instance;
	uint64_t sequence;
	uint64_t decision;           /* that dispatched or refused it; 0 = none yet */
	const struct conf_key *key;
	uint32_t priority;
	char *path;
	char *asked;                 /* the model's name as the client wrote it; NULL */

	enum method method;
	const struct api_shape *shape;
	enum conf_role role;
	bool foreign_page;           /* see struct who */
	bool may_stream;             /* the client asked for a stream */
	bool upgrade;                /* ... for another protocol (WebSocket) */
	bool tunnel;                 /* ... and the engine speaks it: bytes go both ways as they come */
	bool is_look;
	bool counted;                /* against its key's quota */
	bool ejects, ejects_only;    /* its model is to leave memory: behind the answer, or instead of one */
	bool returned;               /* it came back from an engine that was gone, once */
	bool may_outgrow;            /* its engine may be started anew with a larger context */
	bool refused;                /* its answer is a 400 that is being read, for it may say that */
	bool tells_context;          /* its answer is being read to tell the largest context that could be had */
	bool sized;                  /* its engine was asked how many tokens its prompt is */
	int64_t size_until_us;       /* ... and its answer is awaited so long; 0 = it is not */
	uint32_t outgrown;           /* times that it came back for a larger context */
	int64_t deadline_us;         /* from arrival; 0 = none */
	uint32_t priority_asked;     /* PRIORITY_COUNT = not said */
	uint32_t weight_asked_milli; /* 0 = not said */
	struct prompt_size prompt;
	struct prompt_size claim;    /* ... as its dispatch is to claim it */
	struct body_replies replies; /* where its body says how long the answer may be */
	int64_t reply_most;          /* ... and what it is to say instead, for memory allows no more; 0 = nothing */
	struct intake *cut;          /* the body that says so, while it is sent; NULL */
	bool unweighed;              /* its model is asked for alone: once that is there, its tokens are counted */
	uint32_t allowed_again;      /* times that it was measured anew because it found less room than it was told */
	struct body_text text[BODY_TEXTS_MAX]; /* what an engine that counts texts alone is to be given; texts 0: nothing */
	uint32_t texts;
	int64_t beside_tokens;       /* of the prompt at most, beside those texts */
	struct intake *excerpt;      /* they themselves, while they are counted; NULL */
	int64_t counted_tokens;      /* so far, where an engine tells the tokens themselves */
	bool in_number;              /* ... and its answer goes on within one */
	uint64_t conversation;       /* by what its body begins with; 0 = unknown */
	const struct conf_side *side; /* the rule by which it is side traffic; NULL = it is not */
	struct route_row route;      /* what the request means; known with the model */
	struct job *job;             /* NULL: its answer began none */
	char *boundary;              /* of a form; NULL */
	int64_t width, height;       /* of the picture that is asked for; 0 = not said */
	struct buf ahead;            /* stands before the body */
	struct buf head;             /* for the engine, but for its end */
	struct buf credentials;      /* the client's, where some model passes them on */
	struct str engine_path;      /* within `path` */
	struct intake intake;

	struct upstream *upstream;
	struct stream_reader reader; /* of what the engine answers */
	struct buf error;            /* what an engine said instead of a stream, behind our own head; or of a job */
	int engine_status;           /* 0 until its head came */
	bool engine_streams;         /* it answers with the stream that was asked for */
	bool early;                  /* our own head and keep-alives came first */
	bool is_stream;              /* what goes to the client is a stream of events */
	bool stalled;                /* the client takes nothing */
	const char *broke;           /* what the engine did instead of answering; NULL */
	int64_t broke_at_us;         /* its end is not told yet: until then the cause is awaited; 0 = no */
	int64_t sign_at_us;          /* when the next sign of life is due; INT64_MAX = never */
	int64_t stalled_at_us;

	int status;                  /* of the answer; 0 = none yet */
	int64_t arrived_at_us, dispatched_at_us, first_byte_at_us;
	uint64_t asked_at_ns; /* when it came to the arbiter for the first time, by a clock that sleeps with the machine; 0: not yet */
	int64_t bytes_out;
};

enum { SIGN_EVERY_US = 10 * 1000 * 1000 };

/* ---- exchange.c: the life ---- */

void exchange_take(struct client *client, const struct reception *reception);
/* The answer went out whole. */
void exchange_end(struct exchange *exchange);
/* ... where it is one of our own. */
void exchange_answer(struct exchange *exchange, const char *content_type, struct str body);
/* It ends without, or in the middle of, an answer. `action`: the verdict, or NULL. */
void exchange_fail(struct exchange *exchange, enum fail fail, const struct action *action);
/* The same where this request itself is at fault; the arbiter's list has no name for it. */
void exchange_refuse(struct exchange *exchange, const struct failure *failure);
void exchange_refuse_as(struct exchange *exchange, enum fail fail, const struct failure *failure);
/* Its client is gone. */
void exchange_abandon(struct exchange *exchange);
/* The gateway goes away. Nobody is told but the shell. */
void exchange_drop(struct exchange *exchange);

const struct conf_model *exchange_model(const struct exchange *exchange); /* NULL until known */

/* ---- choose.c: which model, and what is done with it ---- */

/* The body is in. Goes on to a look, to a ticket, or ends in a refusal. */
void exchange_choose(struct exchange *exchange);

/*
 * endpoint.c: a request that named no model. False: nothing serves its path, or not by its method; it
 * was refused.
 */
bool exchange_knows_path(struct exchange *exchange);
/* The methods (engine/routes.h) by which any model that the key may use knows the path. */
uint32_t endpoint_methods(const struct conf *conf, const struct conf_key *key, struct str path);
/* Can its model make what is asked for? False: it was refused. */
bool exchange_suits(struct exchange *exchange);
/* ... one whose model has no such endpoint, as far as anybody knows. */
void exchange_refuse_endpoint(struct exchange *exchange);

/* Its head for the engine with another path; query and fields stay. */
void exchange_head_for(const struct exchange *exchange, struct str target, struct buf *out);

/* picture.c: what the picture that is asked for claims; false: it was refused. */
bool exchange_weigh_picture(struct exchange *exchange, struct amount *need);

/* outgrow.c: an engine's refusal of what its context does not hold. */
/* Before it is sent to its engine. */
void outgrow_prepare(struct exchange *exchange);
/*
 * True: its engine is asked first how many tokens it is, because the bound by bytes is too large for the
 * context; then it is sent, or waits for a larger one.
 */
bool outgrow_asks(struct exchange *exchange, const struct upstream_request *request);
/*
 * True: its engine is asked that before the request asks for room, because as many tokens as its bytes may be would
 * find none; then exchange_ask() goes on with it.
 */
bool outgrow_counts_first(struct exchange *exchange);
/* What it was given to count is given back. */
void outgrow_forget_excerpt(struct exchange *exchange);
/* The answer to that is not awaited any longer. */
void outgrow_asked_long_enough(struct exchange *exchange);
/* The head of its answer: true where the answer is to be read to its end first. */
bool outgrow_may_be(struct exchange *exchange, int status, int64_t length);
/* That answer is whole: the exchange waits for a larger context, or (false) it is to be relayed. */
bool outgrow_returns(struct exchange *exchange);
/* ... with the largest context that could be had, not the one that happens to be there: true, it was refused. */
bool outgrow_refuses(struct exchange *exchange);
/* The same number in an answer that tells the context. */
void outgrow_tell_largest(struct exchange *exchange);

/* Can it be counted, and was not yet? */
bool outgrow_is_countable(const struct exchange *exchange);
/*
 * True: its model was asked for alone, and now its engine is asked how many tokens it is; then it asks for room as
 * what it is. False: it cannot be counted, and is to ask again at once.
 */
bool outgrow_weighs(struct exchange *exchange, const struct upstream_request *request);

/* allowance.c: what memory leaves for a conversation. */
/* Before the arbiter is asked: what it is to claim, and how long its answer may be. False: it was refused. */
bool allowance_take(struct exchange *exchange);
/* The arbiter refused it with `fail`: true, it asks again with less, or was refused for its length. */
bool allowance_again(struct exchange *exchange, uint32_t fail);
/* Where its answer is to be shorter than it asks, the body that is sent says so. */
void allowance_cut(struct exchange *exchange, struct upstream_request *request);
void allowance_forget_cut(struct exchange *exchange);

/* The arbiter is asked. */
void exchange_ask(struct exchange *exchange);
/* Refused by an engine that is well: the arbiter is asked anew. */
void exchange_ask_again(struct exchange *exchange);
/* The engine it was dispatched to is gone, and never saw it: the arbiter is asked anew. */
void exchange_return(struct exchange *exchange);

/* ---- relay.c: from the dispatch on ---- */

/* What exchange->instance is to be sent, the body with it; false: nobody is there. */
bool relay_request(struct exchange *exchange, struct upstream_request *out);
/* To the engine of exchange->instance. */
void relay_start(struct exchange *exchange);
/* The client took what was pending. */
void relay_drained(struct exchange *exchange);
/*
 * What it waited for and by which decision it got through, or did not: X-Cotenant-Wait-Ms, -Load-Ms,
 * -Decision. Returns how many were written; the values lie in `texts`.
 */
enum { OWN_FIELDS_MAX = 4, OWN_VALUE_BYTES = REQUEST_ID_BYTES };
uint32_t relay_own_fields(const struct exchange *exchange, struct head_field fields[OWN_FIELDS_MAX],
                          char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES]);
/* Bytes for the engine, of a protocol that is not ours. */
void relay_tunnel(struct exchange *exchange, struct str bytes);
/* The client's alarm: a sign of life, a deadline, or a client that takes nothing. */
void relay_alarm(struct exchange *exchange);
/* Set the alarm for what is due next. */
void relay_rearm(struct exchange *exchange);
/* What is sent of a failure where the answer has begun: one event, where it is a stream. */
void relay_say_failure(struct exchange *exchange, const struct failure *failure);

#endif
