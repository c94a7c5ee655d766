#ifndef API_ESTIMATE_JSON_H
#define API_ESTIMATE_JSON_H

#include <jansson.h>

#include "base/buf.h"
#include "estimate/estimate.h"

/* estimate_json - a footprint as `cotenant estimate --json` and `show` give it. A new reference. */
json_t *estimate_json(const struct estimate *estimate);

/* "checkpoints": what the server sets aside of a conversation (estimate.h), and how many of them a slot. */
void estimate_add_checkpoints(json_t *json, const struct estimate *estimate);

/* What of base lies where ("by_pool"), and "gpu_layers": chosen so that they fit; null where they were not. */
void estimate_add_placing(json_t *json, const struct estimate *estimate);

/*
 * "experts": what a mixture of experts keeps in memory and reads again for each token; null where all are
 * there, or there are none. `bytes_per_s`: how fast this file was read when it was last loaded; 0 = not known.
 * `unbounded`: why no control group can keep the engine to that; NULL: one does.
 */
void estimate_add_experts(json_t *json, const struct estimate *estimate, double bytes_per_s, const char *unbounded);
/* The same as the end of a sentence; nothing where it is null. */
void estimate_tell_experts(struct buf *text, const struct estimate *estimate, double bytes_per_s,
                           const char *unbounded);

#endif
