#ifndef ENGINE_FIT_PARAMS_H
#define ENGINE_FIT_PARAMS_H

#include <stdbool.h>

#include "engine/hear.h"
#include "engine/own_word.h"

/*
 * fit_params - llama-fit-params, where it lies beside the llama-server that will serve.
 *
 * It knows the flags that decide memory and refuses those of a server alone, so of a launch only the former are
 * passed on. It says, in whole MiB, for each device and the host what weights, caches and compute buffers take, and
 * ends; at log level 4 also what matrices take that are rewritten for the processor, which its sums leave out. Its
 * compute buffers hold logits for every token of a batch, and a server's only one row for each sequence: they are a
 * bound (doc/decisions/estimator.md has the figures).
 */

/*
 * The same of what `serving` would start, without what it does not know. -ENOENT: there is none beside it;
 * -ENOTSUP: with flags that decide memory and that it does not know.
 */
int fit_params_launch(const struct launch *serving, struct launch *out, struct err *err);

/* What it said so far. */
struct fit_params {
	struct own_word table; /* of its log; no rows: it had none */
	struct own_word sums;  /* of its output */
	bool table_ended;
};

/* For struct hear: `ctx` is a struct fit_params. It never says enough before it ended. */
bool fit_params_line(void *ctx, struct str line);
/* False: it said nothing that hangs together. */
bool fit_params_word(const struct fit_params *told, struct own_word *out);

#endif
