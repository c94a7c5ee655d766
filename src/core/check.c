/* The invariants, each proved anew from the rows. */
#include <assert.h>
#include <string.h>

#include "core/due.h"
#include "core/habit.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/place.h"
#include "core/request.h"

/* So many queues are all looked at by a decision. */
enum { FEW = 8 };

/* An assertion that names what was broken. */
#define HOLDS(condition, invariant) assert((condition) && (invariant))

static bool same(const struct amount *x, const struct amount *y)
{
	return !memcmp(x, y, sizeof(*x));
}

static void check_ledger(const struct arbiter *a)
{
	struct amount held = { 0 };
	struct amount own = { 0 };

	INSTANCES_LIVE(a, i) {
		struct amount mine = ledger_held_by(i);
		struct amount over = amount_max(&mine, &i->own);
		HOLDS(same(&over, &mine), "an instance holds at least what was measured of it");
		over = amount_max(&mine, &i->claim);
		HOLDS(same(&over, &mine), "an instance holds at least its claim");
		HOLDS(amount_total(&mine) == i->held_bytes, "the sum of what it holds is kept");
		amount_add(&held, &mine);
		amount_add(&own, &i->own);
	}
	HOLDS(same(&held, &a->held), "held is the sum over all that hold");
	HOLDS(same(&own, &a->own), "own is the sum over all that were measured");
}

static void check_chain(const struct arbiter *a, const struct chain *chain, enum request_state state)
{
	uint32_t count = 0;
	uint32_t prev = 0;
	const struct request *before = NULL;

	for (uint32_t link = chain->first; link; link = request_link(a, link)->next) {
		const struct request *request = request_link(a, link);
		HOLDS(++count <= chain->count, "a chain is as long as its count");
		HOLDS(request->prev == prev, "links of a chain go both ways");
		HOLDS(request->state == state, "a request is where its state says");
		HOLDS(state != REQUEST_WAITING || !before || request_came_before(before, request),
		      "queues are in order of arrival");
		before = request;
		prev = link;
	}
	HOLDS(count == chain->count && chain->last == prev, "a chain ends where it says");
}

static void check_instance(const struct arbiter *a, const struct instance *i)
{
	const struct model *model = model_row(a, i->model);
	bool serves = i->state == INSTANCE_READY || i->state == INSTANCE_DRAINING;

	HOLDS(i->state != INSTANCE_FREE && i->state <= INSTANCE_GONE, "live ones have a state");
	HOLDS(model_instance(a, model) == i, "a model and its instance name each other");
	HOLDS(i->running.count + i->ending <= i->slots, "never more running than slots");
	HOLDS(serves || i->running.count == 0 || i->cut, "only a ready one runs requests");
	HOLDS(i->state == INSTANCE_DRAINING || !i->drain_for, "who drains is draining");
	check_chain(a, &i->running, REQUEST_RUNNING);

	struct amount needs = { 0 };
	for (struct request *r = request_link(a, i->running.first); r; r = request_link(a, r->next)) {
		HOLDS(id_equal(r->instance, instance_id(a, i)), "a running request knows its instance");
		HOLDS(r->spec.model == i->model, "a request runs on its own model");
		amount_add(&needs, &r->spec.need);
	}
	HOLDS(i->ending || same(&needs, &i->needs), "needs are those of the running requests");
	if (serves) {
		struct amount claim = i->base;
		if (kept_applies(model))
			claim.bytes[0][USE_HOST] += i->kv_bytes;
		else
			amount_add(&claim, &i->needs);
		amount_add(&claim, &i->swing);
		HOLDS(!i->kv_bytes || i->kv_bytes >= i->kept.total_bytes ||
		      i->kv_bytes >= amount_total(&i->needs), "what conversations hold is claimed");
		claim = amount_max(&claim, &model->resize_claim);
		HOLDS(same(&claim, &i->claim), "a ready one claims its base and its requests' needs");
	}
}

/* Whatever is not plainly ready stands on a list of its own, in the same order. */
static void check_apart(const struct arbiter *a)
{
	uint32_t link = a->apart_first, prev = 0;

	INSTANCES_LIVE(a, i) {
		if (i->state == INSTANCE_READY)
			continue;
		HOLDS(link == instance_index(a, i) + 1 && i->apart_prev == prev, "who is not ready stands apart");
		prev = link;
		link = i->apart_next;
	}
	HOLDS(link == 0 && a->apart_last == prev, "only who is not ready stands apart");
}

static void check_instances(const struct arbiter *a)
{
	uint32_t live = 0, loading = 0, measuring = 0, prev = 0, ending = 0;

	INSTANCES_LIVE(a, i) {
		HOLDS(++live <= a->instances_live, "the live list is as long as its count");
		HOLDS(i->prev == prev, "links of the live list go both ways");
		prev = instance_index(a, i) + 1;
		loading += i->state == INSTANCE_LOADING && !i->outside;
		measuring += i->measuring;
		ending += i->ending;
		check_instance(a, i);
	}
	HOLDS(live == a->instances_live && prev == a->instances_last, "the live list is whole");
	check_apart(a);
	HOLDS(loading == a->loading, "loads in flight are counted");
	HOLDS(measuring == a->measuring, "first measurements are counted");
	for (uint32_t i = 0; i < a->requests_used; i++)
		ending -= request_row(a, i)->state == REQUEST_ENDING &&
		          instance_find(a, request_row(a, i)->instance) != NULL;
	HOLDS(ending == 0, "cancelled requests are counted where they run");
	live = 0;
	for (uint32_t i = 0; i < a->instances_used; i++)
		live += instance_row(a, i)->state != INSTANCE_FREE;
	HOLDS(live == a->instances_live, "a row is on one list");
}

static void check_models(const struct arbiter *a)
{
	uint32_t stirring = 0, with_instance = 0, dirty = 0, purging = 0, outside = 0;
	uint32_t listed = 0, known = 0, reservations = 0;
	int64_t waits_weight = 0, ratios = 0;

	for (uint32_t i = 0; i < a->models_used; i++) {
		const struct model *model = model_row(a, i);
		uint32_t evictors = 0;
		int64_t weight = 0;
		check_chain(a, &model->queue, REQUEST_WAITING);
		check_chain(a, &model->unloads, REQUEST_WAITING);
		for (struct request *r = model_head(a, model); r; r = request_link(a, r->next)) {
			HOLDS(r->spec.model == i, "a request waits for its own model");
			evictors += !(r->spec.flags & REQUEST_NO_EVICT);
			weight += class_weight(r->spec.priority);
		}
		waits_weight += weight;
		HOLDS(weight == model->waits_weight, "the weight of a queue is kept");
		HOLDS(evictors == model->evictors, "those others may go for are counted");
		HOLDS(model->stirring == model_stirs(model), "who has anything to do stirs");
		HOLDS(model->due_at == model_due(a, model) || model->due_at <= a->now,
		      "what is due is known");
		HOLDS(model->due_place || model->due_at == NEVER || model->due_at == 0,
		      "what is due is noted"); /* 0: a row that was never used */
		HOLDS(!model->due_place || due_row(a, model->due_place - 1)->at == model->due_at,
		      "what is due is noted for its time");
		with_instance += model->instance != 0;
		stirring += model->stirring;
		dirty += model->learned_dirty;
		purging += model->purge != FAIL_NONE;
		outside += model->present && model_outside(model);
		reservations += model->present && model_is_reservation(model);
		listed += model->listed;
		HOLDS(model->listed || !model->present, "a model has its place in the order of use");
		if (model->present && model->habit.samples) {
			known++;
			ratios += (int64_t)(model->habit.ratio * 4294967296.0);
		}
	}
	HOLDS(with_instance == a->instances_live, "a model has at most one instance");
	MODELS_STIRRING(a, model)
		stirring--;
	MODELS_LATEST(a, model)
		listed--;
	HOLDS(stirring == 0, "the stirring list is whole");
	HOLDS(waits_weight == a->waits_weight, "the weight of all queues is kept");
	HOLDS(dirty == a->learned_dirty, "rows to export are counted");
	HOLDS(purging == a->purging, "queues that are rejected are counted");
	HOLDS(outside == a->outside, "servers that others run are counted");
	HOLDS(reservations == a->reservations, "what stands for others' use is counted");
	HOLDS(listed == 0, "every model stands once in the order of use");
	HOLDS(known == a->ratios_known && ratios == a->ratios, "what models have in common is the sum over them");
}

static void check_requests(const struct arbiter *a)
{
	uint32_t live = 0, placed = 0, loads = 0, unloads = 0;

	for (uint32_t i = 0; i < a->requests_used; i++) {
		const struct request *request = request_row(a, i);
		bool timed = request->state == REQUEST_WAITING || request->state == REQUEST_RUNNING;
		bool waits = request->state == REQUEST_WAITING;
		bool unload = request->spec.kind == REQUEST_UNLOAD || request->spec.kind == REQUEST_STOP;
		loads += waits && request->spec.kind == REQUEST_LOAD;
		unloads += waits && unload;
		live += request->state != REQUEST_FREE;
		placed += timed;
		HOLDS((request->due_place != 0) == (timed && request->deadline_at != NEVER),
		      "deadlines of those that wait or run are noted");
	}
	for (uint32_t i = 0; i < a->models_used; i++)
		placed -= model_row(a, i)->queue.count + model_row(a, i)->unloads.count;
	INSTANCES_LIVE(a, i)
		placed -= i->running.count;
	HOLDS(live == a->requests_live, "live requests are counted");
	HOLDS(loads == a->loads_waiting && unloads == a->unloads_waiting, "commands that wait are counted");
	HOLDS(placed == 0, "a request is in exactly one place");
}

static void check_dues(const struct arbiter *a)
{
	for (uint32_t place = 0; place < a->dues; place++) {
		const struct due *due = due_row(a, place);
		const struct due *parent = due_row(a, (place - 1) / 2);
		HOLDS(*due_place(a, due->node) == place + 1, "who is due knows where it stands");
		HOLDS(place == 0 || parent->at <= due->at, "nothing is due before the first");
	}
}

/* What no step leaves undone. */
static void check_rest(const struct arbiter *a)
{
	HOLDS(due_next(a) > a->now, "nothing due is left");
	HOLDS(due_wake(a) >= a->armed_at, "the timer is armed for the next thing due");
	INSTANCES_LIVE(a, i) {
		HOLDS(!i->cut || !i->running.count, "who is cut runs nothing");
		HOLDS(i->state < INSTANCE_STOPPING || !i->running.count, "who is stopped runs nothing");
		HOLDS(i->state != INSTANCE_GONE || !i->released, "what came back is free");
	}
	for (uint32_t i = 0; i < a->models_used; i++) {
		const struct model *model = model_row(a, i);
		HOLDS(!model->purge, "what was to be rejected is");
		HOLDS(model->instance || !model->unloads.count, "an unload ends with the instance");
	}
}

/*
 * I1, I6: what was let in with this step, reservations like loads, has room beside all that is held; or somebody
 * was let in because nobody who could go is beside him.
 */
static void check_admission(const struct arbiter *a)
{
	bool any = false, alone = false;

	INSTANCES_APART(a, i)
		alone |= i->state == INSTANCE_LOADING && i->alone;
	INSTANCES_APART(a, i) {
		if (i->opened_step != a->counters.steps || i->state != INSTANCE_LOADING || i->outside)
			continue;
		any = true;
		for (uint32_t pool = 0; pool < POOLS_MAX && !alone; pool++)
			HOLDS(!amount_in_pool(&i->claim, pool) ||
			      amount_in_pool(&a->held, pool) + ledger_foreign(a, pool) <= a->capacity[pool],
			      "what was let in has room, or is alone");
	}
	HOLDS(!any || a->machine_known, "nothing loads on a machine that is not known");
}

/* I10: a plan has somebody to wait for, and who drains for another does it for the plan. */
static void check_plan(const struct arbiter *a)
{
	const struct model *target = model_link(a, a->plan_for);
	bool waits = false;

	if (a->machine.policy != POLICY_COTENANT)
		return;
	INSTANCES_APART(a, i) {
		HOLDS(i->state != INSTANCE_DRAINING || !i->drain_for || i->drain_for == a->plan_for,
		      "who drains for another does it for the plan");
		waits |= i->state != INSTANCE_LOADING;
	}
	if (!target)
		return;
	HOLDS(!target->instance && target->queue.count, "a plan is for a model that is waited for");
	HOLDS(waits || place_load_gate(a, target) != REASON_NONE, "a plan waits for somebody");
}

/* Does anything happen that will be followed by an event of itself? */
static bool is_moving(const struct arbiter *a)
{
	INSTANCES_LIVE(a, i)
		if (i->state != INSTANCE_READY || instance_busy(i) || instance_settles(i))
			return true;
	return false;
}

/* The request of a queue that takes most. */
static struct request *largest(const struct arbiter *a, const struct model *model)
{
	struct request *most = NULL;

	for (struct request *r = model_head(a, model); r; r = request_link(a, r->next))
		if (r->spec.kind == REQUEST_INFER &&
		    (!most || amount_total(&r->spec.need) > amount_total(&most->spec.need)))
			most = r;
	return most;
}

/* With several pools the largest may fit where another does not, which keeps its rank. */
static bool all_fit(const struct arbiter *a, struct model *model, const struct outlook *now)
{
	for (struct request *r = model_head(a, model); r; r = request_link(a, r->next)) {
		struct want want = place_want(a, model, r);
		struct verdict verdict;
		if (r->spec.kind == REQUEST_INFER && !place_admits(a, &want, now, &verdict))
			return false;
	}
	return true;
}

/* I8: where nothing moves, nobody waits for what there is room for. I14: what the margin lets in, fits without it. */
static void check_conserved(const struct arbiter *a)
{
	bool still = !is_moving(a) && !a->plan_for && a->machine_known && !a->shutdown &&
	             a->pressure == PRESSURE_NONE && a->now >= a->calm_at;
	uint32_t waiting = 0;

	if (a->machine.policy != POLICY_COTENANT)
		return;
	MODELS_STIRRING(a, model)
		waiting += model->queue.count > 0;
	MODELS_STIRRING(a, model) {
		struct request *request = largest(a, model);
		bool starts = place_wants_dispatch(a, model);
		if (!request || !(starts || (place_wants_load(a, model) && !model->instance)))
			continue;
		struct want want = place_want(a, model, request);
		struct outlook now;
		outlook_now(a, &now);
		bool fits = outlook_weigh(a, &now, &want.need, &want.sigma).fits;
		HOLDS(!fits || outlook_weigh(a, &now, &want.need, NULL).fits, "a margin lets nothing more in");
		if (!still || waiting > FEW || (!starts && place_load_gate(a, model) != REASON_NONE))
			continue;
		HOLDS(!all_fit(a, model, &now), "nobody waits for what there is room for");
	}
}

void arbiter_check(const struct arbiter *a)
{
	check_ledger(a);
	check_admission(a);
	check_instances(a);
	check_models(a);
	check_requests(a);
	check_dues(a);
	if (a->working)
		return;
	check_rest(a);
	if (!a->settled)
		return; /* the step only noted something */
	check_plan(a);
	check_conserved(a);
}
