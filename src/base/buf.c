#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { SMALLEST = 256 };

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = BUF_INIT;
}

char *buf_reserve(struct buf *buf, size_t bytes)
{
	if (buf->capacity - buf->end >= bytes && buf->data)
		return buf->data + buf->end;

	size_t length = buf_length(buf);
	if (buf->start > 0) {
		memmove(buf->data, buf->data + buf->start, length);
		buf->start = 0;
		buf->end = length;
	}
	if (buf->capacity - length < bytes || !buf->data) {
		size_t needed = length + bytes;
		size_t doubled = buf->capacity ? buf->capacity * 2 : SMALLEST;
		assert(needed >= length);
		buf->capacity = needed > doubled ? needed : doubled;
		buf->data = xrealloc(buf->data, buf->capacity);
	}
	return buf->data + buf->end;
}

void buf_commit(struct buf *buf, size_t bytes)
{
	assert(bytes <= buf->capacity - buf->end);
	buf->end += bytes;
}

void buf_consume(struct buf *buf, size_t bytes)
{
	assert(bytes <= buf_length(buf));
	buf->start += bytes;
	if (buf->start == buf->end)
		buf->start = buf->end = 0;
}

void buf_append(struct buf *buf, const void *bytes, size_t count)
{
	if (count == 0)
		return;
	memcpy(buf_reserve(buf, count), bytes, count);
	buf_commit(buf, count);
}

void buf_append_str(struct buf *buf, struct str text)
{
	buf_append(buf, text.data, text.length);
}

void buf_append_char(struct buf *buf, char c)
{
	buf_append(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	enum { USUAL = 128 };
	va_list args;

	/* Into what is free; only what does not fit is written twice. */
	char *at = buf_reserve(buf, USUAL);
	size_t room = buf->capacity - buf->end;
	va_start(args, format);
	int length = vsnprintf(at, room, format, args);
	va_end(args);
	assert(length >= 0);
	if ((size_t)length >= room) {
		at = buf_reserve(buf, (size_t)length + 1);
		va_start(args, format);
		vsnprintf(at, (size_t)length + 1, format, args);
		va_end(args);
	}
	buf_commit(buf, (size_t)length);
}

const char *buf_cstr(struct buf *buf)
{
	*buf_reserve(buf, 1) = '\0';
	return buf->data + buf->start;
}
