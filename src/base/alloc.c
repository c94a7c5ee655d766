#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_abort(void *memory)
{
	if (memory)
		return memory;
	static const char text[] = "out of memory\n";
	fwrite(text, 1, sizeof(text) - 1, stderr);
	abort();
}

void *xmalloc(size_t bytes)
{
	return or_abort(malloc(bytes ? bytes : 1));
}

void *xcalloc(size_t count, size_t bytes)
{
	return or_abort(calloc(count ? count : 1, bytes ? bytes : 1));
}

void *xrealloc(void *old, size_t bytes)
{
	return or_abort(realloc(old, bytes ? bytes : 1));
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t length)
{
	char *copy = xmalloc(length + 1);
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, format);
	int length = vasprintf(&text, format, args);
	va_end(args);
	return or_abort(length < 0 ? NULL : text);
}
