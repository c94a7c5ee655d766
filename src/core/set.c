#include "core/set.h"

#include "core/decide.h"
#include "core/footprint.h"
#include "core/instance.h"
#include "core/model.h"

bool set_mates(const struct model *x, const struct model *y)
{
	return x != y && x->mate && y->mate && x->spec.set == y->spec.set;
}

static bool is_member(const struct model *model, uint32_t set)
{
	return set && model->spec.set == set;
}

void set_link(struct arbiter *a, uint32_t set)
{
	struct model *first = NULL, *last = NULL;

	for (uint32_t i = 0; i < a->models_used; i++) {
		struct model *model = model_row(a, i);
		if (!is_member(model, set))
			continue;
		model->mate = 0;
		if (!model->present)
			continue;
		if (last)
			last->mate = i + 1;
		first = first ? first : model;
		last = model;
	}
	if (first != last)
		last->mate = model_index(a, first) + 1;
	for (uint32_t i = 0; i < a->models_used; i++)
		if (is_member(model_row(a, i), set))
			model_refresh(a, model_row(a, i));
}

static bool is_unmeasured(const struct model *model)
{
	return model->spec.flags & MODEL_MEASURE_FIRST && !model->learned.loads;
}

/* Would it come along with a load of another of its set? */
static bool comes_along(const struct arbiter *a, const struct model *mate)
{
	return !mate->instance && !model_backing_off(a, mate) && !is_unmeasured(mate) &&
	       !model_outside(mate) && !a->shutdown;
}

void set_want(const struct arbiter *a, struct want *want)
{
	if (want->measures)
		return;
	SET_MATES(a, want->model, mate) {
		if (!comes_along(a, mate))
			continue;
		struct amount need = footprint_peak(a, mate, footprint_expects(mate));
		struct amount sigma = footprint_sigma(a, mate);
		struct amount lower = model_lower(mate);
		amount_add(&want->need, &need);
		amount_add(&want->sigma, &sigma);
		amount_add(&want->lower, &lower);
	}
}

void set_load(struct arbiter *a, const struct model *model, const struct verdict *verdict)
{
	SET_MATES(a, model, mate) {
		if (!comes_along(a, mate) || instance_table_full(a))
			continue;
		struct decision decision = decision_about(a, DECISION_LOAD, REASON_SET, mate);
		struct amount peak = footprint_peak(a, mate, footprint_expects(mate));
		struct amount sigma = footprint_sigma(a, mate);
		struct outlook now; /* with what was claimed for those before it */
		outlook_now(a, &now);
		struct verdict own = outlook_weigh(a, &now, &peak, NULL);
		own.binds = verdict->binds;
		decision_weighed(a, &decision, &own);
		decision.for_model = model_index(a, model);
		decision.need_bytes = amount_total(&peak);
		decision.instance = a->instance_sequence + 1;
		decision_record(a, &decision);
		instance_open(a, mate, &peak, &sigma);
	}
}

void set_used(struct arbiter *a, const struct model *model)
{
	SET_MATES(a, model, mate) {
		mate->last_used_at = a->now;
		mate->rests = 0;
		model_refresh(a, mate);
	}
}

bool set_holds(const struct arbiter *a, const struct model *model, bool idle)
{
	SET_MATES(a, model, mate) {
		const struct instance *instance = model_instance(a, mate);
		if (!instance || instance->state >= INSTANCE_STOPPING || model_outside(mate))
			continue;
		bool waits = mate->queue.count && instance->state != INSTANCE_DRAINING;
		if (model_pinned(mate) || instance->state == INSTANCE_LOADING ||
		    (idle && (instance_busy(instance) || waits)))
			return true;
	}
	return false;
}

bool set_pinned(const struct arbiter *a, const struct model *model)
{
	SET_MATES(a, model, mate)
		if (model_resident(a, mate) && model_pinned(mate) && !model_outside(mate))
			return true;
	return model_pinned(model);
}

bool set_calls(const struct arbiter *a, const struct model *model)
{
	if (model->instance || model->rests || is_unmeasured(model) || a->shutdown)
		return false;
	SET_MATES(a, model, mate) {
		const struct instance *instance = model_instance(a, mate);
		if (instance && instance->state == INSTANCE_READY)
			return true;
	}
	return false;
}

static bool draws_others(const struct instance *instance)
{
	enum reason reason = (enum reason)instance->stop_reason;

	return instance->state >= INSTANCE_STOPPING &&
	       (reason == REASON_ROOM || reason == REASON_IDLE || reason == REASON_OPERATOR ||
	        reason == REASON_PRESSURE);
}

static void follow(struct arbiter *a, struct instance *instance, const struct instance *leader)
{
	struct decision decision = decision_about(a, DECISION_UNLOAD, REASON_SET,
	                                          model_row(a, instance->model));
	bool loading = instance->state == INSTANCE_LOADING;

	decision.for_model = leader->model;
	decision.idle_us = a->now - model_row(a, instance->model)->last_used_at;
	decision_record(a, &decision);
	a->counters.unloads++;
	instance_end(a, instance, loading ? ACTION_ABORT_LOAD : ACTION_STOP,
	             (enum reason)leader->stop_reason);
}

bool set_follow(struct arbiter *a)
{
	INSTANCES_APART(a, leader) {
		const struct model *model = model_row(a, leader->model);
		if (!model->mate || !draws_others(leader))
			continue;
		SET_MATES(a, model, mate) {
			struct instance *instance = model_instance(a, mate);
			if (!instance || instance->state >= INSTANCE_STOPPING || model_pinned(mate) ||
			    instance_busy(instance) || mate->queue.count || mate->unloads.count)
				continue;
			mate->preload = 0;
			follow(a, instance, leader);
			return true;
		}
	}
	return false;
}
