#ifndef CORE_KEPT_H
#define CORE_KEPT_H

#include "core/state.h"

/*
 * kept - the KV that an instance of a MODEL_LAZY holds for its conversations.
 *
 * Such an engine's base holds no KV: pages come as tokens fill them, and stay
 * with their slot when a request ends, until they are discarded. So KV is claimed
 * when a request is dispatched (its need: all tokens it may come to), and what
 * idle conversations hold is claimed on. The shell tells after each end what each
 * slot holds (EVENT_TOKENS_HELD); until then the need of the ended one stays.
 *
 * Which slot the engine will take for the next request nobody knows. The bound:
 * with k requests live, any k slots may be theirs, so the largest of the others'
 * holdings stay beside the needs, and of the k smallest what is beyond a need.
 * With one slot that is exact: the larger of need and holding. Never more than
 * all slots full.
 */
void kept_told(struct instance *instance, const struct event *event);
/* Its need stays claimed until the shell has told what it left behind. */
void kept_request_ended(struct instance *instance, const struct request *request);
/* All KV that it claims; `more`: with this request's need as well, or NULL. */
int64_t kept_claim(const struct model *model, const struct instance *instance,
                   const struct amount *more);
/* All was given back. */
void kept_clear(struct instance *instance);

static inline bool kept_applies(const struct model *model)
{
	return model->spec.flags & MODEL_LAZY;
}

#endif
