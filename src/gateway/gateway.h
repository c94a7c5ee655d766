#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "conf/conf.h"
#include "core/event.h"
#include "engine/supervisor.h"
#include "gateway/call.h"
#include "gateway/ticket.h"

/*
 * gateway - between clients and engines.
 *
 * It listens, parses, decides who may (roles, Host, Origin), finds the model a
 * request names, parks it with a ticket until the arbiter dispatches it, and
 * then relays both ways with back-pressure. It decides nothing about memory and
 * never waits: what it needs from the shell stands in struct gateway_host.
 *
 * An exchange is one request and its answer: reading head -> reading body ->
 * waiting -> connecting -> relaying -> ended. A client that leaves in any state
 * ends it (FAIL_CLIENT_GONE), and an answer that breaks is cut so that it never
 * looks complete.
 */
struct gateway;
struct quota_tokens;
struct uv_loop_s;

/* How a dispatched or abandoned request ended, for the arbiter, history and metrics. */
struct exchange_end {
	struct id ticket;          /* ID_NONE: it never had one, or the arbiter ended it itself (REJECT) */
	uint64_t sequence;
	uint32_t model;            /* MODEL_NONE where it named none */
	const struct conf_key *key;
	const char *path;
	uint32_t priority;
	const struct conf_side *side; /* the rule by which it was side traffic; NULL = it was not */
	uint64_t decision;         /* that dispatched or refused it; 0 = none */
	enum fail fail;            /* FAIL_NONE: the engine's own answer went through whole */
	int status;                /* sent to the client; 0 = none */
	bool dispatched;
	int64_t arrived_at_us;     /* CLOCK_BOOTTIME */
	int64_t dispatched_at_us;
	int64_t first_byte_at_us;
	int64_t ended_at_us;
	int64_t bytes_in, bytes_out;
	int64_t prompt_bytes;      /* of its words alone; -1 = not known */
	int64_t tokens_in, tokens_out; /* from the engine's usage where seen, else 0 */
	int64_t prefill_tokens, prefill_us, decode_us; /* from its timings, likewise */
};

/* What a picture of some size takes, and what there could be for it. */
struct picture_need {
	int64_t bytes;       /* beside the model, at most; 0 = not known */
	int64_t model_bytes; /* the model, loaded */
	int64_t room_bytes;  /* for models on this machine, at most; 0 = not known */
};

/* What is known of how much a request is for its model. */
struct prompt_size {
	int64_t bytes;        /* of its prompt, which bound its tokens; -1 = not known */
	int64_t tokens;       /* as the engine counted them; -1 = it did not */
	int64_t reply_tokens; /* that it asks for at most; -1 = not said */
	int64_t prompts;      /* it is a list of so many, each answered for itself; else 1 */
	int64_t longest_bytes; /* of one of them, as `bytes` */
};

/* Of several the longest, as far as that is known: a context is that of one. */
struct prompt_size prompt_longest(const struct prompt_size *prompt);

/*
 * What memory allows a request of a model whose KV follows use. `most_tokens`: it may come to so many at most, once all
 * that may go has gone and what runs has ended; 0 = as many as its context holds, or it is not known.
 */
struct allowance {
	int64_t most_tokens;
	int64_t prompt_tokens; /* its prompts, counted or at most */
};

/* A request that its engine refused because its context does not hold it. */
struct outgrown {
	uint32_t model;
	struct id instance;
	uint64_t sequence;
	int64_t prompt_tokens; /* as the engine counted them */
	int64_t reply_tokens;  /* that it asks for, or is expected to */
};

struct gateway_host {
	void *ctx;
	/* A new request for the arbiter; the ticket is open. */
	void (*on_request)(void *ctx, struct id ticket, const struct request_spec *spec);
	/*
	 * What its dispatch is to claim and how many tokens it comes to, into `out`, which is left as it
	 * is where the model's own figure holds. NULL: always that.
	 */
	void (*need)(void *ctx, uint32_t model, const struct prompt_size *prompt, struct request_spec *out);
	/* Whether its engine may be started anew with a larger context. NULL: none may. */
	bool (*elastic)(void *ctx, uint32_t model);
	/* Whether, as far as is known of its size, that model's instance may be too small for a request. */
	bool (*may_exceed)(void *ctx, uint32_t model, const struct prompt_size *prompt);
	/*
	 * Whether that model's engine, which is there, is to count a request's tokens before the request asks for
	 * room: as many as its bytes may be would find none without somebody's going. NULL: never.
	 */
	bool (*counts_first)(void *ctx, uint32_t model, const struct prompt_size *prompt);
	/* What there could be for a request of such a prompt. NULL: memory bounds none. */
	void (*allow)(void *ctx, uint32_t model, const struct prompt_size *prompt, struct allowance *out);
	/* The largest context of it that could be granted now, in tokens; 0 = what its engine has. */
	int64_t (*context_now)(void *ctx, uint32_t model);
	/* True: a larger context is on its way, and the request is to ask again. */
	bool (*outgrown)(void *ctx, const struct outgrown *request);
	/*
	 * A request for work ended on this side, for whatever reason. With a ticket the arbiter is to be
	 * told: FINISHED where it was dispatched, else GONE. The ticket is closed when this returns.
	 */
	void (*on_end)(void *ctx, const struct exchange_end *end);
	/*
	 * A dispatched request comes back untouched because nobody listens at `instance` any more: end
	 * it for the arbiter (FINISHED), and say that the instance is not well. A new on_request follows.
	 */
	void (*on_return)(void *ctx, struct id ticket, struct id instance);
	/* The same where the instance is well, and refused it: it is ended for the arbiter, and that is all. */
	void (*on_refused)(void *ctx, struct id ticket);
	/* Where an instance listens. */
	bool (*endpoint)(void *ctx, struct id instance, struct endpoint *out);
	/* Is the model loaded, for a look; the instance goes to out. */
	bool (*loaded)(void *ctx, uint32_t model, struct id *out_instance);
	/* One line for a keep-alive: "loading chat, 40 %", "place 3 in the queue of chat". */
	void (*progress)(void *ctx, struct id ticket, uint32_t model, char *out, uint32_t out_bytes);
	/*
	 * What is known of why requests of `model` end with `fail`, for the client: the engine's own
	 * telling line, the file's fault. Writes "" where nothing is known.
	 */
	void (*explain)(void *ctx, uint32_t model, enum fail fail, char *out, uint32_t out_bytes);
	/* How much of the time since `since_us` the instance took to load, in µs. NULL: not told. */
	int64_t (*load_us)(void *ctx, struct id instance, int64_t since_us);
	/* The number of the decision that just dispatched that request; 0 = none. NULL: not told. */
	uint64_t (*decision)(void *ctx, uint64_t request);
	/*
	 * A key (quota_key() of its name) that may use so many tokens a day used some. For gateway_restore_tokens() in a
	 * later life. NULL: nobody keeps it.
	 */
	void (*on_tokens)(void *ctx, uint64_t key, const struct quota_tokens *tokens);
	/* What the model cannot make (enum makes), as far as its file and flags tell. NULL: nothing is known. */
	uint32_t (*lacks)(void *ctx, uint32_t model);
	/* NULL: no picture is weighed. */
	void (*picture)(void *ctx, uint32_t model, int64_t pixels, struct picture_need *out);
	/* A request for our own endpoints. */
	void (*on_call)(void *ctx, struct call *call);
	/* A fresh public sequence number. */
	uint64_t (*sequence)(void *ctx);
};

struct gateway_options {
	struct uv_loop_s *loop;
	const struct conf *conf;       /* may be replaced by gateway_reconfigure() */
	struct tickets *tickets;
	const char *boot_id;           /* 8 hex digits */
	const char *socket_path;       /* the control socket */
};

struct gateway *gateway_new(const struct gateway_options *options, const struct gateway_host *host,
                            struct err *err);
/*
 * Take a new configuration for exchanges and calls from now on; running ones keep the old, which
 * must live until they ended.
 */
void gateway_reconfigure(struct gateway *gateway, const struct conf *conf);
/*
 * Idle connections close, running exchanges go on, and each connection ends with its answer. New ones
 * are still taken: whoever comes now is to read that we end, and when to come again.
 */
void gateway_drain(struct gateway *gateway);
/* What on_tokens told of a key in an earlier life; before the first request. A reload may yet add the key. */
void gateway_restore_tokens(struct gateway *gateway, uint64_t key, const struct quota_tokens *tokens);
/* No new connections any more but at the control socket. */
void gateway_close_door(struct gateway *gateway);
uint32_t gateway_exchanges(const struct gateway *gateway); /* live ones */
/* Live requests for our own endpoints; their keys are of the configuration they began under. */
uint32_t gateway_calls(const struct gateway *gateway);
/* The first TCP port listened on, 0 where there is none. */
uint16_t gateway_port(const struct gateway *gateway);
/* An instance is told to stop: connections kept to it are closed, so that they do not hold it up. */
void gateway_forget_instance(struct gateway *gateway, struct id instance);
/* Ends everything that is left. The loop must run once more before it is closed. */
void gateway_free(struct gateway *gateway);

/* A live exchange, for the list of requests. Strings are borrowed during the call. */
enum exchange_stage { STAGE_READING, STAGE_WAITING, STAGE_RUNNING };

struct exchange_view {
	uint64_t sequence;
	enum exchange_stage stage;
	struct id ticket;
	uint32_t model;              /* MODEL_NONE where it named none yet */
	uint32_t priority;
	const struct conf_key *key;  /* NULL = none */
	const char *path;
	const struct conf_side *side; /* the rule by which it is side traffic; NULL = it is not */
	uint64_t decision;           /* that dispatched it; 0 = not yet */
	int64_t arrived_at_us, dispatched_at_us, first_byte_at_us; /* 0 = not yet */
	int64_t bytes_in, bytes_out;
};

void gateway_each(const struct gateway *gateway,
                  void (*each)(void *ctx, const struct exchange_view *view), void *ctx);
/*
 * End the live exchange of that number with FAIL_CANCELLED; false where there is none. One that
 * follows a job asks the engine to give that up, and ends when the engine did.
 */
bool gateway_cancel(struct gateway *gateway, uint64_t sequence);

struct gateway_counters {
	uint64_t connections, requests, bytes_in, bytes_out;
	uint64_t by_status[6]; /* 1xx..5xx at [1]..[5]; [0]: none sent */
	uint64_t bad_heads;    /* refused by the raw-head check */
};
const struct gateway_counters *gateway_counters(const struct gateway *gateway);

#endif
