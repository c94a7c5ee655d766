#ifndef TEST_API_DESK_H
#define TEST_API_DESK_H

#include <jansson.h>
#include <pthread.h>

#include "api/api.h"

/*
 * desk - the own endpoints on a real arbiter, with a caller and a shell of test
 * calls instead of sockets and engines.
 *
 * The machine has 8 GiB of which 1 GiB is in use; models are chat (4 GiB, peak
 * 5), small (3 GiB) and huge (40 GiB). Engines do what the test says. There is
 * one caller at a time; what it was answered stands in `answer`.
 */
struct call {
	const char *method, *path, *query, *body, *content_type;
	enum conf_role role;
	const struct conf_key *key;
	void (*on_gone)(void *ctx, struct call *call);
	void *on_gone_ctx;
	uint64_t pending;
	/* the answer */
	bool begun, ended;
	int status;
	char type[64], code[64], allow[64], retry_after[16];
	struct buf text;
};

struct desk {
	struct arbiter *arbiter;
	size_t arbiter_bytes;
	int64_t now_us;
	struct conf conf;
	struct conf_model model[3];
	struct conf_key key; /* role use, sees chat alone */
	struct sample sample;
	struct topology topology;
	struct estimate estimate;
	struct gateway_counters gateway;
	struct api_now now;
	struct tickets *tickets;
	struct api *api;
	uint64_t sequence;
	uint32_t gone, submitted;
	bool reload_fails, reload_waits;
	void (*reloaded)(void *arg, int code, struct str report);
	void *reload;
	struct id spawned[3]; /* per model: the instance, or ID_NONE */
	struct exchange_view live;
	bool has_live;
	uint64_t cancelled;
	struct call call;
	const char *content_type; /* of calls; NULL = application/json */
	struct store *store;
	char folder[32];       /* of its history; "": it has none */
	pthread_mutex_t posted_lock;
	void (*posted)(void *arg); /* from the store's thread; runs in desk_run_posted() */
	void *posted_arg;
};

enum { CHAT, SMALL, HUGE_ONE };

int desk_open(void **state);
int desk_open_with_history(void **state);
int desk_close(void **state);

/* One call by an admin over the socket; `body` NULL = none. Returns the status (0 = not answered yet). */
int desk_ask(struct desk *desk, const char *method, const char *path_and_query, const char *body);
/* The same by somebody else; `key` may be NULL. */
int desk_ask_as(struct desk *desk, enum conf_role role, const struct conf_key *key, const char *method,
                const char *path_and_query, const char *body);
/* The answer's JSON; fails the test where it is none. */
json_t *desk_json(struct desk *desk);
/* The reload that waits comes to its end. */
void desk_reloaded(struct desk *desk);
/* The caller leaves. */
void desk_leave(struct desk *desk);

void desk_ready(struct desk *desk, uint32_t model);
void desk_exit(struct desk *desk, uint32_t model); /* as asked, and its bytes come back */
void desk_measure(struct desk *desk, uint32_t model, int64_t bytes);
void desk_wait(struct desk *desk, int64_t us);
/* Run what another thread posted; fails the test where nothing comes. */
void desk_run_posted(struct desk *desk);

#endif
