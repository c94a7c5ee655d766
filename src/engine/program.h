#ifndef ENGINE_PROGRAM_H
#define ENGINE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * program - the file that an engine's name stands for, and which build of the engine it is.
 *
 * A program of a few kilobytes may bring all that computes in its libraries, and those are upgraded
 * alone: so a build is the program's file and every library of its kind that the loader brings with
 * it, each by device, inode, size and time of change. Which ones those are the loader itself says
 * (LD_TRACE_LOADED_OBJECTS: it lists them and ends; only a dynamic program of our C library is ever
 * asked so). It is asked once for each program file; its answer is kept in `folder`.
 */

/* As exec would find it: a name without a slash is sought in PATH. False: nowhere. */
bool program_find(const char *program, char *out, size_t out_bytes);

/*
 * A number that is the same as long as all of that is; 0 where there is no such program. `folder`: ours;
 * NULL: the program's file alone stands for its build. Blocks.
 */
uint64_t program_build(const char *program, const char *folder);

/* Device, inode, size and time of change, added to `out`; "gone" where it is not there. */
void program_identity(const char *path, struct buf *out);

#endif
