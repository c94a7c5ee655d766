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

/*
 * Does its --help name `word`? Builds differ in the flags they take, and end at one they do not know. Asked once for
 * each build: what it says of the word is kept in `folder`. Where it was never asked, and `known_only`, or it does not
 * answer, HELP_UNKNOWN. Blocks, for seconds at most.
 */
enum help { HELP_UNKNOWN, HELP_NAMES, HELP_DOES_NOT };
enum help program_help_names(const char *program, const char *folder, const char *word, bool known_only);

/*
 * The number of this build of llama.cpp, as its --version tells it: what it reserves depends on it (estimate/era.h).
 * Asked once for each build, and kept in `folder`. 0 where it tells none within a second; -1 where it was never asked
 * and `known_only`, or there is no such program. Blocks.
 */
int64_t program_release(const char *program, const char *folder, bool known_only);

/* Device, inode, size and time of change, added to `out`; "gone" where it is not there. */
void program_identity(const char *path, struct buf *out);

#endif
