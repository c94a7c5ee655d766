#ifndef LAZY_RANGES_H
#define LAZY_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lazy/lazy.h"

/*
 * ranges - the pages of the engine's buffers that were left to the kernel.
 *
 * A range is taken only where every page of it is private, anonymous and
 * writable by the kernel's own list of mappings: no file, no shared memory, no
 * device, nothing locked. It is marked as not to be dumped, which conversations
 * should not be anyway, and is known again by that: memory that was unmapped
 * meanwhile, and came back as somebody else's, has no mark and is not touched. Huge
 * pages are off in it: a conversation of a hundred tokens would fill one in each
 * layer's K and V.
 *
 * All functions may be called from any thread, and in a child that the engine forks.
 */
enum {
	RANGE_LEAST_BYTES = LAZY_LEAST_BYTES,
	/* A larger one has a mapping of its own, gone when it is freed; a smaller one is only counted. */
	RANGE_OWN_BYTES = 32 << 20,
	RANGES_MAX = 256,
};

struct ranges_use {
	uint32_t count;
	uint64_t reserved_bytes;
	uint64_t resident_bytes; /* in memory or swapped out */
};

/* Before any other of these. */
void ranges_begin(void);
/* Zeros in [at, at + bytes), without memory. False: not possible, nothing was changed for good. */
bool ranges_take(void *at, size_t bytes);
/* The buffer that begins here is being freed. */
void ranges_forget(const void *at);
/* Give back what the ranges hold. False: not all of them. */
bool ranges_discard(void);
struct ranges_use ranges_use(void);

#endif
