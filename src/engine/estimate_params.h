#ifndef ENGINE_ESTIMATE_PARAMS_H
#define ENGINE_ESTIMATE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "estimate/estimate.h"

/*
 * estimate_params - the launch as the estimator sees it.
 *
 * What a model takes follows from the flags it is started with. This is the
 * other half of the llama-server adapter: whatever the adapter puts on the
 * command line, and whatever `args` of the configuration change of it, stands
 * here as the estimator's parameters. `context` is per conversation; the engine's
 * -c is context x slots.
 */
void engine_estimate_params(const struct conf_model *model, int64_t context, int64_t slots,
                            struct estimate_params *out);

/* Whether somebody chose them; else an encoder's batches hold its longest text. */
struct launch_batches {
	bool batch, ubatch;
};

/* One file under `params`, which are changed as the adapter would for what the file turns out to be. */
int engine_estimate_launch(const char *path, struct estimate_params *params,
                           const struct launch_batches *given, struct estimate *out, struct err *err);

/*
 * The footprint of a model's file so launched, with its projector, adapters and draft; `lazy`: with
 * the preload library, so that base holds no KV and a request's is its own. An encoder is started with a
 * physical batch that takes its longest text, which only the file tells.
 */
int engine_estimate(const struct conf_model *model, int64_t context, int64_t slots, bool lazy,
                    struct estimate *out, struct err *err);

/* The same with a smaller physical batch than the engine's own, which takes smaller compute buffers. */
int engine_estimate_small(const struct conf_model *model, int64_t context, int64_t slots, bool lazy,
                          int64_t ubatch, struct estimate *out, struct err *err);

/* Whether a smaller batch may be chosen: llama-server, and nobody chose one. */
bool engine_batch_is_free(const struct conf_model *model);

#endif
