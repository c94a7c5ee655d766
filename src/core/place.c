#include "core/place.h"

#include "core/decide.h"
#include "core/footprint.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/policy.h"
#include "core/regret.h"
#include "core/request.h"
#include "core/set.h"

enum { ALONE_AFTER_US = 300000000 }; /* until then even one who is alone waits for others' use to fall */

/* Who loads alone to be measured does so without his mates, too. */
bool place_stays(const struct arbiter *a, const struct want *want, const struct instance *instance)
{
	const struct model *model = model_row(a, instance->model);

	return set_pinned(a, model) || (!want->measures && set_mates(model, want->model));
}

/* One that leaves is not beside it; nor, for a request, one that runs something: its end is waited for. */
static bool may_go(const struct arbiter *a, const struct want *want, const struct instance *instance)
{
	bool moves = instance->state == INSTANCE_LOADING || instance_busy(instance) || instance_settles(instance);

	return model_row(a, instance->model) == want->model || instance->state >= INSTANCE_STOPPING ||
	       (want->instance && moves) || !place_stays(a, want, instance);
}

bool place_is_sole(const struct arbiter *a, const struct want *want, const struct outlook *outlook)
{
	/* Of those that may go, so many are already gone in that account. */
	int64_t gone = (int64_t)a->instances_live - outlook->holders + (want->instance ? 1 : 0);
	int64_t going = 0;

	if (want->beside_all)
		return true;
	INSTANCES_LIVE(a, i)
		if (may_go(a, want, i) && ++going > gone)
			return false;
	return going <= gone;
}

/* What a start adds to what its instance holds. */
static struct amount start_need(const struct arbiter *a, const struct model *model,
                                const struct instance *instance, const struct request *request)
{
	struct amount held = ledger_held_by(instance);
	struct amount nothing = { 0 };

	if (!policy_ops((enum policy)a->machine.policy)->learns && !kept_applies(model))
		return request->spec.need;
	struct amount after = instance_claim_with(a, instance, &request->spec.need);
	amount_subtract(&after, &held);
	return amount_max(&after, &nothing);
}

struct want place_want(const struct arbiter *a, struct model *model, struct request *head)
{
	bool learns = policy_ops((enum policy)a->machine.policy)->learns;
	struct want want = {
		.model = model,
		.instance = model_instance(a, model),
		.head = head,
		.may_evict = model->evictors > 0,
	};

	want.measures = !want.instance && model->spec.flags & MODEL_MEASURE_FIRST && !model->learned.loads;
	if (want.instance) {
		want.need = start_need(a, model, want.instance, head);
		bool patient = learns && model->habit.samples &&
		               a->now - head->arrived_at < ALONE_AFTER_US;
		/* As measured: no less will do. More KV than there is room for would be taken page by page, to the end. */
		if (patient || kept_applies(model))
			want.lower = want.need;
		return want;
	}
	want.need = footprint_peak(a, model, footprint_expects(model));
	want.sigma = footprint_sigma(a, model);
	/* What a load that never came to its end was seen to take is known by no idle sample. */
	bool seen_loading = learns && model->habit.samples && !model->learned.loads;
	want.lower = seen_loading ? footprint_base(a, model) : model_lower(model);
	if (kept_applies(model) && head)
		amount_add(&want.lower, &head->spec.need);
	want.own_need = want.need;
	want.own_sigma = want.sigma;
	set_want(a, &want);
	return want;
}

bool place_admits(const struct arbiter *a, const struct want *want, const struct outlook *outlook,
                  struct verdict *out)
{
	uint32_t others = outlook->holders - (want->instance ? 1 : 0);

	if (want->measures && !place_is_sole(a, want, outlook)) {
		*out = (struct verdict){ .binds = REASON_MEASURE_FIRST };
		return false;
	}
	*out = outlook_weigh(a, outlook, &want->need, &want->sigma);
	if (out->fits || (want->instance && (instance_busy(want->instance) || instance_settles(want->instance))) ||
	    !place_is_sole(a, want, outlook))
		return out->fits;

	/* For those that stay the margin is kept that everybody keeps. */
	static const struct amount sure = { 0 };
	struct verdict least = outlook_weigh(a, outlook, &want->lower, others ? &sure : NULL);
	if (!least.fits) {
		*out = least;
		return false;
	}
	*out = outlook_weigh(a, outlook, &want->need, NULL);
	out->fits = true;
	out->alone = true;
	return true;
}

struct instance *place_idle(const struct arbiter *a, bool with_queue, bool pinned_too)
{
	const struct policy_ops *policy = policy_ops((enum policy)a->machine.policy);
	struct instance *first = NULL;

	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		bool ready = i->state == INSTANCE_READY || i->state == INSTANCE_DRAINING;
		if (!ready || instance_busy(i) || i->clearing || (model->queue.count && !with_queue) ||
		    (model_pinned(model) && !pinned_too) || model_outside(model))
			continue;
		if (!first || policy->leaves_before(a, i, first))
			first = i;
	}
	return first;
}

void place_evict(struct arbiter *a, const struct want *want, struct instance *victim,
                 enum reason reason, const struct verdict *verdict)
{
	struct model *model = model_row(a, victim->model);
	struct decision decision = decision_about(a, DECISION_EVICT, reason, model);

	decision_weighed(a, &decision, verdict);
	decision.for_model = want->model ? model_index(a, want->model) : MODEL_NONE;
	decision.request = want->head ? want->head->spec.sequence : 0;
	decision.idle_us = a->now - model->last_used_at;
	regret_tell(a, model, want->model, &decision);
	decision_record(a, &decision);
	a->counters.evictions++;
	a->counters.unserved += reason != REASON_PRESSURE && !victim->served && model->queue.count;
	bool loading = victim->state == INSTANCE_LOADING;
	instance_end(a, victim, loading ? ACTION_ABORT_LOAD : ACTION_STOP,
	             reason == REASON_PRESSURE ? REASON_PRESSURE : REASON_ROOM);
}

void place_drain(struct arbiter *a, const struct want *want, struct instance *victim,
                 const struct verdict *verdict)
{
	struct model *model = model_row(a, victim->model);
	struct decision decision = decision_about(a, DECISION_DRAIN, REASON_OVERDUE, model);

	decision_weighed(a, &decision, verdict);
	decision.for_model = model_index(a, want->model);
	decision.request = want->head->spec.sequence;
	decision.wait_us = a->now - want->head->arrived_at;
	regret_tell(a, model, want->model, &decision);
	decision_record(a, &decision);
	instance_drain(a, victim, REASON_OVERDUE, want->model);
}

/* ---- loads ---- */

static bool same_kind_loads(const struct arbiter *a, const struct model *model)
{
	INSTANCES_APART(a, i) {
		const struct model_spec *other = &model_row(a, i->model)->spec;
		if (i->state == INSTANCE_LOADING && other->flags & MODEL_SERIAL_LOAD &&
		    other->engine_kind == model->spec.engine_kind)
			return true;
	}
	return false;
}

/* Why no load of it may start now, whatever the room. */
enum reason place_load_gate(const struct arbiter *a, const struct model *model)
{
	uint32_t loads_max = a->machine.loads_max ? (uint32_t)a->machine.loads_max : 2;

	if (!a->machine_known)
		return REASON_CAPACITY;
	if (a->blind)
		return REASON_BLIND;
	if (a->pressure != PRESSURE_NONE || a->now < a->calm_at)
		return REASON_PRESSURE;
	if (a->measuring)
		return REASON_MEASURE_FIRST;
	if (model->spec.flags & MODEL_RESERVATION)
		return REASON_NONE;
	if (a->loading >= loads_max)
		return REASON_LOADING;
	if (model->spec.flags & MODEL_SERIAL_LOAD && same_kind_loads(a, model))
		return REASON_LOADING;
	return instance_table_full(a) ? REASON_SLOTS : REASON_NONE;
}

/* Who asks for it: a request, a command, what a reload ended, its own preload, or its set. */
static enum reason load_reason(const struct model *model, const struct request *head)
{
	if (head)
		return head->spec.kind == REQUEST_LOAD ? REASON_OPERATOR : REASON_REQUEST;
	if (model->renewing)
		return REASON_CONFIG;
	return model->preload ? REASON_PRELOAD : REASON_SET;
}

void place_start_load(struct arbiter *a, const struct want *want, const struct verdict *verdict)
{
	enum reason reason = load_reason(want->model, want->head);

	if (verdict->alone)
		reason = REASON_ALONE;
	struct decision decision = decision_about(a, DECISION_LOAD, reason, want->model);
	decision_weighed(a, &decision, verdict);
	decision.request = want->head ? want->head->spec.sequence : 0;
	decision.wait_us = want->head ? a->now - want->head->arrived_at : 0;
	decision.instance = a->instance_sequence + 1;
	decision_record(a, &decision);
	instance_open(a, want->model, &want->own_need, &want->own_sigma);
	model_instance(a, want->model)->alone = verdict->alone;
	if (!want->measures && !verdict->alone)
		set_load(a, want->model, verdict);
}

bool place_wants_load(const struct arbiter *a, const struct model *model)
{
	bool by_itself = a->now >= model->back_at && (model->preload || set_calls(a, model));

	return !model->instance && !model_backing_off(a, model) && !model_outside(model) &&
	       (model->queue.count || by_itself);
}

bool place_wants_dispatch(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	return instance && instance->state == INSTANCE_READY && model->queue.count &&
	       instance_has_slot(instance);
}

bool place_attach(struct arbiter *a)
{
	const struct amount nothing = { 0 };

	if (!a->outside || a->shutdown || instance_table_full(a))
		return false;
	MODELS_STIRRING(a, model) {
		const struct request *head = model_head(a, model);
		if (!model_outside(model) || model->instance || !(head || model->preload) ||
		    model_backing_off(a, model))
			continue;
		struct decision decision =
			decision_about(a, DECISION_LOAD, load_reason(model, head), model);
		decision.request = head ? head->spec.sequence : 0;
		decision.instance = a->instance_sequence + 1;
		decision_record(a, &decision);
		instance_open(a, model, &nothing, &nothing);
		return true;
	}
	return false;
}
