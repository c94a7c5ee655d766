#ifndef APP_REMEDY_H
#define APP_REMEDY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * remedy - free memory, and in large blocks, while an engine loads onto a GPU.
 *
 * Most drivers have the kernel make room for them. NVIDIA's takes on unified
 * memory what is free at that moment, in blocks of 2 MiB: what the page cache
 * holds is not free to it, and loads fail with memory "available". On others a
 * load stalls where no large block is left. So the cheapest remedy is taken
 * first, and each only where those before it did not suffice:
 *
 *   files    model files that nobody maps leave the page cache; needs no right
 *   maps     so does what engines still map of a file that their GPU has copied;
 *            needs CAP_SYS_NICE and the right to trace them
 *   group    our own control group gives file pages back: cgroup2, where it is
 *            left to us (memory.reclaim, kernel 6.9 with its swappiness)
 *   cache    the machine's page cache goes, and what drivers keep for
 *            themselves where that is more than 1 GiB; needs root
 *   compact  the kernel gathers free pages into blocks; needs root. Not while an
 *            AMD GPU serves: its queues stand still as its pages move
 *
 * Those that may not be taken are named. What stays broken up after all of them
 * comes back in the quiet hours, where models leave too (compact.h), or when the
 * machine is started anew.
 *
 *   remedy_facts -> remedy_is_needed() on the loop -> remedy_run() on a worker
 */
enum remedy_step { REMEDY_FILES, REMEDY_MAPS, REMEDY_GROUP, REMEDY_CACHE, REMEDY_COMPACT, REMEDY_STEPS };

enum { REMEDY_FILES_MAX = 64, REMEDY_MAPS_MAX = 16, REMEDY_PATH_MAX = 512 };

/* Bytes, of one reading. */
struct remedy_memory {
	int64_t total, free, available;
	int64_t cached; /* file pages that can be dropped */
	int64_t kept;   /* pages that drivers would give back (GPUReclaim) */
	int64_t large;  /* free in blocks of 2 MiB; -1 = not told */
};

struct meminfo;
struct remedy_memory remedy_memory_of(const struct meminfo *m, int64_t large_bytes);

struct remedy_facts {
	struct remedy_memory now;
	int64_t coming_bytes;  /* what loads onto GPUs have claimed of system RAM and not yet taken; 0 = none loads */
	bool nvidia_unified;
	bool amd_serves;       /* an engine on an AMD GPU is loaded */
};

/* The first step from `from` on that would help; REMEDY_STEPS where none is needed or none would. */
enum remedy_step remedy_next(const struct remedy_facts *facts, enum remedy_step from);

static inline bool remedy_is_needed(const struct remedy_facts *facts)
{
	return remedy_next(facts, REMEDY_FILES) != REMEDY_STEPS;
}

/* A file as an engine maps it. */
struct remedy_map {
	pid_t pid;
	char path[REMEDY_PATH_MAX];
};

struct remedy {
	/* asked */
	const char *root;          /* above /proc and /sys: "" on the machine */
	struct remedy_facts facts; /* now: brought up to date after each step */
	char file[REMEDY_FILES_MAX][REMEDY_PATH_MAX]; /* that no engine maps */
	uint32_t files;
	struct remedy_map map[REMEDY_MAPS_MAX];
	uint32_t maps;
	/* answered */
	uint32_t taken;            /* a bit for each step */
	char missing[256];         /* steps that may not be taken, and why; "" = none was */
};

/* Blocks for seconds. */
void remedy_run(struct remedy *remedy);

/*
 * Writes `text` to the kernel's file `name` below `root`. False where that may not be: said in `missing`,
 * after what it says already.
 */
bool remedy_write(const char *root, const char *name, const char *text, char *missing, uint32_t missing_bytes);

const char *remedy_step_name(enum remedy_step step);

#endif
