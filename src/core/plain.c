#include "core/plain.h"

#include "core/decide.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/place.h"
#include "core/policy.h"
#include "core/prospect.h"
#include "core/regret.h"
#include "core/relief.h"
#include "core/request.h"
#include "core/set.h"

enum {
	WANTS_MAX = 64,          /* looked at in one unit; those behind wait for these */
	RESIDENCE_US = 10000000, /* a busy model that was just loaded is not drained again at once */
};

/* ---- dispatch ---- */

static struct want want_of(const struct arbiter *a, struct model *model)
{
	return place_want(a, model, model_head(a, model));
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

bool plain_dispatch(struct arbiter *a)
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

/* `still`: nothing moves, so those that run nothing may go though requests wait for them. */
static enum candidate candidate(const struct arbiter *a, const struct want *want,
                                const struct instance *instance, bool still)
{
	const struct model *model = model_row(a, instance->model);

	if (model == want->model || model_pinned(model) || instance->state >= INSTANCE_STOPPING || instance->clearing ||
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
	bool still = instances_still(a);
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
	if (prospect_refuse(a, want, coming))
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

bool plain_undrain(struct arbiter *a)
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

bool plain_place(struct arbiter *a)
{
	struct outlook now, coming = outlook_coming(a);
	struct amount reserved = { 0 };
	struct model *model = next_waiting(a, NULL);
	bool blocked = false; /* somebody waits for room */
	bool kept = false;    /* ... and what comes free is his */

	if (!model)
		return false;
	outlook_now(a, &now);

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
