#ifndef ENGINE_LOG_FILE_H
#define ENGINE_LOG_FILE_H

#include <stdint.h>

#include "base/str.h"

/*
 * log_file - what a model's engines printed, on disk.
 *
 * Two files of at most 4 MiB, NAME.log and, once that was full, NAME.log.1, both
 * 0600. The loop never waits for the disk: a worker writes what has come in
 * since its last write. What is more than 1 MiB a second, or than the disk takes,
 * is left out, and a line in the file says how much: an engine that prints
 * gigabytes fills neither the disk nor our memory. A folder that cannot be
 * written loses the file and nothing else, which is warned of once.
 */
struct log_file;
struct uv_loop_s;

enum { LOG_FILE_BYTES = 4 << 20, LOG_FILE_BYTES_A_SECOND = 1 << 20 };

/* `folder` exists and is ours. The name of the file is made of the model's. */
struct log_file *log_file_new(struct uv_loop_s *loop, const char *folder, const char *model);
void log_file_append(struct log_file *file, struct str bytes);
/* Writes what is left; a write that is under way ends in the loop's next turns. */
void log_file_free(struct log_file *file);

#endif
