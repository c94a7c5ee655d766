#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

/*
 * alloc - memory or an end.
 *
 * An allocation that fails aborts the process: every size that a peer or a file
 * can influence is bounded by a configured limit and refused *before* it is
 * allocated, so what fails here is a machine with nothing left, and a daemon
 * that stumbles on in that state would break its promises silently.
 * Free with free().
 */
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes); /* zeroed; aborts where the product overflows */
void *xrealloc(void *old, size_t bytes);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
