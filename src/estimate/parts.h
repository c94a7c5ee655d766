#ifndef ESTIMATE_PARTS_H
#define ESTIMATE_PARTS_H

#include <stdint.h>

#include "estimate/estimate.h"

/* estimate_gguf() of a model that lies in several files, the first part first. */
int estimate_parts(const struct byte_source *parts, uint32_t count,
                   const struct estimate_params *params, struct estimate *out, struct err *err);

/* A projector or an adapter: tensors, and of a projector what its largest picture computes. */
int estimate_beside(const struct byte_source *parts, uint32_t count, enum companion kind,
                    const struct estimate_params *params, struct estimate *out, struct err *err);

/* What the process takes of the host whatever it loads. */
enum { SHARED_OVERHEAD_BYTES = 9 << 20 };

/* Add what is loaded beside a model to the model's own; the process is there once. */
void estimate_join(struct estimate *model, const struct estimate *beside);

#endif
