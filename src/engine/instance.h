#ifndef ENGINE_INSTANCE_H
#define ENGINE_INSTANCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/list.h"
#include "engine/adapter.h"
#include "engine/bound.h"
#include "engine/log_file.h"
#include "engine/log_tail.h"
#include "engine/redactor.h"
#include "engine/supervisor.h"
#include "probe/cgroup.h"
#include "probe/kmsg.h"

/*
 * instance - one engine between its spawn and its end, as the supervisor keeps it.
 *
 *   STARTING  asked of the keeper
 *   LOADING   it runs; its health is asked for
 *   READY     it answered; nothing is asked any more
 *   STOPPING  told to end; the drain rule's clock runs
 *   ENDED     the leader is reaped; the rest of its group is awaited
 */
enum instance_state { INSTANCE_STARTING, INSTANCE_LOADING, INSTANCE_READY, INSTANCE_STOPPING, INSTANCE_ENDED };

/* What is kept of a model over its instances. */
struct model_record {
	struct list node;
	char *name;
	struct log_tail log;
	struct log_file *file;    /* NULL: in memory alone */
};

struct instance {
	struct list node;
	struct supervisor *supervisor;
	struct id id;
	uint64_t spawn_id;
	enum instance_state state;
	const struct conf_model *model;
	const struct adapter *adapter;
	struct model_record *record;
	struct endpoint endpoint;
	char lazy_socket[108];    /* "": nothing is preloaded */
	const char *lazy_library, *save_folder; /* only while it is started */
	char name[64];            /* the program, for messages */
	uint32_t slots;
	uint32_t context_tokens;
	int64_t file_bytes;
	struct launch_tuning tuning;
	int64_t bound_bytes;      /* what its group keeps it to; 0 = it has none */
	char group[BOUND_PATH_MAX]; /* the path of that; "" = none */
	bool bound_failed;        /* to raise it failed, and was said */
	bool outside;             /* a server that we do not run */
	uint32_t misses;          /* READY, outside: how often in a row it was not there */
	pid_t pid;                /* outside: who listens there; 0 = not known */

	uv_timer_t *timer;        /* LOADING: the next question; STOPPING: the next signal */
	struct ask *ask;          /* the question that is out */
	struct reach *reach;      /* ... to a server that we do not run */
	int health_said;          /* LOADING: the last answer: a status, 0 for none, a negative errno */
	uint64_t started_ms;
	uint32_t permille;
	int64_t bytes_moved;
	uint64_t measured_ms;
	bool was_ready;

	uv_poll_t *log_poll;      /* NULL: the log has ended */
	int log_fd;
	struct redactor redactor;
	uint64_t log_start;       /* position in the record's log where this life begins */
	size_t line_length;       /* LOADING: the line that is coming in, its beginning */
	char line[400];

	bool asked;
	bool killed;
	uint32_t terms;
	struct oom_count oom;     /* when it was last well */
	struct ending ending;
};

struct supervisor {
	struct supervisor_options options;
	struct supervisor_events events;
	char *socket_dir;
	char *log_dir;            /* NULL: no files */
	char *directory;          /* working directory of engines: ours */
	struct list instances;
	uint32_t instance_count;
	struct list records;
	uint64_t next_spawn_id;
	struct words secrets;     /* no log may show them */
	struct cgroup_mounts mounts; /* as they were at the start */
	struct bounds bounds;
	struct kmsg kmsg;
};

/* instance_start.c: its process is asked of the keeper. 0, or a negative errno with the sentence in `err`. */
int instance_start(struct instance *instance, const struct spawn_order *order, struct err *err);

/* instance_load.c: from the first question to readiness. */
void instance_begin_loading(struct instance *instance);
void instance_stop_asking(struct instance *instance);
/* Where its health is asked for. */
const char *instance_health_path(const struct instance *instance);
/*
 * Ask for its health once. 0: `done` follows, or `late` after `late_ms`, which both find the
 * instance as their context. A negative errno: neither does, and health_said is that.
 */
typedef void instance_answer(void *ctx, int status, struct str body);
int instance_ask_health(struct instance *instance, instance_answer *done, uv_timer_cb late, uint32_t late_ms);
/* What its health said last, as half a sentence. */
void instance_health_text(const struct instance *instance, char *out, size_t out_bytes);
void instance_ask_slots(struct instance *instance); /* it is healthy; what is it like? Then it is ready */

/* instance_outside.c: a server that we do not run. */
void instance_attach(struct instance *instance);
void instance_detach(struct instance *instance);
void instance_watch(struct instance *instance); /* from readiness on */

/* supervisor.c: no process of it is left; it is freed. */
void instance_tell_gone(struct instance *instance);

/* instance_check.c: is it still well? */
void instance_check(struct instance *instance);

/* supervisor.c: whatever killed others before did not kill it. */
void instance_is_well(struct instance *instance);

/* instance_log.c: the pipe that is its stdout and stderr. */
int instance_open_log(struct instance *instance, int *out_write_fd);
void instance_read_log(struct instance *instance); /* all that is there now */
void instance_close_log(struct instance *instance);
/* What its log may not show, anew. */
void instance_learn_secrets(struct instance *instance);
/* A line of the log said that this is a good moment. */
void instance_ask_now(struct instance *instance);
void instance_reached(struct instance *instance, uint32_t permille);

#endif
