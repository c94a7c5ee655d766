#ifndef ESTIMATE_PARTS_H
#define ESTIMATE_PARTS_H

#include <stdint.h>

#include "estimate/estimate.h"

/* estimate_gguf() of a model that lies in several files, the first part first. */
int estimate_parts(const struct byte_source *parts, uint32_t count,
                   const struct estimate_params *params, struct estimate *out, struct err *err);

#endif
