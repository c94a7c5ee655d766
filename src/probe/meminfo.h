#ifndef PROBE_MEMINFO_H
#define PROBE_MEMINFO_H

#include <stdint.h>

#include "base/err.h"

/*
 * meminfo - the kernel's counters of memory, of the machine or of one node.
 *
 * Bytes. What a kernel does not know is 0, except where absence tells
 * something: those are -1. HugePages_Total is a count.
 */
struct meminfo {
	int64_t total;
	int64_t free;
	int64_t available; /* -1: a kernel before 3.14, or a node */
	int64_t buffers;
	int64_t cached;
	int64_t swap_cached;
	int64_t active_file;
	int64_t inactive_file;
	int64_t unevictable;
	int64_t mlocked;
	int64_t anon;
	int64_t shmem;
	int64_t kreclaimable;
	int64_t slab_reclaimable;
	int64_t slab_unreclaimable;
	int64_t page_tables;
	int64_t sec_page_tables;
	int64_t percpu;
	int64_t vmalloc_used;
	int64_t hugetlb;
	int64_t huge_pages; /* a count */
	int64_t huge_size;
	int64_t bounce;
	int64_t gpu_active;  /* -1: a kernel before 7.1 */
	int64_t gpu_reclaim; /* -1 likewise */
	int64_t swap_total;
	int64_t swap_free;
	int64_t cma_free;
	int64_t nvmap_used; /* -1: not a Jetson */
};

/* /proc/meminfo below `root`. -EBADMSG where it makes no sense (more free than there is). */
int meminfo_read(const char *root, struct meminfo *out, struct err *err);

/* /sys/devices/system/node/nodeN/meminfo. -ENOENT where there is none. */
int meminfo_read_node(const char *root, uint32_t node, struct meminfo *out);

/* File pages on the LRU lists: what can be dropped. */
int64_t meminfo_lru_file(const struct meminfo *m);

void meminfo_add(struct meminfo *sum,
                 const struct meminfo *part); /* counters only; -1 counts as 0 */

#endif
