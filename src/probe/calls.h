#ifndef PROBE_CALLS_H
#define PROBE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/inputs.h"

/*
 * calls - what the machine tells by a call and not by a file: DRM and KFD
 * ioctls, NVML. In a recorded tree the answers stand in calls.json.
 *
 * Nobody has to answer: what was not told is -1 (or a count of 0). The numbers
 * are as told, however little sense they make; who uses them judges them.
 * Libraries of vendors are only ever opened at run time, and only NVML: asking
 * HIP or CUDA would itself take memory of the device.
 */
enum {
	CALLS_GPUS_MAX = 8,
	CALLS_PROCESSES_MAX = 128,
	CALLS_REGIONS_MAX = 16,
	CALLS_HEAPS_MAX = 16,
	CALLS_NAME_BYTES = 64,
};

struct calls_process {
	pid_t pid;
	int64_t used_bytes;
};

struct calls_nvml {
	char name[CALLS_NAME_BYTES];
	int64_t total_bytes; /* -1 = not supported or not told */
	int64_t free_bytes;
	struct calls_process process[CALLS_PROCESSES_MAX];
	uint32_t processes;
	uint32_t left_out; /* that there was no room for: who use least */
	int64_t left_out_bytes; /* as far as they were told */
};

struct calls_region { /* of a card of xe */
	char card[16];
	bool vram; /* else system memory */
	int64_t total_bytes;
	int64_t used_bytes;
};

struct calls_apu {
	char card[16];
	bool apu;
};

struct calls_heap {
	int64_t bytes;
	bool device_local;
};

struct calls {
	int64_t page_bytes;
	int64_t kfd_available_bytes;
	int64_t hip_total_bytes, hip_free_bytes;
	int64_t cuda_total_bytes, cuda_free_bytes;
	int cuda_integrated; /* -1 = not told */
	struct calls_apu apu[CALLS_GPUS_MAX];
	uint32_t apus;
	struct calls_nvml nvml[CALLS_GPUS_MAX];
	uint32_t nvmls;
	struct calls_region region[CALLS_REGIONS_MAX];
	uint32_t regions;
	struct calls_heap heap[CALLS_HEAPS_MAX];
	uint32_t heaps;
	enum input_state recorded; /* how calls.json was */
};

/* One process more that uses the device; told of twice, the larger counts. */
void calls_add_process(struct calls_nvml *gpu, pid_t pid, int64_t used_bytes);

/* Nothing was told. */
void calls_clear(struct calls *calls);

/* Out of `root`/calls.json; where it is missing nothing was told. */
void calls_recorded(const char *root, struct calls *calls);

/* Asks the running machine. Blocks; opens no device that is suspended. */
struct cards;
void calls_live(struct calls *calls, const struct cards *cards);

/* Once more what changes: use and processes. */
struct nvml_session;
/* `nvml`: open already, or NULL: then it is asked anew, unless what it told last still serves. */
void calls_refresh(struct calls *calls, const struct cards *cards, struct nvml_session *nvml, bool nvml_stays);

/* As calls.json, for a recording; a new text to be freed. */
char *calls_text(const struct calls *calls);

#endif
