#ifndef PROBE_ZONES_H
#define PROBE_ZONES_H

#include <stdint.h>

#include "probe/handles.h"
#include "probe/inputs.h"

/*
 * zones - what the kernel keeps for itself of each zone, and how broken up the
 * free memory is.
 *
 * total_reserve is the kernel's totalreserve_pages: of each zone the high
 * watermark and the largest protection against lower zones, at most what the
 * zone manages. Bytes; 0 where the files are not there.
 *
 * pcp is the pages that processors keep on lists of their own. They are free, but
 * stand in no counter, neither MemFree nor MemAvailable; since kernel 6.7 such lists
 * grow with use, up to an eighth of the memory, and what an engine gave back
 * lies there for a while. An allocation that would fail empties them.
 */
struct zones {
	int64_t low_bytes;
	int64_t high_bytes;
	int64_t total_reserve_bytes;
	int64_t pcp_bytes;
};

/* A machine of this size has at most so much on such lists. */
enum { ZONES_PCP_PART = 8 };

enum { ZONES_ALL_NODES = -1 };

/*
 * `node` is a number or ZONES_ALL_NODES; `handles`: NULL, or files that stay open. How
 * /proc/zoneinfo was: where it is no use all is 0.
 */
enum input_state zones_read(struct handles *handles, const char *root, int32_t node, int64_t page_bytes, struct zones *out);

/*
 * Free memory in blocks of at least 2 MiB, and of 4 MiB in `*blocks_4m` (may be
 * NULL), of all zones but the lowest. -1 where /proc/buddyinfo is no use; how it was is in `*state` (may be NULL).
 */
int64_t zones_free_2m_bytes(struct handles *handles, const char *root, int64_t page_bytes, int64_t *blocks_4m,
                            enum input_state *state);

#endif
