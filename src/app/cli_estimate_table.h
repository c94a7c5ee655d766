#ifndef APP_CLI_ESTIMATE_TABLE_H
#define APP_CLI_ESTIMATE_TABLE_H

#include <jansson.h>

#include "app/cli.h"
#include "estimate/estimate.h"

/*
 * cli_estimate_table - "what fits here?": contexts down, KV types across, each
 * cell what the model takes when cotenant starts it so and its conversations are full.
 */
struct machine_room {
	bool known;
	int64_t free_bytes;     /* what could be loaded now */
	int64_t capacity_bytes; /* with nothing else there */
	bool has_devices;       /* models go to a GPU unless they say otherwise */
	bool runs_cuda;         /* ... whose engines compute with CUDA */
	bool own_memory;        /* which has its own: the figures above are of it, these of the RAM */
	int64_t host_free_bytes, host_capacity_bytes;
};

/* With every conversation's cache full. */
int64_t machine_most(const struct estimate *estimate);
/* "now", "after-eviction" or "never". */
const char *machine_fits(const struct machine_room *room, const struct estimate *estimate);

void table_print(const struct cli_args *args, const char *path, const struct estimate_params *params,
                 const struct machine_room *room);
/* [{"context", "kv_type", "base_bytes", "peak_bytes", "full_bytes", "fits"}]: contexts over all slots. */
json_t *table_json(const struct cli_args *args, const char *path, const struct estimate_params *params,
                   const struct machine_room *room);

/* Each model file of a folder: a line, or with --json an element. CLI_DONE, or the exit code. */
int estimate_folder(const struct cli_args *args, const char *folder, const struct estimate_params *params,
                    const struct machine_room *room);

#endif
