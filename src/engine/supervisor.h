#ifndef ENGINE_SUPERVISOR_H
#define ENGINE_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "core/fail.h"
#include "core/ids.h"
#include "engine/endpoint.h"
#include "engine/tuning.h"

/*
 * supervisor - carries out what the arbiter decided about engines.
 *
 * It turns "spawn this model as that instance" into an argv, an environment, a
 * private endpoint (a unix socket in our 0700 folder where the engine can, else
 * loopback with a random key), a process through the keeper, and a health poll
 * that starts at 1 ms; and it turns what becomes of the process into events. It
 * decides nothing about memory.
 *
 * A server that somebody else runs (`url:`) is an instance too: it is looked for
 * instead of started, and let go of instead of ended.
 *
 * Life of an instance here: starting -> loading -> ready -> stopping -> gone;
 * a slot is freed when the keeper says that its group is gone. Stopping is the
 * adapter's drain rule: TERM, after `stop_grace` TERM again, then KILL.
 */
struct supervisor;
struct conf;
struct conf_model;
struct keeper;
struct uv_loop_s;

/* What ended an instance, in words a client may read. */
struct ending {
	enum fail fail;       /* FAIL_NONE: as asked */
	int wait_status;
	bool never_ready;     /* the file or the flags are wrong: do not try again by itself */
	enum end_cause cause; /* CAUSE_NONE: as asked, or it never ran */
	char text[400];       /* "llama-server ended with status 1 while loading: <telling stderr line>" */
};

struct supervisor_events {
	void *ctx;
	void (*on_spawned)(void *ctx, struct id instance, pid_t pid);
	void (*on_progress)(void *ctx, struct id instance, uint32_t permille);
	void (*on_ready)(void *ctx, struct id instance, uint32_t slots, uint32_t context_tokens);
	/* The leader ended; requests on it are lost now. The group may still hold memory. */
	void (*on_ended)(void *ctx, struct id instance, const struct ending *ending);
	/* No process of it is left. After this the id is dead here. */
	void (*on_gone)(void *ctx, struct id instance, const struct ending *ending);
	/* One that supervisor_check() asked does not answer as a healthy one does; `text` says what it did. */
	void (*on_unhealthy)(void *ctx, struct id instance, const char *text);
	/* An engine of the model printed this; secrets are taken out. NULL: nobody listens. */
	void (*on_log)(void *ctx, const char *model, struct str text);
};

struct supervisor_options {
	struct uv_loop_s *loop;
	struct keeper *keeper;    /* not attached yet: the supervisor does that */
	const char *socket_dir;   /* 0700, ours: engines' sockets */
	const char *log_dir;      /* logs are kept there too, rotated; ours. NULL: in memory alone */
	uint32_t instances_max;
	const char *owner;        /* "NAME=value" for the environment of each engine; NULL or "": nothing */
	uint32_t drain_divisor;   /* 0 or 1: stopping takes the adapters' own times; more: so much less (tests) */
};

/* NULL where the keeper cannot be attached to the loop. */
struct supervisor *supervisor_new(const struct supervisor_options *options,
                                  const struct supervisor_events *events);
/*
 * After keeper_close(), or with no turn of the loop before it: the keeper reports
 * here. Instances that are left are forgotten; their processes are the keeper's.
 */
void supervisor_free(struct supervisor *supervisor);

/* One engine to start. What stands in the model's file was read before: the loop never waits for a disk. */
struct spawn_order {
	struct id instance;
	uint64_t sequence;              /* names its socket */
	const struct conf_model *model; /* must stay valid until on_gone */
	uint32_t slots;
	uint32_t context_tokens;
	int64_t file_bytes;             /* of the model's file, for progress; 0 = unknown */
	struct launch_tuning tuning;    /* as its estimate wants it */
	int64_t bound_bytes;            /* that a control group of its own keeps it to, where one can be; 0 = none */
	const char *lazy_library;       /* to be preloaded; NULL: nothing is */
	const char *save_folder;        /* where its conversations may be saved; NULL: nowhere */
};

/* 0: events follow. Else nothing was started and `err` says why. */
int supervisor_spawn(struct supervisor *supervisor, const struct spawn_order *order, struct err *err);
/*
 * Told to end by the adapter's drain rule: at once, or after `patience_ms` in which a call
 * with 0 does it at once. What is stopping already goes on as it does.
 */
void supervisor_stop(struct supervisor *supervisor, struct id instance, uint32_t patience_ms);
void supervisor_kill(struct supervisor *supervisor, struct id instance);

/* Ask a ready one whether it is still well; on_unhealthy tells where it is not. */
void supervisor_check(struct supervisor *supervisor, struct id instance);

/* False where it is not ready. */
bool supervisor_endpoint(const struct supervisor *supervisor, struct id instance, struct endpoint *out);

/* Where its preload library listens; "" = it was started without. False where it is not ready. */
bool supervisor_lazy_socket(const struct supervisor *supervisor, struct id instance, char out[108]);

/* For the probe: whose memory is an instance's. False where it is not known. */
struct owner {
	pid_t pgid;         /* of an engine that we started; 0 = none */
	pid_t pid;          /* of a server that we do not run; 0 = none */
	const char *cgroup; /* NULL = none */
};
bool supervisor_owner(const struct supervisor *supervisor, struct id instance, struct owner *out);

/* Why no engine can be kept to `bound_bytes`, as half a sentence; NULL: it can. */
const char *supervisor_bound_refused(const struct supervisor *supervisor);
/* What a control group of its own keeps that instance to; 0 = nothing. */
int64_t supervisor_bound_bytes(const struct supervisor *supervisor, struct id instance);

/* To so much, where that is more: it takes more than was planned. */
void supervisor_raise_bound(struct supervisor *supervisor, struct id instance, int64_t bytes);

/*
 * What no log may show, besides the keys made for engines and what a model's
 * `env` and flags name as secret. Copied; replaces what was told before.
 */
void supervisor_set_secrets(struct supervisor *supervisor, const char *const *secrets, size_t count);

/* Why it is not ready yet, as far as its health tells: half a sentence; "" where it is not loading. */
void supervisor_health_text(const struct supervisor *supervisor, struct id instance, char *out,
                            size_t out_bytes);

/* How much of the model's file came in so far, and all of it; 0 and 0 where that is not known. */
void supervisor_load_bytes(const struct supervisor *supervisor, struct id instance, int64_t *out_bytes,
                           int64_t *out_total);

/* The last lines a model's engine printed (at most 64 KiB kept), also after its end. Borrowed. */
struct str supervisor_log(const struct supervisor *supervisor, const struct conf_model *model);

#endif
