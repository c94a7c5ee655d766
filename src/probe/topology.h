#ifndef PROBE_TOPOLOGY_H
#define PROBE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "probe/calls.h"
#include "probe/cards.h"
#include "probe/inputs.h"
#include "probe/meminfo.h"
#include "probe/zones.h"

/*
 * topology - which memories the machine really has, and who may take what.
 *
 * A pool is a physical memory, disjoint from the others. A view is another
 * reading of a pool: a cap on some of its uses, a reading that is only shown, or
 * one that is ignored because it says the same memory again or something else
 * than it seems to. Views are never added. What a machine is, is told by its
 * values and not by its name; what nobody tells stays unknown and is said so in
 * a warning, and then counts as not there.
 *
 *   1. topology_find()  cards, calls, pools, devices: at start and on change
 *   2. topology_read()  how much is used: with every sample
 *
 * Both block on files and calls. Nothing here is ever more than is physically
 * there, whatever the files say.
 */
enum {
	POOLS_KNOWN_MAX = 8, /* as the arbiter's pools */
	DEVICES_MAX = 8,
	VIEWS_KNOWN_MAX = 48,
	WARNINGS_MAX = 32,
	WARNING_BYTES = 240,
};

#define TAKE_UNKNOWN INT64_C(-2)
#define NO_POOL UINT32_MAX /* also: no card, no device of NVML */

enum topology_kind {
	TOPOLOGY_CPU,
	TOPOLOGY_AMD_GTT,
	TOPOLOGY_AMD_CARVEOUT,
	TOPOLOGY_GB10,
	TOPOLOGY_JETSON,
	TOPOLOGY_GH200,
	TOPOLOGY_INTEL_IGPU,
	TOPOLOGY_DISCRETE_AMD,
	TOPOLOGY_DISCRETE_NVIDIA,
	TOPOLOGY_MIXED,
};

enum pool_kind {
	POOL_RAM,
	POOL_CARVEOUT, /* taken off the RAM by the firmware for an APU */
	POOL_VRAM,
	POOL_HBM, /* a NUMA node that belongs to a GPU */
};

struct pool {
	char name[32];
	enum pool_kind kind;
	int64_t size_bytes;
	int64_t reserve_bytes;
	int64_t unreclaimable_bytes; /* U; at most the size */
	int32_t node;                /* of HBM, else -1 */
};

enum view_role {
	VIEW_CAP,
	VIEW_READING,
	VIEW_IGNORED,
};

struct view {
	char name[40];
	uint32_t pool;
	int64_t bytes;
	enum view_role role;
	bool bounds_gpu, bounds_host; /* of a cap: which uses */
	int64_t used_bytes;           /* of a cap: what stands under it, of anybody */
	const char *why;
};

enum device_kind {
	DEVICE_AMD_GTT,
	DEVICE_AMD_CARVEOUT,
	DEVICE_AMD_CARD,
	DEVICE_GB10,
	DEVICE_JETSON,
	DEVICE_GH200,
	DEVICE_NVIDIA_CARD,
	DEVICE_INTEL_IGPU,
	DEVICE_INTEL_CARD,
};

/* What a runtime could take of a device now before harm; -1 = it does not run there, -2 = it does and nobody knows. */
struct device {
	char name[40];
	enum device_kind kind;
	uint32_t pool;     /* where models go */
	uint32_t carveout; /* of an APU that has one, else NO_POOL */
	uint32_t card;     /* index into cards, or NO_POOL */
	uint32_t nvml;     /* index into calls.nvml, or NO_POOL */
	int64_t rocm_bytes;
	int64_t vulkan_bytes;
	int64_t cuda_bytes;
};

struct warning {
	const char *code;
	char message[WARNING_BYTES];
};

struct topology {
	enum topology_kind kind;
	struct pool pool[POOLS_KNOWN_MAX]; /* the first is system RAM */
	uint32_t pools;
	struct device device[DEVICES_MAX];
	uint32_t devices;
	struct view view[VIEWS_KNOWN_MAX];
	uint32_t views;
	struct warning warning[WARNINGS_MAX];
	uint32_t warnings;
	uint32_t found_warnings; /* of topology_find(): they stay */
	struct inputs inputs;    /* the files that this stands on */
	struct inputs found_inputs; /* of topology_find(): they stay */

	/* Given by the caller before topology_read(): who closes it; NULL = none is open. */
	struct nvml_session *nvml;
	struct handles *handles; /* files that stay open; NULL = none */
	bool cgroup_told;        /* cgroup_limit_bytes and cgroup_used_bytes are, by the sample that was just read */
	bool nvml_stays; /* likewise: what NVML told last still serves, where none is open */

	/* What was read. */
	struct cards cards;
	struct calls calls;
	struct meminfo mem; /* system RAM without the GPUs' nodes */
	struct zones zones;
	int64_t pages_limit_bytes; /* TTM's; -1 = no TTM */
	bool no_system_mem_limit;
	int64_t cgroup_limit_bytes; /* INT64_MAX = none */
	int64_t cgroup_used_bytes;
	int64_t free_2m_bytes; /* -1 = not told */

	/* Two sums of the same, and what tells them apart. */
	int64_t u_top_bytes;
	int64_t u_bot_bytes;
	int64_t gpu_counter_bytes; /* what the drivers admit to hold of the RAM */
	int64_t unaccounted_bytes; /* of the RAM, in no counter and admitted by no driver; -1 = not told */
	bool gpu_silent;           /* some driver does not tell how much of the RAM it holds: what its clients tell counts */
	bool drift_known;          /* the parts could be summed up, and the drivers told */
	int64_t drift_bytes;       /* what is missing from the RAM less what they admit */
	/* Given by the caller before topology_read(). */
	int64_t hot_file_bytes;
	int64_t clients_bytes[POOLS_KNOWN_MAX]; /* what processes hold by fdinfo: the least that a silent driver holds */
	int64_t usual_unaccounted_bytes; /* on this machine while it is quiet; 0 = not known: a hundredth of it */

	int64_t allocatable_bytes;     /* of the RAM, by anybody: A_sys */
	int64_t allocatable_cpu_bytes; /* by what is charged to our cgroup */
};

/*
 * `root` is "" on this machine. 0, or a negative errno where not even meminfo makes sense: then nothing is known of
 * the RAM, whose pool has no size, and `inputs` says why; the GPUs' own memories are as they tell.
 */
int topology_find(const char *root, struct topology *out, struct err *err);
int topology_read(const char *root, struct topology *topology, struct err *err);

/* Does a driver not tell how much it holds, so that what its clients tell is asked for? */
bool topology_needs_clients(const struct topology *topology);

/* Is there a machine below `root` at all? */
bool topology_has_proc(const char *root);

/* The least of the caps that bound every use of a pool, or INT64_MAX. */
int64_t topology_bound(const struct topology *topology, uint32_t pool);

/* B of a pool: what may ever be used, less the caps that bound every use of it. */
int64_t topology_capacity(const struct topology *topology, uint32_t pool);

/* The budget shown: what the baseline leaves, within all caps, less 15 %. */
int64_t topology_usable(const struct topology *topology, uint32_t pool, int64_t baseline_bytes);

/* The largest need of the pool's device that would be admitted now. */
int64_t topology_free(const struct topology *topology, uint32_t pool);

static inline bool topology_knows_ram(const struct topology *topology)
{
	return topology->mem.total > 0;
}

/* A card whose driver tells neither its size nor its use: no pool, but its clients tell what they hold. */
bool topology_has_nouveau(const struct topology *topology);

/* An NVIDIA GPU has no memory of its own: its driver takes the system's, and of that only what is free at that moment. */
static inline bool topology_is_nvidia_unified(const struct topology *topology)
{
	return topology->kind == TOPOLOGY_GB10 || topology->kind == TOPOLOGY_JETSON;
}

/* Its engines compute with CUDA. Of an AMD GPU nobody can tell from here: it may be HIP or Vulkan. */
static inline bool topology_runs_cuda(const struct topology *topology)
{
	return topology_is_nvidia_unified(topology) || topology->kind == TOPOLOGY_GH200 ||
	       topology->kind == TOPOLOGY_DISCRETE_NVIDIA;
}

/* Where models go unless told otherwise: to the device with the largest memory, else to system RAM.
 */
uint32_t topology_default_pool(const struct topology *topology);

/* "cpu", "amd-gtt" ... */
const char *topology_name(enum topology_kind kind);

#endif
