#ifndef ENGINE_ESTIMATE_PARAMS_H
#define ENGINE_ESTIMATE_PARAMS_H

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

/*
 * The footprint of a model's file so launched. An encoder is started with a
 * physical batch that takes its longest text, which only the file tells.
 */
int engine_estimate(const struct conf_model *model, int64_t context, int64_t slots,
                    struct estimate *out, struct err *err);

#endif
