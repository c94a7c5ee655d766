#ifndef ENGINE_BOUND_H
#define ENGINE_BOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "probe/cgroup.h"

/*
 * bound - a control group of an engine's own, so that it keeps no more of a mapped file than was planned.
 *
 * Pages of a file stay in memory for as long as nobody needs the room. In a group whose memory.high is what the
 * engine was planned to take, the kernel takes back what it maps beyond that; nothing is killed there. Pages that
 * somebody else had read before count as theirs.
 *
 * Groups are named after this process ("cotenant-PID-NUMBER"); those of a daemon that was killed are removed
 * by the next one.
 */
enum { BOUND_PATH_MAX = 512 };

struct bounds {
	struct cgroup_mounts mounts;
	char folder[PATH_MAX]; /* where groups are made */
	const char *refused;   /* why none can be, as half a sentence; NULL: they can */
};

void bounds_find(struct bounds *bounds, const struct cgroup_mounts *mounts);
/* Groups in `folder` of daemons that are no more; one that somebody is in stays. */
void bounds_remove_stale(const char *folder);

/* A new group that keeps `high_bytes`; its path. A negative errno: there is none, and `err` says why. */
int bound_make(const struct bounds *bounds, uint64_t number, int64_t high_bytes, char out[BOUND_PATH_MAX],
               struct err *err);
/* More than before: less would have the kernel take back at once, while the caller waits. */
int bound_raise(const char *group, int64_t high_bytes);
/* Whether `pid` is in it. */
bool bound_holds(const struct bounds *bounds, const char *group, pid_t pid);
/* Once it is empty; one that somebody is in stays, until the next daemon finds it. */
void bound_remove(const char *group);

#endif
