#ifndef ENGINE_LOG_TAIL_H
#define ENGINE_LOG_TAIL_H

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * log_tail - the last 64 KiB that a model's engines printed.
 *
 * It begins at a line's start once something was dropped. `total` counts every
 * byte that ever came, so that a position in it names the same byte for ever.
 */
enum { LOG_TAIL_BYTES = 64 * 1024 };

struct log_tail {
	struct buf kept;
	uint64_t total;
};

void log_tail_append(struct log_tail *tail, struct str bytes);
/* What is still kept of what came after position `since`. Borrowed. */
struct str log_tail_since(const struct log_tail *tail, uint64_t since);

#endif
