#ifndef PROBE_MEMINFO_H
#define PROBE_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * meminfo - the kernel's counters of memory, of the machine or of one node.
 *
 * Bytes. What a kernel does not know is 0, except where absence tells
 * something, or is shown: those are -1. HugePages_Total is a count.
 */
struct meminfo {
	int64_t total;
	int64_t free;
	int64_t available; /* of a node -1 */
	int64_t buffers;
	int64_t cached;
	int64_t swap_cached;
	int64_t active_file;
	int64_t inactive_file;
	int64_t unevictable;
	int64_t mlocked; /* -1: not told, as all that are shown */
	int64_t anon;
	int64_t shmem; /* -1 */
	int64_t kreclaimable;
	int64_t slab_reclaimable;
	int64_t slab_unreclaimable;
	int64_t page_tables;
	int64_t sec_page_tables;
	int64_t percpu;
	int64_t vmalloc_used;
	int64_t hugetlb; /* -1 */
	int64_t huge_pages; /* a count; -1 */
	int64_t huge_size;
	int64_t bounce;
	int64_t gpu_active;  /* -1: a kernel before 7.1 */
	int64_t gpu_reclaim; /* -1 likewise */
	int64_t swap_total; /* -1 */
	int64_t swap_free; /* -1 */
	int64_t cma_free; /* -1 */
	int64_t nvmap_used; /* -1: not a Jetson */
	bool available_made; /* the kernel did not tell: made of its parts */
};

/* As long as nothing was told. */
#define MEMINFO_NONE                                                                                                       \
	((struct meminfo){ .available = -1, .mlocked = -1, .shmem = -1, .hugetlb = -1, .huge_pages = -1, .gpu_active = -1,  \
	                   .gpu_reclaim = -1, .swap_total = -1, .swap_free = -1, .cma_free = -1, .nvmap_used = -1 })

struct handles;

/*
 * /proc/meminfo below `root`; `handles`: NULL, or files that stay open. -EBADMSG where it makes no sense (more free than there is). Where MemAvailable is not in
 * it, it is made as the kernel makes it.
 */
int meminfo_read(struct handles *handles, const char *root, struct meminfo *out, struct err *err);

/* /sys/devices/system/node/nodeN/meminfo. -ENOENT where there is none. */
int meminfo_read_node(const char *root, uint32_t node, struct meminfo *out);

struct zones;
/*
 * MemAvailable of these counters, as si_mem_available() makes it. Where nothing is known of the zones (all is 0), of
 * what is kept of them either: then no more than what is free.
 */
int64_t meminfo_make_available(const struct meminfo *m, const struct zones *zones);

/* File pages on the LRU lists: what can be dropped. */
int64_t meminfo_lru_file(const struct meminfo *m);

void meminfo_add(struct meminfo *sum,
                 const struct meminfo *part); /* counters only; -1 counts as 0 */

#endif
