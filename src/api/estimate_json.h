#ifndef API_ESTIMATE_JSON_H
#define API_ESTIMATE_JSON_H

#include <jansson.h>

#include "estimate/estimate.h"

/* estimate_json - a footprint as `cotenant estimate --json` and `show` give it. A new reference. */
json_t *estimate_json(const struct estimate *estimate);

/* What of base lies where ("by_pool"), and "gpu_layers": chosen so that they fit; null where they were not. */
void estimate_add_placing(json_t *json, const struct estimate *estimate);

#endif
