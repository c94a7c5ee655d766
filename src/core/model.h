#ifndef CORE_MODEL_H
#define CORE_MODEL_H

#include "core/state.h"

/*
 * model - a catalogue row, its queue's head, and what time does to it.
 *
 * model_refresh() is called after whatever changes a model, its queue or its
 * instance: it links the model among the stirring ones (those with a queue, an
 * instance, or a wish to be resident) and sets when it is next due. A model that
 * does not stir costs a step nothing.
 */
/* A server that we do not run: it takes no room that we could give, and gives none back. */
static inline bool model_outside(const struct model *model)
{
	return model->spec.flags & MODEL_OUTSIDE;
}

/* It stands for another program's use. */
static inline bool model_is_reservation(const struct model *model)
{
	return model->spec.flags & MODEL_RESERVATION;
}

/* Nobody takes its place. */
bool model_pinned(const struct model *model);
static inline bool model_backing_off(const struct arbiter *a, const struct model *model)
{
	return model->retry_at > a->now;
}

/* Failed so that waiting is not worth a client's while: new requests are refused until retry_at. */
bool model_refuses(const struct arbiter *a, const struct model *model);
/* Has an instance that is or will be ready: not one that ends. */
bool model_resident(const struct arbiter *a, const struct model *model);

static inline struct request *model_head(const struct arbiter *a, const struct model *model)
{
	return request_link(a, model->queue.first);
}

/* Its head has waited longer than anybody should: busy models are drained for it. */
bool model_overdue(const struct arbiter *a, const struct model *model);
enum model_state model_state(const struct arbiter *a, const struct model *model);
/* What its queue waits for, or why it is in its state. */
enum reason model_reason(const struct arbiter *a, const struct model *model);

/* Footprint, learned where it was measured. */
struct amount model_base(const struct model *model);
struct amount model_peak(const struct model *model);
struct amount model_sigma(const struct model *model);
/* It takes at least that: a part of the estimate until it was measured, then what samples agree on. */
struct amount model_lower(const struct model *model);

void model_refresh(struct arbiter *a, struct model *model);
/* It was asked for, or has served, or is new (then it comes last): the order that MODELS_LATEST follows. */
void model_touch(struct arbiter *a, struct model *model);
void model_list(struct arbiter *a, struct model *model);
#define MODELS_LATEST(a, row)                                                                    \
	for (struct model *row = model_link(a, (a)->latest_first); row;                          \
	     row = model_link(a, row->earlier))
int64_t model_due(const struct arbiter *a, const struct model *model);
bool model_stirs(const struct model *model);

/*
 * A failed load (never_ready: the file or the flags are wrong) or the death of a
 * ready engine: back off. Who waits is told `fail` where waiting on is in vain.
 */
void model_load_failed(struct arbiter *a, struct model *model, bool never_ready, enum fail fail);
void model_crashed(struct arbiter *a, struct model *model);
/* It went because memory was short: back by itself after a while, longer each time that nobody had used it. */
void model_squeezed(const struct arbiter *a, struct model *model);

/* Reject everything that waits for it, one unit of work each. */
void model_purge(struct arbiter *a, struct model *model, enum fail fail);
/* Its instance is gone: without autoload nobody may wait for a load that no one asked for. */
void model_strand(struct arbiter *a, struct model *model);

#endif
