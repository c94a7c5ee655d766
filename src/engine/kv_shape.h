#ifndef ENGINE_KV_SHAPE_H
#define ENGINE_KV_SHAPE_H

#include <stdint.h>

#include "conf/conf.h"
#include "estimate/estimate.h"

/*
 * kv_shape - what the tokens of one conversation take in a cache that follows use.
 *
 * Linear in the tokens: K lies token by token in each layer. Added is what is
 * taken whole with the first token (the layers that see a window keep that of it),
 * each layer's begun page, and what a turn leaves beside the cache to go back to. Without flash attention V lies transposed, a row
 * for each value: a page holds 2,048 tokens of a row, so it comes in such steps.
 */
struct kv_shape {
	int64_t token_bytes;
	int64_t first_bytes; /* with the first token */
	int64_t full_bytes;  /* of a slot whose context is full; more is never taken */
	int64_t beside_bytes; /* of both: checkpoints, which are not in the cache */
	int64_t step_tokens;
};

/* `estimate` is of the lazy launch: a request's bytes hold its slot's cache. */
void kv_shape_of(const struct conf_model *model, const struct estimate *estimate, int64_t context,
                 struct kv_shape *out);
/* 0 for 0 tokens. */
int64_t kv_shape_bytes(const struct kv_shape *shape, int64_t tokens);

#endif
