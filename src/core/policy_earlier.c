/*
 * threshold, hysteresis, cost-benefit, one-at-a-time - what others do, to compare with.
 *
 * They know one number of each model, the estimate with all its slots taken, and look at the share of
 * memory in use beside it; each has thresholds of its own, as the study defines them. Here they decide
 * within the ledger's admission like everybody: what it refuses they do not load. They have no bound on
 * waiting. So that nobody waits for ever, the plain policy decides where by their rules nothing moves.
 */
#include "core/habit.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/pace.h"
#include "core/place.h"
#include "core/plain.h"
#include "core/policy.h"
#include "core/request.h"
#include "core/start.h"

static const double load_below = 0.70, unload_above = 0.85, fits_below = 0.90, budget = 0.85;
static const double closes_above = 0.90;

/* ---- what they see: the pool of a model ---- */

static double estimate(const struct model *model, uint32_t pool)
{
	return (double)amount_in_pool(&model->spec.base, pool) +
	       (double)model->spec.slots * (double)amount_in_pool(&model->spec.per_request, pool);
}

static double size_of(const struct arbiter *a, uint32_t pool)
{
	return a->capacity[pool] > 0 ? (double)a->capacity[pool] : 1;
}

static double share_used(const struct arbiter *a, uint32_t pool)
{
	return (double)a->unreclaimable[pool] / size_of(a, pool);
}

/* Measured or estimated, whichever is more. */
static double taken(const struct arbiter *a, uint32_t pool)
{
	double estimated = (double)ledger_foreign(a, pool), used = (double)a->unreclaimable[pool];

	INSTANCES_LIVE(a, i)
		estimated += estimate(model_row(a, i->model), pool);
	return used > estimated ? used : estimated;
}

static double leaving(const struct arbiter *a, uint32_t pool)
{
	double bytes = 0;

	INSTANCES_LIVE(a, i)
		if (i->state >= INSTANCE_STOPPING)
			bytes += estimate(model_row(a, i->model), pool);
	return bytes;
}

/* ---- what they do ---- */

static bool evict_longest_unused(struct arbiter *a, const struct want *want)
{
	struct instance *victim = place_idle(a, false, false);
	struct verdict verdict = { .binds = REASON_CAPACITY };

	if (!victim || victim->state != INSTANCE_READY || (want && !want->may_evict))
		return false;
	const struct want nobody = { 0 };
	place_evict(a, want ? want : &nobody, victim, want ? REASON_LEAST_RECENT : REASON_PRESSURE, &verdict);
	return true;
}

static bool load_if_admitted(struct arbiter *a, struct model *model)
{
	struct want want = place_want(a, model, model_head(a, model));
	struct outlook now;
	struct verdict verdict;

	model->wait_reason = place_load_gate(a, model);
	if (model->wait_reason != REASON_NONE)
		return false;
	outlook_now(a, &now);
	bool admitted = place_admits(a, &want, &now, &verdict);
	model->wait_reason = verdict.binds;
	model->wait_pool = verdict.pool;
	if (admitted)
		place_start_load(a, &want, &verdict);
	return admitted;
}

/* The cold model whose head came first after `last`. */
static struct model *next_cold(const struct arbiter *a, const struct model *last)
{
	struct model *first = NULL;

	MODELS_STIRRING(a, model) {
		if (!place_wants_load(a, model) || !model->queue.count ||
		    (last && !policy_lru.serves_before(a, last, model)))
			continue;
		if (!first || policy_lru.serves_before(a, model, first))
			first = model;
	}
	return first;
}

/* A loaded model has no room to run anything: a load would only take more of it. */
static bool start_is_blocked(const struct arbiter *a)
{
	MODELS_STIRRING(a, model)
		if (place_wants_dispatch(a, model) && !instance_busy(model_instance(a, model)))
			return true;
	return false;
}

static uint64_t progress(const struct arbiter *a)
{
	return a->counters.loads + a->counters.dispatches;
}

/*
 * Nothing moves: the plain policy sees to it that something does, and it decides until a load or a start
 * came of it: else by their rules another would take the room that was made.
 */
static bool plain(struct arbiter *a)
{
	if (plain_undrain(a))
		return true;
	if (!instances_still(a))
		return false;
	uint64_t before = progress(a);
	bool acted = plain_dispatch(a) || plain_place(a);
	a->plain = acted && progress(a) == before ? before + 1 : 0;
	return acted;
}

static bool plain_decides(const struct arbiter *a)
{
	return a->plain && progress(a) + 1 == a->plain;
}

static bool decide_plainly(struct arbiter *a)
{
	return start_finish_load(a) || plain_undrain(a) || plain_dispatch(a) || plain_place(a);
}

/* ---- threshold and hysteresis ---- */

static bool in_order(struct arbiter *a, bool may_load(const struct arbiter *a, const struct model *model))
{
	for (struct model *model = next_cold(a, NULL); model; model = next_cold(a, model)) {
		if (place_load_gate(a, model) != REASON_NONE) {
			model->wait_reason = place_load_gate(a, model);
			return false;
		}
		if (may_load(a, model) || !a->instances_live) {
			if (load_if_admitted(a, model))
				return true;
		}
		struct want want = place_want(a, model, model_head(a, model));
		model->wait_reason = REASON_ROOM;
		return !start_leaving(a) && evict_longest_unused(a, &want); /* the head blocks those behind it */
	}
	return false;
}

static bool below_threshold(const struct arbiter *a, const struct model *model)
{
	uint32_t pool = model->pool;

	return share_used(a, pool) < load_below &&
	       (taken(a, pool) + estimate(model, pool)) / size_of(a, pool) < fits_below;
}

static bool by_threshold(struct arbiter *a)
{
	if (start_finish_load(a) || plain_dispatch(a))
		return true;
	if (share_used(a, 0) > unload_above && !start_leaving(a) && evict_longest_unused(a, NULL))
		return true;
	return (!a->shutdown && !start_is_blocked(a) && in_order(a, below_threshold)) || plain(a);
}

/* Least-squares slope of the kept shares, a sample. */
static double slope_of(const struct arbiter *a)
{
	uint32_t kept = a->use_kept < USE_KEPT ? a->use_kept : USE_KEPT;
	double mean_t = (kept - 1) / 2.0, mean = 0, above = 0, below = 0;

	if (kept < 5)
		return 0;
	for (uint32_t i = 0; i < kept; i++)
		mean += a->use_was[(a->use_kept - kept + i) % USE_KEPT] / kept;
	for (uint32_t i = 0; i < kept; i++) {
		double t = i - mean_t;
		above += t * (a->use_was[(a->use_kept - kept + i) % USE_KEPT] - mean);
		below += t * t;
	}
	return above / below;
}

void policy_earlier_sampled(struct arbiter *a)
{
	double slope, used = share_used(a, 0);

	if (a->use_kept && a->now - a->use_at < 950000)
		return;
	a->use_at = a->now;
	a->use_was[a->use_kept++ % USE_KEPT] = used;
	if (a->use_kept == 2 * USE_KEPT)
		a->use_kept = USE_KEPT; /* only its remainder counts from here */
	slope = slope_of(a);
	if (used + 10 * (slope > 0 ? slope : 0) > closes_above)
		a->use_closed = 1;
	if (used < load_below)
		a->use_closed = 0;
}

static bool is_open(const struct arbiter *a, const struct model *model)
{
	uint32_t pool = model->pool;

	return !a->use_closed && share_used(a, pool) + estimate(model, pool) / size_of(a, pool) < fits_below;
}

static bool by_hysteresis(struct arbiter *a)
{
	if (start_finish_load(a) || plain_dispatch(a))
		return true;
	bool closed = a->use_closed && share_used(a, 0) >= load_below;
	if (closed && !start_leaving(a) && evict_longest_unused(a, NULL))
		return true;
	return (!a->shutdown && !start_is_blocked(a) && in_order(a, is_open)) || plain(a);
}

/* ---- cost-benefit ---- */

static struct request *best_request(const struct arbiter *a, const struct model *model, double *benefit)
{
	static const double by_class[PRIORITY_COUNT] = { 3, 2, 1, 1 };
	struct request *best = NULL;
	uint32_t seen = 0;

	*benefit = 0;
	for (struct request *r = model_head(a, model); r && seen < SCAN_MAX;
	     r = request_link(a, r->next), seen++) {
		double weight = r->spec.weight_milli ? r->spec.weight_milli / 1000.0 : 1;
		double worth = by_class[r->spec.priority] * weight / (1 + habit_service_s(model, r) / 30);
		if (best && worth <= *benefit)
			continue;
		best = r;
		*benefit = worth;
	}
	return best;
}

static double cost_of(const struct arbiter *a, const struct model *model)
{
	uint32_t pool = model->pool;
	bool ready = model->instance != 0;
	double share = ready ? 0.02 : estimate(model, pool) / size_of(a, pool);

	return share * (1 + share_used(a, pool)) + (ready ? 0 : habit_load_s(model) / 60) + 0.01;
}

static double idle_estimates(const struct arbiter *a, uint32_t pool)
{
	double bytes = 0;

	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		if (i->state == INSTANCE_READY && !instance_busy(i) && !model->queue.count && !model_pinned(model))
			bytes += estimate(model, pool);
	}
	return bytes;
}

static bool load_by_budget(struct arbiter *a, struct model *model)
{
	uint32_t pool = model->pool;
	double need = estimate(model, pool), most = budget * size_of(a, pool), now = taken(a, pool);
	double coming = leaving(a, pool), idle = idle_estimates(a, pool);

	if (place_load_gate(a, model) != REASON_NONE) {
		model->wait_reason = place_load_gate(a, model);
		return false;
	}
	if ((now + need <= most || !a->instances_live) && load_if_admitted(a, model))
		return true;
	model->wait_reason = REASON_ROOM;
	if (coming > 0 && now - coming + need <= most)
		return false; /* room is on its way */
	struct want want = place_want(a, model, model_head(a, model));
	bool helps = now - coming - idle + need <= most || need + (double)ledger_foreign(a, pool) > most;
	return helps && !start_leaving(a) && evict_longest_unused(a, &want);
}

static bool start_best(struct arbiter *a, struct model *model)
{
	double benefit;
	struct request *request = best_request(a, model, &benefit);
	struct instance *instance = model_instance(a, model);
	struct want want = place_want(a, model, request);
	struct outlook now;
	struct verdict verdict;

	if (instance->state != INSTANCE_READY || !instance_has_slot(instance) ||
	    request->spec.kind != REQUEST_INFER)
		return false;
	outlook_now(a, &now);
	if (amount_total(&want.need) && !place_admits(a, &want, &now, &verdict)) {
		model->wait_reason = verdict.binds;
		model->wait_pool = verdict.pool;
		return false;
	}
	request_dispatch(a, instance, request);
	return true;
}

static bool by_cost_benefit(struct arbiter *a)
{
	struct offer offers[OFFERS_MAX];
	uint32_t count = 0;

	if (start_finish_load(a))
		return true;
	MODELS_STIRRING(a, model) {
		const struct instance *instance = model_instance(a, model);
		struct offer offer = { .model = model };
		if (!model->queue.count || a->shutdown ||
		    (instance ? instance->state != INSTANCE_READY : !place_wants_load(a, model)))
			continue;
		best_request(a, model, &offer.worth);
		offer.worth /= cost_of(a, model);
		offer_put(offers, OFFERS_MAX, &count, &offer);
	}
	for (uint32_t i = 0; i < count; i++) {
		struct model *model = offers[i].model;
		if (model->instance ? start_best(a, model) : !start_is_blocked(a) && load_by_budget(a, model))
			return true;
	}
	return plain(a);
}

/* ---- one at a time ---- */

static bool by_one_at_a_time(struct arbiter *a)
{
	bool busy = false;

	if (start_finish_load(a) || plain_dispatch(a))
		return true;
	struct model *target = a->shutdown ? NULL : next_cold(a, NULL);
	if (!target || start_is_blocked(a))
		return plain(a);
	struct want want = place_want(a, target, model_head(a, target));
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		struct verdict verdict = { .binds = REASON_CAPACITY };
		if (model_pinned(model))
			continue;
		busy = true;
		if (i->state != INSTANCE_READY || instance_busy(i) || model->queue.count || !want.may_evict)
			continue;
		place_evict(a, &want, i, REASON_LEAST_RECENT, &verdict);
		return true;
	}
	target->wait_reason = REASON_ROOM;
	return (!busy && load_if_admitted(a, target)) || plain(a);
}

static bool decide_threshold(struct arbiter *a)
{
	return plain_decides(a) ? decide_plainly(a) : by_threshold(a);
}

static bool decide_hysteresis(struct arbiter *a)
{
	return plain_decides(a) ? decide_plainly(a) : by_hysteresis(a);
}

static bool decide_cost_benefit(struct arbiter *a)
{
	return plain_decides(a) ? decide_plainly(a) : by_cost_benefit(a);
}

static bool decide_one_at_a_time(struct arbiter *a)
{
	return plain_decides(a) ? decide_plainly(a) : by_one_at_a_time(a);
}

/* ---- their orders are the plain policy's ---- */

static bool serves_before(const struct arbiter *a, const struct model *x, const struct model *y)
{
	return policy_lru.serves_before(a, x, y);
}

static bool leaves_before(const struct arbiter *a, const struct instance *x, const struct instance *y)
{
	return policy_lru.leaves_before(a, x, y);
}

const struct policy_ops policy_threshold = { serves_before, leaves_before, decide_threshold, false };
const struct policy_ops policy_hysteresis = { serves_before, leaves_before, decide_hysteresis, false };
const struct policy_ops policy_cost_benefit = { serves_before, leaves_before, decide_cost_benefit, false };
const struct policy_ops policy_one_at_a_time = { serves_before, leaves_before, decide_one_at_a_time, false };
