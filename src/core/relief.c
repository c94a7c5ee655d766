#include "core/relief.h"

#include "core/decide.h"
#include "core/habit.h"
#include "core/held.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/outbox.h"

enum {
	AGAIN_AFTER_US = 30000000,  /* one that could not be cleared is left alone for this long */
};

static bool may_clear(const struct arbiter *a, const struct instance *instance, const struct model *wants)
{
	const struct model *model = model_row(a, instance->model);

	return instance->state == INSTANCE_READY && !instance_busy(instance) && !instance_settles(instance) &&
	       instance->kept.total_bytes >= RELIEF_LEAST_BYTES && a->now >= instance->clear_not_before &&
	       (!model->queue.count || model == wants);
}

/* Of a byte: what giving it up is expected to cost. */
static double value(const struct arbiter *a, const struct instance *instance)
{
	double weight = habit_class_weight(model_row(a, instance->model));

	return weight * (held_prefill_s(a, instance) + 1e-6) / (double)instance->kept.total_bytes;
}

static struct instance *least_valuable(const struct arbiter *a, const struct model *wants)
{
	struct instance *least = NULL;

	INSTANCES_LIVE(a, i)
		if (may_clear(a, i, wants) && (!least || value(a, i) < value(a, least)))
			least = i;
	return least;
}

static void clear(struct arbiter *a, struct instance *instance, enum reason reason, const struct model *wants)
{
	struct model *model = model_row(a, instance->model);
	struct decision decision = decision_about(a, DECISION_SHRINK, reason, model);

	decision.measured_bytes = instance->kept.total_bytes;
	decision.for_model = wants ? model_index(a, wants) : MODEL_NONE;
	decision.idle_us = a->now - model->last_used_at;
	decision_record(a, &decision);
	instance->clearing = 1;
	struct action action = {
		.type = ACTION_DISCARD,
		.model = instance->model,
		.instance = instance_id(a, instance),
		.request = ID_NONE,
		.reason = reason,
		.instance_sequence = instance->sequence,
	};
	outbox_put(a, &action);
	model_refresh(a, model);
}

static void give_back(struct outlook *outlook, const struct instance *instance)
{
	outlook->held.bytes[0][USE_HOST] -= instance->kept.total_bytes;
}

/* What it goes on with would be gone as well: all that it needs is to be found then. */
static struct want want_anew(const struct arbiter *a, const struct want *want)
{
	struct want anew = *want;
	struct amount held = ledger_held_by(want->instance), none = { 0 };

	held.bytes[0][USE_HOST] -= want->instance->kept.total_bytes;
	anew.need = instance_claim_cleared(a, want->instance, &want->head->spec.need);
	amount_subtract(&anew.need, &held);
	anew.need = amount_max(&anew.need, &none);
	if (amount_total(&want->lower))
		anew.lower = anew.need;
	return anew;
}

enum relief relief_for(struct arbiter *a, const struct want *want, const struct outlook *coming)
{
	struct outlook going = *coming;
	struct want then = *want;
	struct verdict verdict;
	bool any = false;

	if (!a->kept_ever)
		return RELIEF_NONE;
	INSTANCES_LIVE(a, i)
		if (i->clearing && i->state == INSTANCE_READY)
			give_back(&going, i);
	if (relief_is_coming(a) && place_admits(a, want, &going, &verdict))
		return RELIEF_WAIT;
	INSTANCES_LIVE(a, i) {
		if (!may_clear(a, i, want->model))
			continue;
		give_back(&going, i);
		if (i == want->instance)
			then = want_anew(a, want);
		any = true;
	}
	if (!any || !place_admits(a, &then, &going, &verdict))
		return RELIEF_NONE;
	clear(a, least_valuable(a, want->model), REASON_ROOM, want->model);
	return RELIEF_DONE;
}

bool relief_under_pressure(struct arbiter *a)
{
	struct instance *least = least_valuable(a, NULL);

	if (least)
		clear(a, least, REASON_PRESSURE, NULL);
	return least != NULL;
}

bool relief_is_coming(const struct arbiter *a)
{
	INSTANCES_LIVE(a, i)
		if (i->clearing && i->state == INSTANCE_READY)
			return true;
	return false;
}

void relief_erased(struct arbiter *a, struct instance *instance, bool failed)
{
	instance->clearing = 0;
	if (failed) {
		instance->clear_not_before = a->now + AGAIN_AFTER_US;
	} else {
		/* The pages went before the answer: the next sample will say the same. */
		ledger_given_back(a, instance, instance->kept.total_bytes);
		kept_clear(instance);
		held_forget(instance);
	}
	instance_reclaim(a, instance);
	model_refresh(a, model_row(a, instance->model));
}
