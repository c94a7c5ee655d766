#ifndef ENGINE_ESTIMATE_PARAMS_H
#define ENGINE_ESTIMATE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "engine/tuning.h"
#include "estimate/estimate.h"

/*
 * estimate_params - the launch as the estimator sees it.
 *
 * What a model takes follows from the flags it is started with. This is the
 * other half of the llama-server adapter: whatever the adapter puts on the
 * command line, and whatever `args` of the configuration change of it, stands
 * here as the estimator's parameters.
 */

/* What is chosen for a start beside what the configuration says. */
struct launch_choice {
	int64_t context;   /* per conversation */
	int64_t slots;
	bool lazy;         /* with the preload library: base holds no KV, a request's is its own */
	int64_t ubatch;    /* physical batch; 0 = the engine's own */
	bool has_devices;  /* a GPU is there: models go to it unless they say otherwise */
	bool runs_cuda;    /* ... whose engines compute with CUDA */
	int64_t release;   /* the engine's build, where it told one; 0 = of today */
	int64_t host_layers; /* kept off the device, the output counted as a layer; 0 = as configured */
};

void engine_estimate_params(const struct conf_model *model, const struct launch_choice *choice,
                            struct estimate_params *out);

/* Whether somebody chose them; else an encoder's batches hold its longest text. */
struct launch_batches {
	bool batch, ubatch;
};

/* One file under `params`, which are changed as the adapter would for what the file turns out to be. */
int engine_estimate_launch(const char *path, struct estimate_params *params,
                           const struct launch_batches *given, struct estimate *out, struct err *err);

/*
 * The footprint of a model's file so launched, with its projector, adapters and draft. An encoder is
 * started with a physical batch that takes its longest text, which only the file tells.
 */
int engine_estimate(const struct conf_model *model, const struct launch_choice *choice,
                    struct estimate *out, struct err *err);

/* Of this machine's processor: its engine keeps more matrices in a form of its own (estimate.h). */
bool engine_cpu_has_amx(void);

/* The start that the estimate was made for. */
void engine_tuning(const struct estimate *estimate, struct launch_tuning *out);

/* Whether a smaller batch may be chosen: llama-server, and nobody chose one. */
bool engine_batch_is_free(const struct conf_model *model);
/* Whether layers may be kept off the device: llama-server on `device: auto`, and nobody chose how many. */
bool engine_layers_are_free(const struct conf_model *model);

/*
 * The fewest layers kept off a device, so that what is left there takes at most `room_bytes`: more than 0, at
 * most `layers` + 1 (nothing is there then). `device_bytes` tells what the device holds without so many
 * layers, and is asked a few times; negative where that is not known, which ends the search: then 0.
 */
int64_t engine_layers_to_spare(int64_t layers, int64_t room_bytes,
                               int64_t (*device_bytes)(void *ctx, int64_t host_layers), void *ctx);

#endif
