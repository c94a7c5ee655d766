#ifndef PROBE_GROUP_SUM_H
#define PROBE_GROUP_SUM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/process.h"

/*
 * group_sum - what several processes have together, each page once.
 *
 * A page that a process shares with its children is resident in each of them: shared memory, and after a fork private
 * pages too, until somebody writes. So of shared memory the most that one of them has counts, and anonymous memory is
 * added up, which is too much where they share it. What each really bears of its pages the kernel tells (Pss), but it
 * walks the whole process for that; so that is asked seldom, and the share that it had then is kept.
 */
struct share {
	bool known;
	float anon, shmem; /* of what is resident, so much it bears */
};

struct group_sum {
	uint32_t processes;
	bool shares_known; /* of all of them */
	int64_t anon_bytes, shmem_bytes;
	int64_t anon_most_bytes, shmem_most_bytes; /* of one */
	int64_t borne_bytes, shmem_borne_bytes;
};

/* `share` may be NULL. */
void group_add(struct group_sum *group, const struct process_memory *memory, const struct share *share);

int64_t group_bytes(const struct group_sum *group);
/* Of that, the shared. */
int64_t group_shmem(const struct group_sum *group);

/* By so much the plain sum may be too high, or too low. */
int64_t group_doubt(const struct group_sum *group);

/* Walks the process: some 20 ms for each GiB. False: it may not be asked; the share is not known then. */
bool share_read(const char *root, pid_t pid, const struct process_memory *memory, struct share *out);

#endif
