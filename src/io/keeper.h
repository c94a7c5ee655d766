#ifndef IO_KEEPER_H
#define IO_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * keeper - the small process that owns the engines.
 *
 * Engines must not outlive a daemon that died, and their exit status can be
 * learnt by their parent alone. So engines are children of a keeper: this same
 * binary, forked before anything else is set up, one thread, no heap. It spawns
 * (clone3 into a cgroup where allowed, else fork; own session and process group;
 * PDEATHSIG), is a subreaper, reports {wait status, rusage} at each end, and when
 * the daemon's end of the socket closes it kills every group and reaps until
 * none is left, adopted grandchildren too; then it ends.
 *
 * The daemon is a subreaper as well: if the keeper dies, its engines become the
 * daemon's children; they are killed, reported as ended, and a new keeper starts.
 * For that, the daemon must have no other children than the keeper.
 *
 * The keeper runs ahead of its engines, as far as it may; they run at the priority
 * that the caller had when it forked the first keeper.
 *
 * Life cycle
 *
 *   1. keeper_fork()    first thing in main(): no thread, no library state yet
 *   2. keeper_attach()  on the loop: callbacks from now on
 *   3. keeper_spawn(), keeper_signal()
 *   4. keeper_close()   everything is killed and reaped (waits for it, 5 s at
 *                       most); no callback any more; run the loop once after it
 */
struct keeper;
struct uv_loop_s;

enum { KEEPER_ARGV_MAX = 256, KEEPER_ENV_MAX = 512, KEEPER_MESSAGE_BYTES = 64 * 1024 };

struct keeper_command {
	uint64_t spawn_id;         /* the caller's name for it; never reused */
	const char *const *argv;   /* NULL-terminated; argv[0] is a path or is looked up in PATH */
	const char *const *env;    /* NULL-terminated "NAME=value", the whole environment */
	const char *directory;     /* working directory; NULL = "/" */
	const char *cgroup;        /* path of an existing cgroup v2 folder to be born in; NULL = none */
	int log_fd;                /* becomes stdout and stderr; the caller closes its copy afterwards */
	int oom_score_adj;         /* written where allowed */
};

struct keeper_events {
	void *ctx;
	/* The process exists (after exec succeeded). */
	void (*on_spawned)(void *ctx, uint64_t spawn_id, pid_t pid);
	/* It could not be started: errno and what failed ("exec /x/y"). No on_ended follows. */
	void (*on_failed)(void *ctx, uint64_t spawn_id, int error, const char *what);
	/* The leader ended; the rest of its group is killed, on_gone tells when none is left. */
	void (*on_ended)(void *ctx, uint64_t spawn_id, int wait_status, const struct rusage *usage);
	/* No process of its group or adopted from it is left. */
	void (*on_gone)(void *ctx, uint64_t spawn_id);
	/* The keeper itself died and was replaced; on_ended/on_gone of its engines were delivered. */
	void (*on_restarted)(void *ctx);
};

/* Returns NULL with `err` where fork or socketpair fail. In the child it never returns. */
struct keeper *keeper_fork(struct err *err);
int keeper_attach(struct keeper *keeper, struct uv_loop_s *loop, const struct keeper_events *events,
                  struct err *err);
/*
 * 0: on_spawned or on_failed will follow. -E2BIG: over the limits above; -EAGAIN:
 * a dead keeper is being replaced. The environment gets one more variable
 * (COTENANT_SPAWN), by which a process that left its session is still known.
 */
int keeper_spawn(struct keeper *keeper, const struct keeper_command *command, struct err *err);
/* To the whole process group. Nothing happens where it is gone. */
void keeper_signal(struct keeper *keeper, uint64_t spawn_id, int signal_number);
pid_t keeper_pid(const struct keeper *keeper);
void keeper_close(struct keeper *keeper);

#endif
