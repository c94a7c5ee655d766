#ifndef PROBE_GPU_USE_H
#define PROBE_GPU_USE_H

#include "probe/topology.h"

/*
 * gpu_use - which process holds how much of the GPUs' memory, by pool.
 *
 * Three witnesses tell it: the DRM driver in fdinfo, KFD, NVML. They tell of the
 * same bytes, so of a process the largest counts, never their sum. A DRM client
 * that several processes or descriptors share counts once, where it is seen
 * first; memory that clients share counts for one client of a device.
 * Descriptors are recognised by where their link points to and are never opened.
 *
 *   1. gpu_use_open()
 *   2. gpu_use_look() for each process
 */
enum { GPU_CLIENTS_MAX = 512 };

struct gpu_client {
	uint32_t card;
	uint64_t id;
};

struct gpu_use {
	const struct topology *topology;
	const char *root;
	struct gpu_client client[GPU_CLIENTS_MAX];
	uint32_t clients;
	bool shared_told[CARDS_MAX]; /* one client of the card bears what is shared */
	bool refused; /* some process' descriptors could not be read: more may be held */
	int64_t left_out_bytes; /* of the process looked at last: held of cards that are no pool, for nouveau tells no size */
};

void gpu_use_open(struct gpu_use *use, const char *root, const struct topology *topology);

/* Bytes of `pid` by pool. False where its descriptors may not be read: then what is told is a lower
 * bound. */
bool gpu_use_look(struct gpu_use *use, pid_t pid, int64_t out[POOLS_KNOWN_MAX]);

#endif
