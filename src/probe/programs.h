#ifndef PROBE_PROGRAMS_H
#define PROBE_PROGRAMS_H

#include <sys/types.h>

#include "probe/topology.h"

/*
 * programs - who has how much, by the programs' names.
 *
 * One pass over all processes; processes of a name are one program. What they
 * share counts once, as of our own engines (group_sum.h). The list holds the
 * largest first; who has no memory is not in it.
 */
enum { PROGRAMS_MAX = 256 };

struct program {
	char name[32];
	uint32_t processes;
	int64_t anon_bytes;
	int64_t shmem_bytes;
	int64_t swap_bytes;
	int64_t gpu_bytes[POOLS_KNOWN_MAX];
	int64_t left_out_bytes; /* of cards that are no pool */
};

struct programs {
	struct program list[PROGRAMS_MAX];
	uint32_t count;
	uint32_t processes;                 /* looked at */
	bool gpu_unreadable;                /* some descriptors could not be read */
	int64_t gpu_bytes[POOLS_KNOWN_MAX]; /* of all */
	int64_t left_out_bytes;             /* likewise */
};

/* Processes, their groups and sessions that are left out. */
enum { PROGRAMS_SKIP_MAX = 128 };

struct programs_skip {
	pid_t self; /* with all its children, in whatever session; 0 = none */
	pid_t group[PROGRAMS_SKIP_MAX];
	uint32_t count;
};

/* `skip` may be NULL. 0, or a negative errno where not even /proc can be listed; then there are none. */
int programs_read(const char *root, const struct topology *topology, const struct programs_skip *skip,
                  struct programs *out);

/* As programs_read() of all. Where a driver does not tell how much it holds, the topology is read again with what its clients tell. */
int programs_complete(const char *root, struct topology *topology, struct programs *out);

/*
 * Bytes of the RAM in a driver's pools that no process owns, as one reading tells; 0 = none. -1 = nobody can tell:
 * a driver does not say how much it holds, or who holds it cannot be looked at.
 */
int64_t programs_leak_bytes(const struct topology *topology, const struct programs *programs);

/* RAM that the program holds: what the ledger would count of it, without what is swapped out. */
int64_t program_ram_bytes(const struct program *program);

#endif
