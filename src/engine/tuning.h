#ifndef ENGINE_TUNING_H
#define ENGINE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

/* tuning - how a start follows from the model's estimate; all 0: the engine's own ways. */
struct launch_tuning {
	bool is_encoder;     /* the file holds an embedding model */
	uint32_t ubatch;     /* physical batch in tokens; 0 = the engine's own */
	bool plain;          /* weights stay in the file's form */
	bool split;          /* some layers are kept off the device: `gpu_layers` go to it */
	uint32_t cache_ram_mib; /* the limit of a prompt cache that was to have none; 0 = as configured */
	bool drafts_when_told; /* this build has kinds of drafting, and does none unless one is named */
	uint32_t gpu_layers; /* the output counted as the last */
};

#endif
