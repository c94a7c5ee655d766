#ifndef PROBE_CGROUP_H
#define PROBE_CGROUP_H

#include <limits.h>
#include <stdbool.h>

#include "probe/handles.h"
#include "probe/sample.h"

/*
 * cgroup - which control groups bound us, and who is in one.
 *
 * Where memory is accounted depends on the machine: cgroup2 alone, cgroup1
 * alone, or both mounted with memory on one of them (hybrid). In a container
 * the path of /proc/self/cgroup may lie outside of what is mounted; the limit
 * is then at the mount itself.
 */
struct cgroup_mounts {
	char v2[PATH_MAX];      /* mount point, "" = none */
	char v1_memory[PATH_MAX];
	char v2_root[PATH_MAX]; /* what of the hierarchy is mounted there */
	char v1_root[PATH_MAX];
	enum input_state mountinfo; /* how it went to find them; else the usual places were looked at */
};

void cgroup_find_mounts(const char *root, struct cgroup_mounts *mounts);

/* The groups that we are below and that have a limit under `total_bytes`, ours first. Limits change seldom. */
enum { CGROUP_LIMITS_MAX = 8 };

struct cgroup_limits {
	struct cgroup_limit {
		char group[PATH_MAX];
		bool is_v2;
		int64_t bytes;
	} limit[CGROUP_LIMITS_MAX];
	uint32_t count;
	struct inputs inputs; /* the files that this stands on */
};

/* A limit that is not told bounds nothing, and is noted. */
void cgroup_find_limits(const char *root, const struct cgroup_mounts *mounts, int64_t total_bytes,
                        struct cgroup_limits *out);

/*
 * Fills what sample.h calls cgroup_ (cgroup_hard_bytes without hot_file): of these groups, the one with least
 * room. Where what a group uses is not told, all that it may have counts as used. `handles`: NULL, or files that stay
 * open.
 */
void cgroup_read_limits(const char *root, struct handles *handles, const struct cgroup_limits *limits, struct sample *sample);

/* Where not all could be read: limits that were known before and are not found again stay. */
void cgroup_keep_limits(struct cgroup_limits *now, const struct cgroup_limits *before);

/* The file by which the nearest of them tells of its own stalls; false where none does (version 1 has none). */
bool cgroup_pressure_path(const struct cgroup_limits *limits, char out[PATH_MAX]);

/*
 * The folder in which a group with a limit of its own may be made for a child of ours: our own group's, or that
 * above it, where it was left to us (delegated). NULL; else why there is none, as half a sentence.
 */
const char *cgroup_find_room(const char *root, const struct cgroup_mounts *mounts, char out[PATH_MAX]);

/* Our group and all above it up to the mount, ours first, of version 1 or 2; nothing where that is not known. */
void cgroup_each(const char *root, const struct cgroup_mounts *mounts, bool is_v2,
                 void (*look)(void *ctx, const char *group), void *ctx);

/* How often the kernel killed for memory, ever. */
struct oom_count {
	int64_t machine_kills; /* on the machine */
	int64_t group_kills;   /* in our own group; -1 = cannot be read */
	int64_t limit_hits;    /* limits that were reached, of our group or one above it */
};

void cgroup_read_oom(const char *root, const struct cgroup_mounts *mounts, struct oom_count *out);

/* In a group of cgroup2, by its path; -1 = cannot be read. */
int64_t cgroup_read_kills(const char *root, const char *group);

/* The processes of a group (below the cgroup2 mount, else cgroup1's). How many; 0 where there is none. */
uint32_t cgroup_read_processes(const char *root, const struct cgroup_mounts *mounts,
                               const char *cgroup, pid_t *out, uint32_t most);

#endif
