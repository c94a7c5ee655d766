#ifndef ESTIMATE_ERA_H
#define ESTIMATE_ERA_H

#include <stdint.h>

/*
 * era - from which build of llama.cpp on a rule holds.
 *
 * A build is the number that llama-server tells with --version. Numbers are those of the releases
 * that first had a change; 0, a build that nobody told, has the newest rules.
 */
enum era {
	ERA_WINDOW_CACHE = 5429,  /* layers that see a window keep a cache of that size */
	ERA_STATE_BACKUPS = 6685, /* a server sets copies of recurrent state aside */
	ERA_PROMPT_CACHE = 6723,  /* ... and whole conversations: --cache-ram */
	ERA_ONE_STEP = 6975,      /* cells come in 256 whether flash attention is on or not */
	ERA_FOUR_SLOTS = 7433,    /* no -np is four sequences on one cache; before, one */
	ERA_TWO_INPUTS = 7819,    /* an input for tokens and one for embeddings, both reserved */
	ERA_LATENT_ALONE = 7832,  /* MLA keeps no V beside its latent */
	ERA_HALF_MASK = 9410,     /* flash attention takes its mask as f16 */
	ERA_FEW_OUTPUTS = 9460,   /* a server reserves the logits of one row a sequence, not of a whole batch */
	ERA_KV_COPIES = 9489,     /* CUDA and HIP: room for a quantised cache as f16 */
};

static inline int build_has(int64_t build, enum era since)
{
	return build <= 0 || build >= (int64_t)since;
}

#endif
