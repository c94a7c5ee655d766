#ifndef IO_SPILL_H
#define IO_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/*
 * spill - bytes that wait in a file because memory is for models.
 *
 * The file has no name: it is gone with its last user, also after a crash. It
 * is written and read by a worker thread, since a disk may make anybody wait;
 * one piece of work at a time, and its end is told on the loop.
 */
struct spill;
struct uv_loop_s;

struct spill_events {
	void (*on_written)(void *ctx, int error);                 /* 0 or a negative errno */
	void (*on_read)(void *ctx, int error, struct str bytes);  /* valid during the call */
};

/* In `folder`; where that takes no such file, in memory that can be swapped out. */
struct spill *spill_open(struct uv_loop_s *loop, const char *folder,
                         const struct spill_events *events, void *ctx, struct err *err);

/* Append what `bytes` holds; it is empty afterwards. on_written follows. */
void spill_append(struct spill *spill, struct buf *bytes);
/* Read up to `bytes` from `offset`. on_read follows. */
void spill_fetch(struct spill *spill, uint64_t offset, size_t bytes);

/* At any time; what is under way ends unheard. */
void spill_close(struct spill *spill);

#endif
