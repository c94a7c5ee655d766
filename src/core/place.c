#include "core/place.h"

#include <assert.h>

#include "core/decide.h"
#include "core/habit.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/policy.h"
#include "core/regret.h"
#include "core/relief.h"
#include "core/request.h"
#include "core/set.h"

#define SECOND INT64_C(1000000)

enum {
	WANTS_MAX = 64,          /* looked at in one unit; those behind wait for these */
	GRACE_US = 10000000,     /* how long foreign use that does not fall may keep a request from all hope */
	NO_ROOM_RETRY_US = 10000000,
	PRESSED_US = 60000000,   /* so long a request waits for memory that is short for all */
	ALONE_AFTER_US = 300000000, /* until then even one who is alone waits for others' use to fall */
	RESIDENCE_US = 10000000, /* a busy model that was just loaded is not drained again at once */
};

static bool is_leaving(const struct instance *instance)
{
	return instance->state >= INSTANCE_STOPPING;
}

static uint32_t pinned_holders(const struct arbiter *a, const struct model *except)
{
	uint32_t pinned = 0;

	INSTANCES_LIVE(a, i)
		pinned += model_row(a, i->model) != except && model_pinned(model_row(a, i->model));
	return pinned;
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

	if (want.instance) {
		want.need = start_need(a, model, want.instance, head);
		bool patient = learns && model->habit.samples &&
		               a->now - head->arrived_at < ALONE_AFTER_US;
		/* As measured: no less will do. More KV than there is room for would be taken page by page, to the end. */
		if (patient || kept_applies(model))
			want.lower = want.need;
		return want;
	}
	want.need = habit_peak(a, model, habit_expects(model));
	want.sigma = habit_sigma(a, model);
	want.lower = learns && model->habit.samples ? habit_base(a, model) : model_lower(model);
	if (kept_applies(model) && head)
		amount_add(&want.lower, &head->spec.need);
	want.measures = model->spec.flags & MODEL_MEASURE_FIRST && !model->learned.loads;
	if (want.measures)
		want.pinned = pinned_holders(a, model);
	want.own_need = want.need;
	want.own_sigma = want.sigma;
	set_want(a, &want);
	return want;
}

static struct want want_of(const struct arbiter *a, struct model *model)
{
	return place_want(a, model, model_head(a, model));
}

bool place_admits(const struct arbiter *a, const struct want *want, const struct outlook *outlook,
                  struct verdict *out)
{
	uint32_t others = outlook->holders - (want->instance ? 1 : 0);

	if (want->measures && others > want->pinned) {
		*out = (struct verdict){ .binds = REASON_MEASURE_FIRST };
		return false;
	}
	*out = outlook_weigh(a, outlook, &want->need, &want->sigma);
	if (out->fits || others ||
	    (want->instance && (instance_busy(want->instance) || instance_settles(want->instance))))
		return out->fits;

	struct verdict least = outlook_weigh(a, outlook, &want->lower, NULL);
	if (!least.fits) {
		*out = least;
		return false;
	}
	*out = outlook_weigh(a, outlook, &want->need, NULL);
	out->fits = true;
	out->alone = true;
	return true;
}

/* The least that it takes while one of this need runs. */
static struct amount least_of(const struct model *model, const struct amount *need)
{
	struct amount lower = model_lower(model);

	if (!kept_applies(model))
		return lower;
	lower = amount_max(&lower, &model->least);
	amount_add(&lower, need ? need : &model->hopeless);
	return lower;
}

bool place_never(const struct arbiter *a, const struct model *model, const struct amount *need,
                 struct verdict *out)
{
	struct outlook outlook;
	struct amount lower = least_of(model, need);

	outlook_empty(a, &outlook);
	SET_MATES(a, model, mate) {
		struct amount more = model_lower(mate);
		amount_add(&lower, &more);
	}
	INSTANCES_LIVE(a, i) {
		const struct model *other = model_row(a, i->model);
		if (model_pinned(other) && other != model && !set_mates(model, other))
			outlook_restore(&outlook, i);
	}
	*out = outlook_weigh(a, &outlook, &lower, NULL);
	return !out->fits;
}

/* ---- dispatch ---- */

bool place_wants_dispatch(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	return instance && instance->state == INSTANCE_READY && model->queue.count &&
	       instance_has_slot(instance);
}

static bool may_run(const struct arbiter *a, struct model *model)
{
	struct want want = want_of(a, model);
	struct outlook now;
	struct verdict verdict;

	if (amount_total(&want.need) == 0)
		return true;
	outlook_now(a, &now);
	return place_admits(a, &want, &now, &verdict);
}

bool place_dispatch(struct arbiter *a)
{
	const struct policy_ops *policy = policy_ops((enum policy)a->machine.policy);
	struct model *first = NULL;

	MODELS_STIRRING(a, model) {
		struct instance *instance = model_instance(a, model);
		struct request *head = model_head(a, model);

		if (head && head->spec.kind == REQUEST_LOAD && instance &&
		    instance->state == INSTANCE_READY) {
			request_done(a, head);
			return true;
		}
		if (!place_wants_dispatch(a, model) || (first && !policy->serves_before(a, model, first)))
			continue;
		if (may_run(a, model))
			first = model;
	}
	if (!first)
		return false;
	request_dispatch(a, model_instance(a, first), model_head(a, first));
	return true;
}

/* ---- victims ---- */

enum candidate {
	MAY_NOT_GO,
	MAY_GO,          /* runs nothing, nobody waits for it */
	MAY_BE_DRAINED,
};

/* Nothing moves: then those that run nothing may go though requests wait for them. */
static bool is_still(const struct arbiter *a)
{
	INSTANCES_LIVE(a, i)
		if (i->state == INSTANCE_LOADING || is_leaving(i) || instance_busy(i) || instance_settles(i))
			return false;
	return true;
}

static enum candidate candidate(const struct arbiter *a, const struct want *want,
                                const struct instance *instance, bool still)
{
	const struct model *model = model_row(a, instance->model);

	if (model == want->model || model_pinned(model) || is_leaving(instance) || instance->clearing ||
	    (!want->measures && set_mates(model, want->model)) || set_holds(a, model, false))
		return MAY_NOT_GO;
	if (instance->state == INSTANCE_LOADING)
		return model->queue.count ? MAY_NOT_GO : MAY_GO;
	if (instance_busy(instance)) {
		int64_t residence = 2 * model->last_load_us;
		if (residence < RESIDENCE_US)
			residence = RESIDENCE_US;
		bool settled = a->now - instance->ready_at >= residence &&
		               a->now >= instance->drain_not_before;
		bool drains = instance->state == INSTANCE_DRAINING;
		return settled || drains ? MAY_BE_DRAINED : MAY_NOT_GO;
	}
	if (instance->state == INSTANCE_DRAINING || !model->queue.count || still)
		return set_holds(a, model, true) ? MAY_BE_DRAINED : MAY_GO;
	return a->now >= instance->drain_not_before ? MAY_BE_DRAINED : MAY_NOT_GO;
}

struct victims {
	uint32_t count;
	struct instance *instance[PLAN_VICTIMS_MAX];
};

static bool chosen(const struct victims *victims, const struct instance *instance)
{
	for (uint32_t i = 0; i < victims->count; i++)
		if (victims->instance[i] == instance)
			return true;
	return false;
}

/* The next to go: idle ones first, then, where asked for, those to be drained. */
static struct instance *next_victim(const struct arbiter *a, const struct want *want, bool drain,
                                    const struct victims *victims)
{
	const struct policy_ops *policy = policy_ops((enum policy)a->machine.policy);
	bool still = is_still(a);
	struct instance *first = NULL;
	enum candidate first_as = MAY_NOT_GO;

	INSTANCES_LIVE(a, i) {
		enum candidate as = candidate(a, want, i, still);
		if (as == MAY_NOT_GO || (as == MAY_BE_DRAINED && !drain) || chosen(victims, i))
			continue;
		if (first && (as > first_as || (as == first_as && !policy->leaves_before(a, i, first))))
			continue;
		first = i;
		first_as = as;
	}
	return first;
}

/* Drop those without whom the room suffices as well; the last one chosen is needed in any case. */
static void prune(const struct arbiter *a, const struct want *want, struct outlook *outlook,
                  struct victims *victims)
{
	struct verdict verdict;

	for (uint32_t i = victims->count; i-- > 0;) {
		outlook_restore(outlook, victims->instance[i]);
		if (!place_admits(a, want, outlook, &verdict)) {
			outlook_remove(outlook, victims->instance[i]);
			continue;
		}
		for (uint32_t j = i + 1; j < victims->count; j++)
			victims->instance[j - 1] = victims->instance[j];
		victims->count--;
	}
}

/* Victims that make the room suffice, none of them in vain; none: it cannot be made so. */
static struct victims choose_victims(const struct arbiter *a, const struct want *want,
                                     const struct outlook *coming, bool drain)
{
	struct outlook outlook = *coming;
	struct victims victims = { 0 };
	struct verdict verdict;

	while (victims.count < PLAN_VICTIMS_MAX) {
		struct instance *next = next_victim(a, want, drain, &victims);
		if (!next)
			break;
		victims.instance[victims.count++] = next;
		outlook_remove(&outlook, next);
		if (place_admits(a, want, &outlook, &verdict)) {
			prune(a, want, &outlook, &victims);
			return victims;
		}
	}
	victims.count = 0;
	return victims;
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

/* ---- making room ---- */

void place_evict(struct arbiter *a, const struct want *want, struct instance *victim,
                 enum reason reason, const struct verdict *verdict)
{
	struct model *model = model_row(a, victim->model);
	struct amount held = ledger_held_by(victim);
	struct decision decision = decision_about(a, DECISION_EVICT, reason, model);

	decision_weighed(a, &decision, verdict);
	decision.for_model = want->model ? model_index(a, want->model) : MODEL_NONE;
	decision.request = want->head ? want->head->spec.sequence : 0;
	decision.measured_bytes = amount_total(&held);
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

/*
 * It is loaded, and will it ever have room for this one? As it is measured before its first conversation, it
 * will be whenever it is loaded again; so the next who asks for as much is told so without a load.
 */
static bool never_runs(struct arbiter *a, const struct want *want, struct verdict *out)
{
	struct model *model = want->model;
	const struct amount *need = &want->head->spec.need, least = model->least;
	const struct instance *instance = want->instance;
	bool fresh = instance && kept_applies(model) && instance->idle_samples && !instance->served;

	if (fresh)
		model->least = instance->idle;
	bool never = place_never(a, model, need, out);
	if (fresh && !never)
		model->least = least;
	bool first = amount_total(&model->hopeless) == 0;
	if (fresh && never && (first || amount_total(need) < amount_total(&model->hopeless)))
		model->hopeless = *need;
	return never;
}

static void refuse_never(struct arbiter *a, const struct want *want, const struct verdict *verdict)
{
	const struct refusal refusal = {
		.fail = FAIL_NEVER_FITS,
		.reason = verdict->binds,
		.verdict = *verdict,
		.weighed = true,
	};
	struct model *model = want->model;
	struct instance *instance = want->instance;

	request_reject(a, want->head, &refusal);
	/* Who could serve nobody of those who asked is of no use to anybody. */
	if (instance && !instance->served && !instance->by_hand && !model->queue.count && !model->preload &&
	    !model_pinned(model))
		instance_unload(a, instance, ACTION_STOP, verdict->binds);
}

/* An estimate alone does not say that one has no room: it is measured first. */
static bool is_unmeasured(const struct arbiter *a, const struct want *want)
{
	const struct instance *instance = want->instance;

	return instance && kept_applies(want->model) && !instance->idle_samples && !instance->served &&
	       a->now - instance->ready_at < GRACE_US;
}

/* While others' use falls it is waited for as long as for memory that is short for all. */
static bool may_hope(const struct arbiter *a, const struct want *want)
{
	int64_t waited_us = a->now - want->head->arrived_at;

	return waited_us < GRACE_US || (waited_us < PRESSED_US && habit_foreign_falls(a));
}

/* All that may go, gone. */
static void remove_others(const struct arbiter *a, const struct want *want, struct outlook *outlook)
{
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		bool stays = model == want->model || set_pinned(a, model) ||
		             (!want->measures && set_mates(model, want->model));
		if (!is_leaving(i) && !stays)
			outlook_remove(outlook, i);
	}
}

bool place_in_vain(const struct arbiter *a, const struct want *want, const struct outlook *coming,
                   const struct instance *victim)
{
	struct outlook rest = *coming;
	struct verdict verdict;

	remove_others(a, want, &rest);
	/* Who is waited for himself would be back before it is alone. */
	bool returns = model_row(a, victim->model)->queue.count;
	return !place_admits(a, want, &rest, &verdict) || (verdict.alone && returns);
}

/* Nothing that may go would help: at once where only pins are in the way, later where others' use is. */
bool place_refuse_hopeless(struct arbiter *a, const struct want *want, const struct outlook *coming)
{
	struct outlook rest = *coming;
	struct verdict verdict;
	struct refusal refusal = {
		.fail = FAIL_NO_ROOM,
		.reason = REASON_PINS,
		.retry_after_us = NO_ROOM_RETRY_US,
		.weighed = true,
	};

	if ((!want->instance || kept_applies(want->model)) && never_runs(a, want, &refusal.verdict)) {
		refuse_never(a, want, &refusal.verdict);
		return true;
	}
	if (is_unmeasured(a, want))
		return false;
	remove_others(a, want, &rest);
	if (want->instance && (instance_busy(want->instance) || instance_settles(want->instance)))
		return false;
	if (want->may_evict && place_admits(a, want, &rest, &refusal.verdict))
		return false;

	if (!want->may_evict) {
		if (!model_overdue(a, want->model))
			return false;
		place_admits(a, want, coming, &refusal.verdict);
		refusal.reason = refusal.verdict.binds;
	} else if (may_hope(a, want)) {
		outlook_at_baseline(a, &rest);
		if (place_admits(a, want, &rest, &verdict))
			return false;
	}
	if (want->instance)
		habit_doubt(want->model);
	request_reject(a, want->head, &refusal);
	return true;
}

bool place_refuse_pressed(struct arbiter *a)
{
	const struct refusal refusal = {
		.fail = FAIL_NO_ROOM,
		.reason = REASON_PRESSURE,
		.retry_after_us = NO_ROOM_RETRY_US,
	};

	if (a->pressure == PRESSURE_NONE)
		return false;
	INSTANCES_LIVE(a, i)
		if (i->state == INSTANCE_LOADING || is_leaving(i) || instance_busy(i) ||
		    !set_pinned(a, model_row(a, i->model)))
			return false;
	MODELS_STIRRING(a, model) {
		struct request *head = model_head(a, model);
		if (model->instance || !head || a->now - head->arrived_at < PRESSED_US)
			continue;
		request_reject(a, head, &refusal);
		return true;
	}
	return false;
}

/* For one that is blocked: true where something was done. */
static bool make_room(struct arbiter *a, const struct want *want, const struct outlook *coming)
{
	struct victims victims = { 0 };
	struct verdict verdict;

	place_admits(a, want, coming, &verdict);
	enum relief relief = relief_for(a, want, coming);
	if (relief != RELIEF_NONE)
		return relief == RELIEF_DONE;
	if (want->may_evict)
		victims = choose_victims(a, want, coming, false);
	if (victims.count) {
		place_evict(a, want, victims.instance[0], REASON_LEAST_RECENT, &verdict);
		return true;
	}
	if (place_refuse_hopeless(a, want, coming))
		return true;
	if (!want->may_evict || !model_overdue(a, want->model))
		return false;
	victims = choose_victims(a, want, coming, true);
	for (uint32_t i = 0; i < victims.count; i++) {
		struct instance *victim = victims.instance[i];
		if (victim->state != INSTANCE_READY)
			continue;
		if (!instance_busy(victim) && !model_row(a, victim->model)->queue.count)
			continue; /* idle: it goes when the busy ones have drained */
		place_drain(a, want, victim, &verdict);
		return true;
	}
	return false;
}

bool place_undrain(struct arbiter *a)
{
	INSTANCES_APART(a, i) {
		if (i->state != INSTANCE_DRAINING || !i->drain_for)
			continue;
		const struct model *target = model_row(a, i->drain_for - 1);
		const struct instance *resident = model_instance(a, target);
		bool waits = model_overdue(a, target) && (!resident || place_wants_dispatch(a, target));
		if (waits)
			continue;
		struct model *model = model_row(a, i->model);
		struct decision decision =
			decision_about(a, DECISION_DRAIN_END, REASON_NONE, model);
		decision.for_model = i->drain_for - 1;
		decision.wait_us = a->now - i->drain_at;
		instance_serve(a, i);
		i->drain_not_before = 0; /* it was not given up, it is no longer needed */
		decision_record(a, &decision);
		return true;
	}
	return false;
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
	return !model->instance && !model_backing_off(a, model) && !model_outside(model) &&
	       (model->queue.count || model->preload || set_calls(a, model));
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

/* The next waiting model after `last` in the policy's order. */
static struct model *next_waiting(const struct arbiter *a, const struct model *last)
{
	const struct policy_ops *policy = policy_ops((enum policy)a->machine.policy);
	struct model *first = NULL;

	MODELS_STIRRING(a, model) {
		if (!place_wants_load(a, model) && !place_wants_dispatch(a, model))
			continue;
		if (last && !policy->serves_before(a, last, model))
			continue;
		if (!first || policy->serves_before(a, model, first))
			first = model;
	}
	return first;
}

/* Fits now, and also beside what is on its way to those before it. */
static bool fits_behind(const struct arbiter *a, const struct want *want,
                        const struct outlook *now, const struct outlook *coming,
                        const struct amount *reserved, struct verdict *verdict)
{
	if (!place_admits(a, want, now, verdict))
		return false;
	if (amount_total(reserved) == 0)
		return true;

	struct want both = *want;
	struct verdict beside;
	amount_add(&both.need, reserved);
	return outlook_weigh(a, coming, &both.need, &both.sigma).fits &&
	       place_admits(a, want, coming, &beside);
}

bool place_one(struct arbiter *a)
{
	struct outlook now, coming;
	struct amount reserved = { 0 };
	struct model *model = next_waiting(a, NULL);
	bool blocked = false; /* somebody waits for room */
	bool kept = false;    /* ... and what comes free is his */

	if (!model)
		return false;
	outlook_now(a, &now);
	coming = now;
	INSTANCES_APART(a, i)
		if (is_leaving(i))
			outlook_remove(&coming, i);

	for (uint32_t n = 0; model && n < WANTS_MAX; n++, model = next_waiting(a, model)) {
		enum reason gate = model->instance ? REASON_NONE : place_load_gate(a, model);
		model->wait_reason = gate;
		if (gate != REASON_NONE)
			continue;

		struct want want = want_of(a, model);
		struct verdict verdict;
		if (!want.head && blocked)
			continue; /* unasked for: not while somebody waits for room */
		if (fits_behind(a, &want, &now, &coming, &reserved, &verdict)) {
			if (want.instance)
				continue; /* a dispatch that fits was sent before */
			place_start_load(a, &want, &verdict);
			return true;
		}
		model->wait_reason = verdict.fits ? REASON_ROOM : verdict.binds;
		model->wait_pool = verdict.pool;
		if (!want.head)
			continue;
		blocked = true;
		if (place_admits(a, &want, &coming, &verdict)) {
			model->wait_reason = REASON_UNLOADING;
			amount_add(&reserved, &want.need);
			kept = true;
			continue;
		}
		if (!kept && make_room(a, &want, &coming))
			return true;
		if (model_overdue(a, model)) {
			amount_add(&reserved, &want.need);
			kept = true;
		}
	}
	return false;
}
