/*
 * world - a gateway between callers and an engine, all on one loop, for tests.
 *
 * The shell is played here: requests are dispatched to the engine at the next
 * turn of the loop unless `hold` is set, and every end is written down. The
 * engine is a unix socket that hands whole requests to `world.engine`, which
 * answers as the test wants. Callers are raw connections.
 */
#ifndef TESTS_GATEWAY_WORLD_H
#define TESTS_GATEWAY_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../cmocka_all.h"

#include "base/buf.h"
#include "gateway/gateway.h"
#include "io/listener.h"
#include "io/stream.h"

/* The configuration owns its strings, so its fields are not const. */
#define OWN(text) (char[]){ text }

enum { ENDS_MAX = 2048, WAITING_MAX = 2048, ENGINES_MAX = 256 };

struct caller {
	struct stream *stream;
	struct buf got;
	bool left; /* the other side ended */
	int error;
};

struct world;

/* One connection at the engine. */
struct engine_side {
	struct world *world;
	struct stream *stream;
	struct buf in;
	bool left;
};

struct world {
	uv_loop_t loop;
	struct reactor *reactor; /* of callers and engine */
	struct conf conf;
	struct conf_listen listen;
	struct conf_model models[3];
	struct conf_key keys[2];
	struct tickets *tickets;
	struct gateway *gateway;
	char folder[64];

	/* the shell */
	bool hold;
	struct id waiting[WAITING_MAX];
	struct request_spec specs[WAITING_MAX];
	uint32_t waiting_count; /* requests that were not yet dispatched */
	uint32_t requests;
	int64_t last_need_bytes;     /* of the last request: what it claims */
	uint32_t lacks[3];
	int64_t picture_pixel_bytes, picture_room_bytes;
	uint64_t sequence;
	struct exchange_end ends[ENDS_MAX];
	uint32_t end_count;
	bool loaded[3];
	void (*on_call)(struct world *world, struct call *call);
	uint32_t calls;

	int64_t most_tokens;         /* memory allows a request so many; 0: it bounds none */
	struct prompt_size last_claim; /* of the last request */
	bool counts_first;           /* prompts are counted before the shell hears of them */
	int64_t last_prompt_tokens;  /* of the last request, as it was counted */
	bool elastic;                /* contexts may grow, though none does; prompts are counted first */

	/* the engine */
	bool engine_away;            /* nobody listens there ... */
	uint32_t engine_back_after;  /* ... until so many requests came back */
	uint32_t returns;
	struct listener *engine_listener;
	char engine_path[96];
	void (*engine)(struct engine_side *side, struct str request);
	struct engine_side *engines[ENGINES_MAX];
	uint32_t engine_count;
	uint32_t engine_requests;
	struct buf last_request;
};

/* Chat, small and other are the models; each listens at the one engine. */
void world_begin(struct world *world);
/* The parts, for a test that changes the configuration in between. */
void world_init(struct world *world);
void world_open(struct world *world);
void world_end(struct world *world);

/* One turn of the loop, then the verdicts. */
void world_turn(struct world *world);
void world_dispatch(struct world *world, struct id ticket);
void world_verdict(struct world *world, const struct action *action);

#define TURN_UNTIL(world, condition)                                                             \
	do {                                                                                     \
		uint64_t limit_ = uv_hrtime() + UINT64_C(40000000000);                            \
		while (!(condition)) {                                                           \
			world_turn(world);                                                       \
			if (uv_hrtime() > limit_)                                                \
				fail_msg("never: %s", #condition);                               \
		}                                                                                \
	} while (0)

struct caller *call_up(struct world *world);           /* over TCP */
struct caller *call_up_unix(struct world *world);
void say(struct caller *caller, const char *text);
void say_bytes(struct caller *caller, struct str bytes);
void hang_up(struct caller *caller);                   /* and free */
/* What came so far; a terminated copy that the next call of it overwrites. */
const char *heard(struct caller *caller);
bool has_heard(struct caller *caller, const char *text);
void forget(struct caller *caller);
/* A POST of a JSON body, complete. */
void post(struct caller *caller, const char *path, const char *body);

void engine_say(struct engine_side *side, const char *text);
/* A whole answer with a length. */
void engine_answer(struct engine_side *side, const char *body);
void engine_chunk(struct engine_side *side, const char *text);
void engine_cut(struct engine_side *side); /* closes the connection */
/* An engine: answers {"n":N} with the count of requests. */
void engine_counts(struct engine_side *side, struct str request);
/* An engine that keeps silent; the test speaks for it. */
void engine_silent(struct engine_side *side, struct str request);
/* An engine that begins an event stream and leaves it to the test. */
void engine_streams(struct engine_side *side, struct str request);

#define CHAT(model) "{\"model\":\"" model "\",\"messages\":[]}"
#define CHAT_STREAM(model) "{\"model\":\"" model "\",\"stream\":true,\"messages\":[]}"

#endif
