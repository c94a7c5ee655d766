#ifndef PROBE_SAMPLE_H
#define PROBE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "probe/inputs.h"
#include "probe/topology.h"

/*
 * sample - one reading of the machine's memory, whole and by owner.
 *
 * Everything is read from files below `root` ("" on the running machine, a
 * recorded tree in tests), so every formula runs on recordings. Reading blocks
 * on /proc: call it on a worker, never on the loop. The whole and all owners
 * are read together, so that the ledger compares like with like.
 *
 * Classes and formulas: U_top = MemTotal - MemAvailable - pcp + hot_file (where
 * MemAvailable is F1 of the kernel's si_mem_available(), and pcp see zones.h). An owner's bytes are
 * exactly the classes U counts: RssAnon + RssShmem + VmSwap, what its processes share once (owners.h), + hot file pages
 * (mapped weights of an engine that computes on the CPU), each inode once over
 * all owners, of an owner at most what it asks to be counted. What GPUs hold for it stands apart, by pool:
 * of system RAM it is in U, and in no class of the process.
 */
enum { SAMPLE_OWNERS_MAX = 64, SAMPLE_FILES_MAX = 8 };

struct seen;

struct sample_owner {
	/* asked */
	pid_t pgid;               /* process group (and session) of the instance; 0 = none */
	pid_t pid;                /* a process that is none of ours, with its children; 0 = none */
	const char *cgroup;       /* its own cgroup, relative to the mount; NULL = none */
	const char *files[SAMPLE_FILES_MAX]; /* model files whose mapped pages count as hot; NULL ends */
	int64_t hot_most_bytes;   /* no more of them: the rest may be taken away; 0 = all */
	/* answered */
	uint32_t processes;       /* 0 = the group is gone */
	bool complete;            /* every process of it was readable */
	int64_t anon_bytes;       /* RssAnon + RssShmem + VmSwap, each page once */
	int64_t shmem_bytes;      /* of that, RssShmem */
	int64_t hot_file_bytes;   /* resident mapped pages of `files`, each inode once */
	int64_t mapped_bytes;     /* the same pages, and those beyond hot_most_bytes too */
	int64_t file_bytes;       /* RssFile in all, for display */
	int64_t own_bytes;        /* anon + hot_file: what the ledger counts of the host's use */
	int64_t gpu_bytes[POOLS_KNOWN_MAX]; /* held by GPUs for it */
};

struct sample {
	/* asked */
	bool quick;               /* look at those alone that were seen before, where all owners were; leave the rest */
	struct seen *seen;        /* what is kept from one sample to the next (seen.h); NULL = nothing */
	const struct topology *topology; /* whose GPUs are looked at; NULL = none */
	/* answered */
	int64_t total_bytes;      /* MemTotal */
	int64_t available_bytes;  /* MemAvailable and pages on processors' own free lists */
	int64_t free_bytes;       /* MemFree */
	int64_t anon_bytes;       /* AnonPages */
	int64_t shmem_bytes;
	int64_t swap_total_bytes;
	int64_t swap_free_bytes;
	int64_t hot_file_bytes;   /* over all owners, each inode once */
	int64_t unreclaimable_bytes; /* U */
	int64_t cgroup_limit_bytes;  /* of our own cgroup and those above it, the one with least room; INT64_MAX = none */
	int64_t cgroup_used_bytes;   /* usage less inactive file, there */
	int64_t cgroup_hard_bytes;   /* usage less all file pages that can be dropped, and hot_file again */
	bool cgroup_use_unknown;     /* not all of that was told: the two are the most that it can be */
	int64_t cgroup_some_avg10_centi, cgroup_full_avg10_centi; /* its own PSI (version 2); -1 = not told */
	int64_t high_watermark_bytes; /* sum over zones */
	int64_t psi_some_avg10_centi; /* hundredths of a percent; -1 = no PSI */
	int64_t psi_full_avg10_centi;
	bool on_battery;          /* a battery is there and no mains supply is online */
	int64_t oom_kills;        /* /proc/vmstat oom_kill */
	int64_t file_refaults;    /* file pages read back soon after they were dropped, ever */
	int64_t allocation_stalls; /* allocations that waited for reclaim, failed compactions, ever */
	struct inputs inputs;     /* the files that this stands on */
	uint32_t owners;
	struct sample_owner owner[SAMPLE_OWNERS_MAX]; /* last: what is not in use is not copied */
};

/* The answers, and what was asked of the owners. */
void sample_copy(struct sample *to, const struct sample *from);

/*
 * Fill `sample`; its owner[].pgid/.cgroup/.files and owners are set by the
 * caller. What hardly changes (limits of control groups, the source of power) is read where it is not quick. 0, or a negative errno where /proc/meminfo cannot be read or makes no
 * sense (then the sample must not be used).
 */
int sample_read(const char *root, struct sample *sample, struct err *err);

/* The platform's reserve where the configuration says auto: max(2 GiB or 1/8 of a small pool, 3 %, 2 x high watermarks). */
int64_t sample_default_reserve(const struct sample *sample);

#endif
