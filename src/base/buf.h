#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>

#include "base/str.h"

/*
 * buf - bytes that grow at the end and are taken from the front.
 *
 * Invariant: start <= end <= capacity, and data is NULL exactly while capacity
 * is 0. An empty buf holds no memory after buf_release(); buf_consume() of
 * everything rewinds it to the front without giving memory back, so a stream
 * that keeps pace never copies. Growth is bounded by the caller: check the
 * configured limit before appending what a peer sent.
 */
struct buf {
	char *data;
	size_t start;
	size_t end;
	size_t capacity;
};

#define BUF_INIT ((struct buf){ 0 })

void buf_release(struct buf *buf); /* frees the memory; the buf is empty and usable again */

static inline size_t buf_length(const struct buf *buf)
{
	return buf->end - buf->start;
}

static inline struct str buf_str(const struct buf *buf)
{
	return (struct str){ buf->data ? buf->data + buf->start : "", buf->end - buf->start };
}

/* Room for at least `bytes` at the end; returns where to write them. Commit with buf_commit(). */
char *buf_reserve(struct buf *buf, size_t bytes);
void buf_commit(struct buf *buf, size_t bytes);
void buf_consume(struct buf *buf, size_t bytes); /* from the front; at most buf_length() */

void buf_append(struct buf *buf, const void *bytes, size_t count);
void buf_append_str(struct buf *buf, struct str text);
void buf_append_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The content with a terminator behind it (not counted); valid until the next change. */
const char *buf_cstr(struct buf *buf);

#endif
