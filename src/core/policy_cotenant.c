/*
 * cotenant - what hurts least, by learned footprints.
 *
 * Requests that can start go by weight over expected time, plus age. A cold model
 * is loaded for the batch that waits for it: weight over the time until it is
 * done, plus the age of its oldest. Others go for it by regret (regret.h): idle
 * ones at once, busy ones when those who wait have waited long enough to be worth
 * it, and whoever is overdue gets his turn. Victims of a plan are drained: they
 * start nothing, so that nobody can take back what was promised.
 *
 * Not more models run at once than gain by it: each slows all others.
 */
#include "core/decide.h"
#include "core/emergency.h"
#include "core/footprint.h"
#include "core/habit.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/place.h"
#include "core/policy.h"
#include "core/prospect.h"
#include "core/regret.h"
#include "core/relief.h"
#include "core/start.h"

enum {
	LOOK_MAX = 128, /* queues of cold models that are looked at, those that began to wait first */
	COLD_MAX = 12,  /* ... that are weighed */
	JOBS_MAX = 128, /* ... and requests, over all of them */
};

static const double age_s = 400;         /* a request gains 1 in this time */
static const double batching = 0.15;
static const double worth_busy = 50;     /* weighted waiting per regret, before busy ones go */
static const double second_load_s = 6;   /* beside another load only if it is short */
static const double overdue_s[PRIORITY_COUNT] = { /* at the latest */
	[PRIORITY_INTERACTIVE] = 200,
	[PRIORITY_NORMAL] = 420,
	[PRIORITY_BACKGROUND] = 900,
	[PRIORITY_BATCH] = 1800,
};

/* ---- what a load is worth ---- */

/* By weight over time: the jobs that gain most per second first. */
static uint32_t jobs_of(const struct arbiter *a, struct model *model, uint32_t depth,
                        struct offer jobs[OFFERS_MAX])
{
	uint32_t count = 0, seen = 0;

	for (struct request *r = model_head(a, model); r && seen < depth;
	     r = request_link(a, r->next), seen++) {
		double takes = habit_service_s(model, r);
		struct offer job = { model, r, request_weight(r) / (takes > 0.01 ? takes : 0.01) };
		offer_put(jobs, OFFERS_MAX, &count, &job);
	}
	return count;
}

/* The most weight a second that it gains by serving so many of them; with whom it removes. */
static double batch_gain(const struct arbiter *a, struct model *model, uint32_t depth,
                         const struct removal *removal)
{
	struct offer jobs[OFFERS_MAX];
	uint32_t count = jobs_of(a, model, depth, jobs);
	double before = habit_load_s(model) + removal->drain_s;
	double weight = 0, work = 0, best = 0;

	if (a->waits_weight > 0)
		before += removal->regret / (double)a->waits_weight;
	for (uint32_t k = 0; k < count; k++) {
		uint32_t at_once = k + 1 < model->spec.slots ? k + 1 : model->spec.slots;
		weight += request_weight(jobs[k].request);
		work += habit_service_s(model, jobs[k].request);
		double takes = work * (1 + batching * (at_once - 1)) / at_once;
		double worth = weight / (before + takes + 0.01);
		best = worth > best ? worth : best;
	}
	return best;
}

static double batch_age(const struct arbiter *a, const struct model *model)
{
	return request_waited_s(a, model_head(a, model)) / age_s;
}

static double batch_worth(const struct arbiter *a, struct model *model, uint32_t depth,
                          const struct removal *removal)
{
	return batch_gain(a, model, depth, removal) + batch_age(a, model);
}

/* With nobody's going; weighed once until its queue changes. */
static double batch_worth_alone(const struct arbiter *a, struct model *model, uint32_t depth)
{
	static const struct removal nobody = { 0 };

	if (model->worth_depth != depth) {
		model->worth = batch_gain(a, model, depth, &nobody);
		model->worth_depth = depth;
	}
	return model->worth + batch_age(a, model);
}

/* ---- plans ---- */

static void end_plan(struct arbiter *a)
{
	struct instance *next;

	for (struct instance *i = instance_link(a, a->apart_first); i; i = next) {
		next = instance_link(a, i->apart_next);
		if (i->state != INSTANCE_DRAINING || i->drain_for != a->plan_for)
			continue;
		instance_serve(a, i);
		i->drain_not_before = 0; /* it was not given up, it is no longer needed */
	}
	a->plan_for = 0;
	a->plan_overdue = 0;
}

static void begin_plan(struct arbiter *a, const struct want *want, const struct removal *removal,
                       bool overdue, const struct verdict *verdict)
{
	if (a->plan_for)
		end_plan(a);
	a->plan_for = model_index(a, want->model) + 1;
	a->plan_overdue = overdue;
	bool aborted = false; /* one a unit of work: where more are needed, there is another plan */

	for (uint32_t i = 0; i < removal->count; i++) {
		struct instance *victim = removal->victim[i];
		if (victim->state == INSTANCE_LOADING) {
			if (!aborted)
				place_evict(a, want, victim, REASON_ROOM, verdict);
			aborted = true;
		} else if (instance_busy(victim)) {
			place_drain(a, want, victim, verdict);
		} else {
			instance_drain(a, victim, REASON_ROOM, want->model);
		}
	}
}

/* Those that have drained go, and when there is room the load starts. */
static bool plan_step(struct arbiter *a)
{
	if (!a->plan_for)
		return false;
	struct model *target = model_link(a, a->plan_for);
	if (!place_wants_load(a, target) || !target->queue.count || a->shutdown) {
		end_plan(a);
		return true;
	}
	struct want want = place_want(a, target, model_head(a, target));
	struct outlook now;
	struct verdict verdict;
	bool waits = start_leaving(a);

	outlook_now(a, &now);
	if (place_admits(a, &want, &now, &verdict)) {
		target->wait_reason = place_load_gate(a, target);
		if (target->wait_reason != REASON_NONE)
			return false;
		place_start_load(a, &want, &verdict);
		end_plan(a);
		return true;
	}
	target->wait_reason = waits ? REASON_UNLOADING : REASON_ROOM;
	target->wait_pool = verdict.pool;
	INSTANCES_APART(a, i) {
		if (i->state != INSTANCE_DRAINING || i->drain_for != a->plan_for)
			continue;
		if (model_pinned(model_row(a, i->model))) {
			instance_serve(a, i);
			return true;
		}
		waits = true;
		if (instance_busy(i))
			continue;
		place_evict(a, &want, i, REASON_ROOM, &verdict);
		return true;
	}
	if (waits)
		return false;
	end_plan(a);
	return true;
}

/* ---- which model to load ---- */

/* How deep into each of so many queues. */
static uint32_t depth_of(uint32_t queues)
{
	return queues * SCAN_MAX <= JOBS_MAX ? SCAN_MAX : JOBS_MAX / queues;
}

/* Sooner where a load takes little: turns may be short then, and most of the time is still for work. */
static double overdue_after_s(const struct model *model, uint32_t priority)
{
	double share = 0.1 + 0.2 * habit_load_s(model);

	return overdue_s[priority] * (share < 1 ? share : 1);
}

/* For how long its request that was overdue first has been so; 0 = none is. */
static double overdue_for_s(const struct arbiter *a, const struct model *model, uint32_t depth)
{
	double most = 0;
	uint32_t seen = 0;

	for (struct request *r = model_head(a, model); r && seen < depth;
	     r = request_link(a, r->next), seen++) {
		double late = request_waited_s(a, r) - overdue_after_s(model, r->spec.priority);
		most = late > most ? late : most;
	}
	return most;
}

/* A first look that costs little; those who may be overdue come first, so that none is overlooked. */
static double first_look(const struct arbiter *a, struct model *model)
{
	double age = request_waited_s(a, model_head(a, model));

	if (model->look == 0)
		model->look = (double)model->waits_weight / (habit_load_s(model) + 1);
	double worth = model->look + age / age_s;

	return age > overdue_after_s(model, PRIORITY_INTERACTIVE) ? worth + 1e6 + age : worth;
}

/* Cold models that somebody waits for, by what loading them would be worth; and what each wants, once asked. */
struct colds {
	uint32_t count;
	struct offer offer[COLD_MAX];
	struct want want[COLD_MAX];
};

static const struct want *want_of(const struct arbiter *a, struct colds *cold, uint32_t i)
{
	struct model *model = cold->offer[i].model;

	if (!cold->want[i].model)
		cold->want[i] = place_want(a, model, model_head(a, model));
	return &cold->want[i];
}

static void cold_queues(const struct arbiter *a, struct colds *out)
{
	struct offer looked[COLD_MAX];
	uint32_t looks = 0, seen = 0;

	MODELS_STIRRING(a, model) {
		if (model->instance || !model->queue.count || model_backing_off(a, model) || model_outside(model))
			continue;
		struct offer offer = { .model = model, .worth = first_look(a, model) };
		if (seen < COLD_MAX || offer.worth > looked[COLD_MAX - 1].worth)
			offer_put(looked, COLD_MAX, &seen, &offer);
		if (++looks == LOOK_MAX)
			break;
	}
	out->count = 0;
	for (uint32_t i = 0; i < seen; i++) {
		looked[i].worth = batch_worth_alone(a, looked[i].model, depth_of(seen));
		offer_put(out->offer, COLD_MAX, &out->count, &looked[i]);
		out->want[i].model = NULL;
	}
}

/* Turns by who was overdue first: nobody who comes later goes before, whatever his class. */
static bool plan_overdue(struct arbiter *a, const struct colds *cold)
{
	struct model *latest = NULL;
	double most = 0;

	if (a->plan_for && a->plan_overdue)
		return false;
	for (uint32_t i = 0; i < cold->count; i++) {
		struct model *model = cold->offer[i].model;
		if (request_waited_s(a, model_head(a, model)) <= overdue_after_s(model, PRIORITY_INTERACTIVE))
			continue; /* nobody waits longer than the first */
		double late = overdue_for_s(a, model, depth_of(cold->count));
		if (late <= most)
			continue;
		most = late;
		latest = model;
	}
	if (!latest)
		return false;
	struct want want = place_want(a, latest, model_head(a, latest));
	struct outlook now, coming = outlook_coming(a);
	struct verdict verdict;
	outlook_now(a, &now);
	if (place_admits(a, &want, &now, &verdict) || place_admits(a, &want, &coming, &verdict))
		return false; /* it fits, or will */
	enum relief relief = relief_for(a, &want, &coming);
	if (relief != RELIEF_NONE)
		return relief == RELIEF_DONE;
	struct removal removal = regret_choose(a, &want, &coming, REMOVE_OVERDUE);
	if (!removal.count)
		return false;
	begin_plan(a, &want, &removal, true, &verdict);
	return true;
}

/* The account when the plan is carried out: its victims gone, its model there. */
static struct outlook after_plan(const struct arbiter *a)
{
	struct outlook after = outlook_coming(a);

	if (!a->plan_for)
		return after;
	struct model *target = model_link(a, a->plan_for);
	struct want want = place_want(a, target, model_head(a, target));
	INSTANCES_APART(a, i)
		if (i->state == INSTANCE_DRAINING && i->drain_for == a->plan_for)
			outlook_remove(&after, i);
	outlook_add(&after, &want.need, &want.sigma);
	return after;
}

/* Loads that somebody waits for; the others give way. */
static uint32_t loads_in_flight(const struct arbiter *a)
{
	uint32_t loads = 0;

	INSTANCES_APART(a, i) {
		const struct model *model = model_row(a, i->model);
		loads += i->state == INSTANCE_LOADING && !model_is_reservation(model) &&
		         !i->outside && model->queue.count;
	}
	return loads;
}

static bool may_load(const struct model *model, uint32_t loads)
{
	if (model_is_reservation(model) || loads == 0)
		return true;
	return loads == 1 && habit_load_s(model) <= second_load_s;
}

static bool load_what_fits(struct arbiter *a, struct colds *cold)
{
	struct outlook now, after = after_plan(a);
	uint32_t loads = loads_in_flight(a);

	outlook_now(a, &now);
	for (uint32_t i = 0; i < cold->count; i++) {
		struct model *model = cold->offer[i].model;
		struct verdict verdict, beside;

		if (model_index(a, model) + 1 == a->plan_for)
			continue;
		model->wait_reason = may_load(model, loads) ? place_load_gate(a, model) : REASON_LOADING;
		if (model->wait_reason != REASON_NONE)
			continue;
		const struct want *want = want_of(a, cold, i);
		bool fits = place_admits(a, want, &now, &verdict);
		model->wait_reason = fits ? REASON_LOADING : verdict.binds;
		model->wait_pool = verdict.pool;
		if (!fits)
			continue;
		if (a->plan_for && !place_admits(a, want, &after, &beside)) {
			model->wait_reason = REASON_ROOM;
			continue;
		}
		place_start_load(a, want, &verdict);
		return true;
	}
	return false;
}

/* Of those that can be made room for, the one worth most. */
static bool plan_best(struct arbiter *a, struct colds *cold)
{
	struct outlook coming = outlook_coming(a);
	struct removal best = { 0 };
	const struct want *chosen = NULL;
	struct verdict verdict;
	double most = 0;

	for (uint32_t i = 0; i < cold->count; i++) {
		struct model *model = cold->offer[i].model;
		const struct want *want = want_of(a, cold, i);
		if (place_admits(a, want, &coming, &verdict))
			continue; /* waits for a load in flight, or for what leaves */
		if (chosen && cold->offer[i].worth <= most)
			break; /* with nobody's going it would not be worth more */
		enum relief relief = relief_for(a, want, &coming);
		if (relief == RELIEF_DONE)
			return true;
		if (relief == RELIEF_WAIT)
			continue;
		struct removal removal = regret_choose(a, want, &coming, REMOVE_IDLE);
		if (!removal.count) {
			double waited = habit_seconds(model->waits_weight * a->now -
			                              model->waits_arrival);
			removal = regret_choose(a, want, &coming, REMOVE_BUSY);
			if (removal.count && waited < worth_busy * removal.regret)
				continue;
		}
		if (!removal.count)
			continue;
		double worth = batch_worth(a, model, depth_of(cold->count), &removal);
		if (chosen && worth <= most)
			continue;
		chosen = want;
		most = worth;
		best = removal;
	}
	if (!chosen)
		return false;
	place_admits(a, chosen, &coming, &verdict);
	begin_plan(a, chosen, &best, false, &verdict);
	return true;
}

static bool refuse_hopeless(struct arbiter *a, struct colds *cold)
{
	struct outlook coming = outlook_coming(a);

	for (uint32_t i = 0; i < cold->count; i++) {
		const struct want *want = want_of(a, cold, i);
		struct verdict verdict;
		if (!place_admits(a, want, &coming, &verdict) && prospect_refuse(a, want, &coming))
			return true;
	}
	return false;
}

static bool consider(struct arbiter *a)
{
	struct colds cold;

	if (!a->waits_weight || a->shutdown || !a->machine_known)
		return false;
	cold_queues(a, &cold);
	if (plan_overdue(a, &cold) || load_what_fits(a, &cold))
		return true;
	if (a->plan_for || loads_in_flight(a) || a->pressure != PRESSURE_NONE || a->measuring)
		return false;
	return plan_best(a, &cold) || refuse_hopeless(a, &cold);
}

/* Nobody waits: models that are to be resident come back. */
static bool preload(struct arbiter *a)
{
	struct outlook now;

	if (a->plan_for)
		return false;
	outlook_now(a, &now);
	MODELS_STIRRING(a, model) {
		if (!place_wants_load(a, model))
			continue;
		if (model->queue.count)
			return false;
		struct want want = place_want(a, model, NULL);
		struct verdict verdict;
		if (place_load_gate(a, model) != REASON_NONE ||
		    !place_admits(a, &want, &now, &verdict))
			continue;
		place_start_load(a, &want, &verdict);
		return true;
	}
	return false;
}

/* What stood for another program's use ends with it. */
static bool release(struct arbiter *a)
{
	if (!a->reservations)
		return false;
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		bool waits = !i->served && model->queue.count; /* who asked for it may also have left */
		if (i->state != INSTANCE_READY || waits || instance_busy(i) || !model_is_reservation(model))
			continue;
		instance_end(a, i, ACTION_STOP, REASON_IDLE);
		return true;
	}
	return false;
}

static bool decide(struct arbiter *a)
{
	footprint_expect(a);
	return release(a) || emergency_relieve(a) || start_finish_load(a) || start_request(a) || plan_step(a) ||
	       consider(a) || preload(a);
}

static bool serves_before(const struct arbiter *a, const struct model *x, const struct model *y)
{
	return policy_lru.serves_before(a, x, y);
}

static bool leaves_before(const struct arbiter *a, const struct instance *x,
                          const struct instance *y)
{
	double rx = regret_idle(a, model_row(a, x->model)), ry = regret_idle(a, model_row(a, y->model));

	return rx != ry ? rx < ry : policy_lru.leaves_before(a, x, y);
}

const struct policy_ops policy_cotenant = {
	.serves_before = serves_before,
	.leaves_before = leaves_before,
	.decide = decide,
	.learns = true,
};
