#ifndef IO_REACTOR_H
#define IO_REACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * reactor - what all connections of one loop share.
 *
 * Every stream reads into the one scratch buffer here, because a loop reads one
 * connection at a time: so a connection that is silent holds no buffer at all.
 * Bytes in the scratch are valid during the callback that brings them.
 *
 * Everything on a reactor runs on its loop's thread. SIGPIPE must be ignored by
 * the process.
 */
struct uv_loop_s;

enum { REACTOR_SCRATCH_BYTES = 64 * 1024 };

struct reactor {
	struct uv_loop_s *loop;
	char *scratch;
	uint32_t streams; /* that are not yet freed; each is one descriptor at most */
	bool released;    /* it goes with the last of them */
};

struct reactor *reactor_new(struct uv_loop_s *loop);
/* Every stream of it must be closed; it goes when the loop has let the last one go. */
void reactor_free(struct reactor *reactor);

#endif
