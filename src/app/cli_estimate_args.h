#ifndef APP_CLI_ESTIMATE_ARGS_H
#define APP_CLI_ESTIMATE_ARGS_H

#include "app/cli.h"
#include "app/cli_estimate_table.h"
#include "estimate/estimate.h"

/*
 * cli_estimate_args - the options of `estimate` as the estimator's parameters.
 *
 * What is not given is what the engine itself would do. A number that no engine
 * takes (a context of 0 or of 2^31) is refused here, with what it may be.
 * CLI_DONE, or the exit code with the text said.
 */
int estimate_args(const struct cli_args *args, struct estimate_params *params);

/*
 * What lies at `path` as cotenant would start an engine with it on such a machine, and what is
 * given to lie beside it: on its GPU, where --gpu-layers does not say otherwise, and with as many
 * layers as fit there. 0, or a negative errno with its text.
 */
int estimate_launched(const struct cli_args *args, const char *path, const struct estimate_params *params,
                      const struct machine_room *room, struct estimate *out, struct err *err);
/* The same as an engine takes it that somebody else starts. */
int estimate_plain(const struct cli_args *args, const char *path, const struct estimate_params *params,
                   struct estimate *out, struct err *err);

/*
 * The engine's own word in the place of the formulas', of the program that --engine
 * names. -EBUSY where too little is free for its device's context.
 */
int estimate_ask_engine(const struct cli_args *args, const char *path, const struct estimate_params *params,
                        const struct machine_room *room, struct estimate *out, struct err *err);

/* "q8_0" and back; false and NULL: no such type. */
bool estimate_kv_type(const char *name, enum kv_cache_type *out);
const char *estimate_kv_type_name(enum kv_cache_type type);

#endif
