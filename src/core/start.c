#include "core/start.h"

#include "core/habit.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/pace.h"
#include "core/prospect.h"
#include "core/regret.h"
#include "core/relief.h"
#include "core/request.h"

/* Whom a person waits for may run beside so many more than gain by it. */
enum { INTERACTIVE_MORE = 2 };

/* So deep in a queue may somebody stand who has not had his turn; over all queues no more are looked at. */
enum { TURN_SCAN_MAX = 256, TURN_SCAN_LEAST = 32, TURNS_MAX = 256 };

static const double age_s = 400;         /* a request gains 1 in this time */
static const double short_s = 3;         /* nothing counts as shorter */
static const double bandwidth_free = 0.35; /* so little slows nobody */
static const double backfill = 1.2;

double request_weight(const struct request *request)
{
	double weight = request->spec.weight_milli ? request->spec.weight_milli / 1000.0 : 1;

	return weight * (double)class_weight(request->spec.priority);
}

void offer_put(struct offer *offers, uint32_t most, uint32_t *count, const struct offer *offer)
{
	uint32_t at = *count < most ? (*count)++ : most;

	while (at > 0 && offer->worth > offers[at - 1].worth) {
		if (at < most)
			offers[at] = offers[at - 1];
		at--;
	}
	if (at < most)
		offers[at] = *offer;
}

bool start_full(const struct arbiter *a, bool projected, int64_t permille)
{
	for (uint32_t pool = 0; pool < a->machine.pools; pool++) {
		int64_t used = a->unreclaimable[pool];
		INSTANCES_APART(a, i) {
			int64_t own = amount_in_pool(&i->own, pool);
			int64_t base = amount_in_pool(&i->base, pool);
			if (i->state >= INSTANCE_STOPPING)
				used -= projected ? own : 0;
			else if (i->state == INSTANCE_LOADING && projected && base > own)
				used += base - own;
		}
		if (used > a->capacity[pool] - ledger_kept(a, pool, permille))
			return true;
	}
	return false;
}

bool start_leaving(const struct arbiter *a)
{
	INSTANCES_APART(a, i)
		if (i->state >= INSTANCE_STOPPING)
			return true;
	return false;
}

/* Would one more active model slow all more than it does? `most`: of its pool, for no interactive one. */
static bool is_crowded(const struct arbiter *a, const struct model *model, double most, uint32_t priority)
{
	double active = a->pace[model->pool].active, bandwidth = pace_bandwidth(model);

	if (active <= 0 || bandwidth <= bandwidth_free || model_is_reservation(model) ||
	    instance_busy(model_instance(a, model)))
		return false;
	return active + bandwidth > most + (priority == PRIORITY_INTERACTIVE ? INTERACTIVE_MORE : 0);
}

/* Inside a class whose turn it is, by key and then by conversation; between classes what is worth most. */
static double start_worth(const struct arbiter *a, const struct model *model, const struct request *r)
{
	return request_weight(r) / (habit_service_s(model, r) + short_s) + request_waited_s(a, r) / age_s;
}

static struct offer find_best(const struct arbiter *a, struct model *model, uint32_t depth)
{
	struct offer best = { .model = model, .worth = -1 };
	struct offer of_class[PRIORITY_COUNT] = { 0 };
	uint32_t lateness[PRIORITY_COUNT] = { 0 };
	uint32_t seen = 0;

	for (struct request *r = model_head(a, model); r && seen < depth;
	     r = request_link(a, r->next), seen++) {
		struct offer *offer = &of_class[r->spec.priority];
		if (r->spec.kind != REQUEST_INFER)
			continue;
		double worth = start_worth(a, model, r);
		if (offer->request && worth <= offer->worth && !lateness[r->spec.priority])
			continue; /* nobody's turn comes before his */
		uint32_t late = habit_lateness(model, r);
		if (offer->request && (late > lateness[r->spec.priority] ||
		                       (late == lateness[r->spec.priority] && worth <= offer->worth)))
			continue;
		*offer = (struct offer){ model, r, worth };
		lateness[r->spec.priority] = late;
	}
	for (uint32_t class = 0; class < PRIORITY_COUNT; class++)
		if (of_class[class].request && of_class[class].worth > best.worth)
			best = of_class[class];
	return best;
}

/* All grow older alike, so who is best stays it until the queue, or what is known of the model, changes. */
static struct offer best_request(const struct arbiter *a, struct model *model, uint32_t depth)
{
	if (model->next_depth == depth) {
		struct request *best = request_link(a, model->next_best);
		return (struct offer){ model, best, best ? start_worth(a, model, best) : -1 };
	}
	struct offer best = find_best(a, model, depth);
	model->next_depth = depth;
	model->next_best = best.request ? request_index(a, best.request) + 1 : 0;
	return best;
}

bool start_finish_load(struct arbiter *a)
{
	if (!a->loads_waiting)
		return false;
	MODELS_STIRRING(a, model) {
		const struct instance *instance = model_instance(a, model);
		uint32_t seen = 0;

		if (!instance || instance->state != INSTANCE_READY)
			continue;
		for (struct request *r = model_head(a, model); r && seen < SCAN_MAX;
		     r = request_link(a, r->next), seen++) {
			if (r->spec.kind != REQUEST_LOAD)
				continue;
			request_done(a, r);
			return true;
		}
	}
	return false;
}

static double longest_run_s(const struct arbiter *a)
{
	double longest = 0;

	INSTANCES_LIVE(a, i) {
		double left = regret_drain_s(a, i);
		longest = left > longest ? left : longest;
	}
	return longest;
}

static bool anything_moves(const struct arbiter *a)
{
	INSTANCES_LIVE(a, i)
		if (i->state == INSTANCE_LOADING || instance_busy(i) || instance_settles(i))
			return true;
	return false;
}

/* No room for it to run: somebody idle goes, or it waits for those that run. True: something was done. */
static bool make_way(struct arbiter *a, const struct want *want, const struct verdict *verdict)
{
	struct outlook coming = outlook_coming(a);
	struct verdict then;
	bool moves = anything_moves(a);

	if (place_admits(a, want, &coming, &then))
		return false; /* what leaves is enough */
	enum relief relief = relief_for(a, want, &coming);
	if (relief != RELIEF_NONE)
		return relief == RELIEF_DONE;
	bool quiet = want->head->spec.flags & REQUEST_NO_EVICT;
	struct instance *victim = regret_cheapest(a, want->model, !moves);
	/* Where nothing moves, others of its queue may have somebody go, and he is in their way. */
	if (victim && prospect_in_vain(a, want, &coming, victim))
		victim = NULL; /* who went would come back, and go again */
	if (victim && (!quiet || (!moves && want->may_evict))) {
		place_evict(a, want, victim, REASON_ROOM, verdict);
		return true;
	}
	return !moves && prospect_refuse(a, want, &coming);
}

static uint32_t starts(const struct arbiter *a, struct offer offers[OFFERS_MAX])
{
	struct offer looked[TURNS_MAX / TURN_SCAN_LEAST];
	double most[POOLS_MAX];
	uint32_t count = 0, seen = 0;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		most[pool] = pace_most(a, pool);
	/* A first look: the weight and the age of its queue. Whom nobody may join starts nothing. */
	INSTANCES_LIVE(a, instance) {
		struct model *model = model_row(a, instance->model);
		if (instance->state != INSTANCE_READY || !model->queue.count || !instance_has_slot(instance))
			continue;
		model->wait_reason = REASON_SLOTS;
		if (is_crowded(a, model, most[model->pool], PRIORITY_INTERACTIVE))
			continue;
		double age = request_waited_s(a, model_head(a, model));
		struct offer offer = { .model = model,
			               .worth = (double)model->waits_weight / model->queue.count + age };
		offer_put(looked, TURNS_MAX / TURN_SCAN_LEAST, &seen, &offer);
	}
	for (uint32_t i = 0; i < seen; i++) {
		uint32_t depth = TURNS_MAX / seen < TURN_SCAN_MAX ? TURNS_MAX / seen : TURN_SCAN_MAX;
		struct offer offer = best_request(a, looked[i].model, depth);
		if (offer.request)
			offer_put(offers, OFFERS_MAX, &count, &offer);
	}
	return count;
}

bool start_request(struct arbiter *a)
{
	struct offer offers[OFFERS_MAX];
	struct outlook now;
	double fill_s = 0; /* somebody better waits for room: only what ends before he can get it */
	uint32_t count = starts(a, offers);

	if (!count || (start_full(a, false, 15) && (anything_moves(a) || start_leaving(a))))
		return false;
	outlook_now(a, &now);
	for (uint32_t i = 0; i < count; i++) {
		struct model *model = offers[i].model;
		struct request *request = offers[i].request;
		struct want want = place_want(a, model, request);
		struct verdict verdict;

		if (is_crowded(a, model, pace_most(a, model->pool), request->spec.priority))
			continue;
		if (fill_s > 0 && backfill * habit_service_s(model, request) > fill_s)
			continue;
		if (amount_total(&want.need) == 0 || place_admits(a, &want, &now, &verdict)) {
			request_dispatch(a, want.instance, request);
			return true;
		}
		model->wait_reason = verdict.binds;
		model->wait_pool = verdict.pool;
		if (make_way(a, &want, &verdict))
			return true;
		if (fill_s <= 0)
			fill_s = longest_run_s(a); /* 0: nothing ends by waiting */
	}
	return false;
}
