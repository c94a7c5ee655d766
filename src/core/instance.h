#ifndef CORE_INSTANCE_H
#define CORE_INSTANCE_H

#include "core/decide.h"
#include "core/state.h"

/*
 * instance - the life of one running engine.
 *
 *   1. instance_open()     its peak is claimed, then the spawn goes out   LOADING
 *   2. instance_ready()    the claim drops to base + running needs        READY
 *   3. instance_drain()    no new requests; instance_serve() takes it back DRAINING
 *   4. instance_end()      told to stop; the claim stays                  STOPPING
 *   5. instance_exited()   its group is gone; the claim stays             GONE
 *   6. instance_close()    a sample after that showed its bytes back      FREE
 *
 * An exit may come in any state before; what had asked for it tells whether it
 * counts as a failure.
 */
/* Requests on it, cancelled ones too. */
static inline bool instance_busy(const struct instance *instance)
{
	return instance->running.count + instance->ending > 0;
}

static inline bool instance_has_slot(const struct instance *instance)
{
	return !instance->clearing && instance->running.count + instance->ending < instance->slots;
}

/* What its conversations hold is about to be told anew: room may come of it. */
bool instance_settles(const struct instance *instance);
/* None of them loads, runs, settles or leaves: nothing will come of waiting. */
bool instances_still(const struct arbiter *a);
struct id instance_id(const struct arbiter *a, const struct instance *instance);
struct instance *instance_find(const struct arbiter *a, struct id id); /* NULL: stale */
bool instance_table_full(const struct arbiter *a);

/* `peak` is what it claims until it is ready. */
void instance_open(struct arbiter *a, struct model *model, const struct amount *peak,
                   const struct amount *sigma);
void instance_progress(struct arbiter *a, struct instance *instance, uint32_t permille);
void instance_ready(struct arbiter *a, struct instance *instance, uint32_t slots,
                    uint32_t context_tokens);
void instance_drain(struct arbiter *a, struct instance *instance, enum reason reason,
                    const struct model *drain_for);
void instance_serve(struct arbiter *a, struct instance *instance);
/* `how`: ACTION_STOP, ACTION_KILL or ACTION_ABORT_LOAD. */
void instance_end(struct arbiter *a, struct instance *instance, enum action_type how,
                  enum reason reason);
/* ... for nobody else's sake: the decision is recorded. */
void instance_unload(struct arbiter *a, struct instance *instance, enum action_type how,
                     enum reason reason);
/* How an engine ended that nobody had told to. */
struct instance_ending {
	enum fail fail;
	enum end_cause cause;
	int32_t exit_status;
	bool never_ready;
};
void instance_exited(struct arbiter *a, struct instance *instance, const struct instance_ending *ending);
void instance_close(struct arbiter *a, struct instance *instance);

/* It is sick: kill it; in a load that is a failed load, later a death. */
void instance_unhealthy(struct arbiter *a, struct instance *instance, enum reason reason);
/* Cancel everything that runs on it, one unit of work each. */
void instance_cut(struct instance *instance, enum fail fail);
/* What it claims is to be reckoned anew. */
void instance_reclaim(struct arbiter *a, struct instance *instance);
/* What it would claim if a request with this need ran there as well; NULL: as it is. */
struct amount instance_claim_with(const struct arbiter *a, const struct instance *instance,
                                  const struct amount *more);
/* The same, were its idle conversations given up. */
struct amount instance_claim_cleared(const struct arbiter *a, const struct instance *instance,
                                     const struct amount *more);
/* A request, in its chain already, runs there; one that was there is gone. */
void instance_take(struct arbiter *a, struct instance *instance, const struct request *request);
void instance_leave(struct arbiter *a, struct instance *instance, const struct request *request);
/* EVENT_TOKENS_HELD */
void instance_kept_told(struct arbiter *a, struct instance *instance, const struct event *event);
/* Measured once: others may load beside it. */
void instance_measured(struct arbiter *a, struct instance *instance);

#endif
