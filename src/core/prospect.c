#include "core/prospect.h"

#include "core/footprint.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/request.h"
#include "core/set.h"

enum {
	GRACE_US = 10000000,     /* how long foreign use that does not fall may keep a request from all hope */
	NO_ROOM_RETRY_US = 10000000,
	PRESSED_US = 60000000,   /* so long a request waits for memory that is short for all */
	BLIND_US = 10000000,     /* ... for an account that is old */
};

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

bool prospect_never(const struct arbiter *a, const struct model *model, const struct amount *need,
                    struct verdict *out)
{
	struct outlook outlook;
	struct amount lower = least_of(model, need);

	outlook_empty(a, &outlook);
	SET_MATES(a, model, mate) {
		struct amount more = model_lower(mate);
		amount_add(&lower, &more);
	}
	/* A pin is for good, what its requests and conversations take is not; nor is a server of somebody else. */
	INSTANCES_LIVE(a, i) {
		const struct model *other = model_row(a, i->model);
		if (model_pinned(other) && other != model && !set_mates(model, other))
			amount_add(&outlook.held, &i->base);
	}
	*out = outlook_weigh(a, &outlook, &lower, NULL);
	return !out->fits;
}

int64_t prospect_measured(const struct model *model)
{
	int64_t sure = amount_total(&model->learned.sure);

	return sure > amount_total(&model->spec.lower) ? sure : 0;
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
	bool never = prospect_never(a, model, need, out);
	if (fresh && !never)
		model->least = least;
	bool first = amount_total(&model->hopeless) == 0;
	if (fresh && never && (first || amount_total(need) < amount_total(&model->hopeless)))
		model->hopeless = *need;
	return never;
}

/* As it was measured: whoever asks, of whatever length. */
static bool never_at_all(const struct arbiter *a, const struct model *model)
{
	const struct amount nothing = { 0 };
	struct verdict verdict;

	return prospect_measured(model) > 0 && prospect_never(a, model, &nothing, &verdict);
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
	bool of_use = instance && (instance->served || instance->by_hand) && !never_at_all(a, model);
	if (instance && !of_use && !instance_busy(instance) && !model->queue.count && !model->preload &&
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

/* What is in the way may pass; others' use, while it falls, is waited for as long as memory that is short for all. */
static bool may_hope(const struct arbiter *a, const struct want *want)
{
	int64_t waited_us = a->now - want->head->arrived_at;

	return waited_us < GRACE_US || (waited_us < PRESSED_US && footprint_foreign_falls(a));
}

void prospect_clear(const struct arbiter *a, const struct want *want, bool busy, struct outlook *outlook)
{
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		bool waits = instance_busy(i) || model->queue.count;
		if (model == want->model || i->state >= INSTANCE_STOPPING || place_stays(a, want, i) ||
		    (waits && !busy))
			continue;
		outlook_remove(outlook, i);
	}
}

/* What is in the way for now alone is not: others' use above its least, and what runs on those that stay. */
static void come_to_rest(const struct arbiter *a, const struct want *want, struct outlook *outlook)
{
	outlook_at_baseline(a, outlook);
	INSTANCES_LIVE(a, i) {
		bool ends = instance_busy(i) || instance_settles(i);
		if (model_row(a, i->model) == want->model || i->state >= INSTANCE_STOPPING || !ends ||
		    !place_stays(a, want, i))
			continue;
		outlook_remove(outlook, i);
		outlook_add(outlook, &i->base, &i->sigma);
	}
}

bool prospect_in_vain(const struct arbiter *a, const struct want *want, const struct outlook *coming,
                      const struct instance *victim)
{
	struct outlook rest = *coming;
	struct verdict verdict;

	prospect_clear(a, want, true, &rest);
	/* Who is waited for himself would be back before it is alone. */
	bool returns = model_row(a, victim->model)->queue.count;
	return !place_admits(a, want, &rest, &verdict) || (verdict.alone && returns);
}

/*
 * It can only run alone. Who is waited for himself does not go for that (prospect_in_vain), so two such would
 * look at each other for ever: whoever came later gives up, and the other's turn comes.
 */
static bool yields(const struct arbiter *a, const struct want *want, const struct verdict *verdict)
{
	if (!want->instance || !verdict->alone || a->now - want->head->arrived_at < PRESSED_US)
		return false;
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		const struct request *head = model_head(a, model);
		if (model != want->model && i->state < INSTANCE_STOPPING && !place_stays(a, want, i) && head &&
		    request_came_before(head, want->head))
			return true;
	}
	return false;
}

/* Nothing that may go would help: at once where only pins are in the way, later where others' use is. */
bool prospect_refuse(struct arbiter *a, const struct want *want, const struct outlook *coming)
{
	struct outlook rest = *coming;
	struct verdict verdict;
	struct refusal refusal = {
		.fail = FAIL_NO_ROOM,
		.reason = REASON_PINS,
		.retry_after_us = NO_ROOM_RETRY_US,
		.weighed = true,
	};

	bool weighs_all = !want->instance || kept_applies(want->model) || never_at_all(a, want->model);
	if (weighs_all && never_runs(a, want, &refusal.verdict)) {
		refuse_never(a, want, &refusal.verdict);
		return true;
	}
	if (is_unmeasured(a, want))
		return false;
	prospect_clear(a, want, true, &rest);
	if (want->instance && (instance_busy(want->instance) || instance_settles(want->instance)))
		return false;
	if (want->may_evict && place_admits(a, want, &rest, &refusal.verdict) && !yields(a, want, &refusal.verdict))
		return false;

	if (!want->may_evict) {
		if (!model_overdue(a, want->model))
			return false;
		place_admits(a, want, coming, &refusal.verdict);
		refusal.reason = refusal.verdict.binds;
	} else if (may_hope(a, want)) {
		struct want then = *want;
		come_to_rest(a, want, &rest);
		then.beside_all = true;
		if (place_admits(a, &then, &rest, &verdict))
			return false;
	}
	if (want->instance)
		footprint_doubt(want->model);
	request_reject(a, want->head, &refusal);
	return true;
}

bool prospect_refuse_pressed(struct arbiter *a)
{
	const struct refusal refusal = {
		.fail = FAIL_NO_ROOM,
		.reason = REASON_PRESSURE,
		.retry_after_us = NO_ROOM_RETRY_US,
	};

	if (a->pressure == PRESSURE_NONE)
		return false;
	INSTANCES_LIVE(a, i)
		if (i->state == INSTANCE_LOADING || i->state >= INSTANCE_STOPPING || instance_busy(i) ||
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


bool prospect_refuse_blind(struct arbiter *a)
{
	const struct refusal refusal = {
		.fail = FAIL_BLIND,
		.reason = REASON_BLIND,
		.retry_after_us = NO_ROOM_RETRY_US,
	};

	if (!a->blind)
		return false;
	MODELS_STIRRING(a, model) {
		const struct instance *instance = model_instance(a, model);
		struct request *head = model_head(a, model);
		bool needs_load = !model_outside(model) && (!instance || instance->state == INSTANCE_GONE);
		if (!head || !needs_load || a->now - head->arrived_at < BLIND_US)
			continue;
		request_reject(a, head, &refusal);
		return true;
	}
	return false;
}
