#ifndef IO_KEEPER_EXEC_H
#define IO_KEEPER_EXEC_H

#include <sys/types.h>

#include "io/keeper_proto.h"

/*
 * keeper_exec - from a request to a process.
 *
 * The child makes itself an own session, asks to be killed when the keeper dies,
 * puts back default signals, keeps no descriptor but its log, and becomes the
 * program. What keeps it from that comes through a pipe that a successful exec
 * closes: an end without a word is success.
 */

/* A request taken apart; the pointers look into its message. */
struct keeper_launch {
	char *argv[KEEPER_ARGV_MAX + 1];
	char *env[KEEPER_ENV_MAX + 2]; /* one more: the tag below */
	const char *directory;
	const char *cgroup;            /* "" = none */
	int oom_score_adj;
	int nice;
	int log_fd;                    /* -1: /dev/null */
};

struct keeper_refusal {
	int error;
	char what[KEEPER_WHAT_BYTES];
};

/*
 * Start it. Returns the pid, with a pidfd (-1 where the kernel has none) and the
 * pipe to read a struct keeper_refusal from; or a negative errno.
 */
pid_t keeper_start(const struct keeper_launch *launch, int *out_pidfd, int *out_pipe);

#endif
