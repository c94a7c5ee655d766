#include "engine/log_tail.h"

#include <string.h>

/* Dropping moves bytes, so it is done for many at once. */
enum { SLACK_BYTES = 16 * 1024 };

static void drop_oldest(struct buf *kept)
{
	struct str all = buf_str(kept);
	size_t surplus = all.length - LOG_TAIL_BYTES;
	const char *line_end = memchr(all.data + surplus, '\n', LOG_TAIL_BYTES);

	buf_consume(kept, line_end ? (size_t)(line_end + 1 - all.data) : surplus);
}

void log_tail_append(struct log_tail *tail, struct str bytes)
{
	tail->total += bytes.length;
	if (bytes.length > LOG_TAIL_BYTES) {
		bytes.data += bytes.length - LOG_TAIL_BYTES;
		bytes.length = LOG_TAIL_BYTES;
	}
	buf_append_str(&tail->kept, bytes);
	if (buf_length(&tail->kept) > LOG_TAIL_BYTES + SLACK_BYTES)
		drop_oldest(&tail->kept);
}

struct str log_tail_since(const struct log_tail *tail, uint64_t since)
{
	struct str all = buf_str(&tail->kept);
	uint64_t start = tail->total - all.length;

	if (since > start) {
		all.data += since - start;
		all.length -= (size_t)(since - start);
	}
	if (all.length > LOG_TAIL_BYTES) {
		all.data += all.length - LOG_TAIL_BYTES;
		all.length = LOG_TAIL_BYTES;
	}
	return all;
}
