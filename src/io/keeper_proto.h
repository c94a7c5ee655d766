#ifndef IO_KEEPER_PROTO_H
#define IO_KEEPER_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "io/keeper.h"

/*
 * keeper_proto - what the daemon and its keeper say to each other.
 *
 * Both ends are the same binary on the same machine, so a message is a struct as
 * it lies in memory, one per packet of a SOCK_SEQPACKET pair. Descriptors travel
 * beside it (SCM_RIGHTS): a log with KEEPER_SPAWN, a pidfd with KEEPER_SPAWNED.
 * There is no zero-length message: that is how the end of the other side reads.
 */
enum keeper_type {
	KEEPER_SPAWN = 1, /* daemon to keeper */
	KEEPER_SIGNAL,
	KEEPER_SPAWNED,   /* keeper to daemon */
	KEEPER_FAILED,
	KEEPER_ENDED,
	KEEPER_GONE,
};

enum { KEEPER_SPAWNS_MAX = 2048, KEEPER_WHAT_BYTES = 256 };

/* After it, each with its terminator: argc arguments, envc variables, directory, cgroup ("" = none). */
struct keeper_request {
	uint32_t type;
	int32_t signal_number;
	uint64_t spawn_id;
	uint32_t argc;
	uint32_t envc;
	int32_t oom_score_adj;
};

struct keeper_report {
	uint32_t type;
	int32_t pid;
	uint64_t spawn_id;
	int32_t status; /* wait status with ENDED, errno with FAILED */
	uint32_t gone;  /* with ENDED: nobody else was left; no KEEPER_GONE follows */
	char what[KEEPER_WHAT_BYTES];
	struct rusage usage;
};

/* One packet; `fd` travels with it unless it is -1. 0 or a negative errno. */
int keeper_send(int socket, const void *message, size_t bytes, int fd, int flags);

/*
 * One packet, and the descriptor that came with it (-1: none; close-on-exec).
 * Returns its length, 0 at the end of the other side, or a negative errno.
 */
ssize_t keeper_receive(int socket, void *message, size_t bytes, int *out_fd, int flags);

/*
 * The life of the keeper process: serves `socket` until its other end closes, then
 * ends. Its engines run at the priority `engines_nice`, itself as far ahead of them as
 * it may: the next load waits for its word that one has ended.
 */
_Noreturn void keeper_main(int socket, int engines_nice);

#endif
