#ifndef PROBE_MAPPING_H
#define PROBE_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * mapping - one line of /proc/PID/maps: where a process has a file, and which.
 */
struct mapping {
	uint64_t from, to; /* addresses; less than 2^48 apart, so that sums of a process cannot overflow */
	uint64_t device;
	uint64_t inode;    /* 0: no file */
	struct str path;   /* into the line */
};

/* False for a line that makes no sense. */
bool mapping_parse(struct str line, struct mapping *out);

/*
 * By inode and device. File systems with devices of their own (overlay, btrfs) tell another one here than
 * stat(2) does: there the path decides, too.
 */
bool mapping_is_of(const struct mapping *mapping, uint64_t device, uint64_t inode, const char *path);

#endif
