#include "core/instance.h"

#include <assert.h>
#include <string.h>

#include "core/footprint.h"
#include "core/habit.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/pace.h"
#include "core/resize.h"

#define SECOND INT64_C(1000000)

/* A drain that was given up is not tried again for this long. */
enum { DRAIN_PAUSE_US = 30000000 };

bool instance_settles(const struct instance *instance)
{
	return instance->state < INSTANCE_STOPPING && (instance->kept.settling > 0 || instance->clearing);
}

bool instances_still(const struct arbiter *a)
{
	INSTANCES_LIVE(a, i)
		if (i->state == INSTANCE_LOADING || i->state >= INSTANCE_STOPPING || instance_busy(i) ||
		    instance_settles(i))
			return false;
	return true;
}

struct id instance_id(const struct arbiter *a, const struct instance *instance)
{
	return (struct id){ instance_index(a, instance), instance->generation };
}

struct instance *instance_find(const struct arbiter *a, struct id id)
{
	if (id.index >= a->instances_used)
		return NULL;
	struct instance *instance = instance_row(a, id.index);
	bool live = instance->state != INSTANCE_FREE && instance->generation == id.generation;
	return live ? instance : NULL;
}

bool instance_table_full(const struct arbiter *a)
{
	return !a->instances_free && a->instances_used == a->limits.instances;
}

static void link_apart(struct arbiter *a, struct instance *instance)
{
	uint32_t link = instance_index(a, instance) + 1;
	struct instance *before = instance_link(a, a->apart_last);

	while (before && before->sequence > instance->sequence)
		before = instance_link(a, before->apart_prev);
	uint32_t next = before ? before->apart_next : a->apart_first;
	instance->apart_prev = before ? instance_index(a, before) + 1 : 0;
	instance->apart_next = next;
	*(before ? &before->apart_next : &a->apart_first) = link;
	*(next ? &instance_link(a, next)->apart_prev : &a->apart_last) = link;
}

static void unlink_apart(struct arbiter *a, struct instance *instance)
{
	struct instance *before = instance_link(a, instance->apart_prev);
	struct instance *after = instance_link(a, instance->apart_next);

	*(before ? &before->apart_next : &a->apart_first) = instance->apart_next;
	*(after ? &after->apart_prev : &a->apart_last) = instance->apart_prev;
	instance->apart_next = instance->apart_prev = 0;
}

static bool is_apart(enum instance_state state)
{
	return state != INSTANCE_FREE && state != INSTANCE_READY;
}

/* Every change of a state passes here. */
static void enter(struct arbiter *a, struct instance *instance, enum instance_state state)
{
	bool was = is_apart((enum instance_state)instance->state);

	instance->state = state;
	if (is_apart(state) && !was)
		link_apart(a, instance);
	if (!is_apart(state) && was)
		unlink_apart(a, instance);
}

static struct instance *take_row(struct arbiter *a)
{
	uint32_t index = a->instances_free ? a->instances_free - 1 : a->instances_used++;
	struct instance *instance = instance_row(a, index);
	uint32_t generation = instance->generation + 1;

	if (a->instances_free)
		a->instances_free = instance->next;
	*instance = (struct instance){ .generation = generation ? generation : 1 };
	instance->prev = a->instances_last;
	if (a->instances_last)
		instance_link(a, a->instances_last)->next = index + 1;
	else
		a->instances_first = index + 1;
	a->instances_last = index + 1;
	a->instances_live++;
	return instance;
}

static struct action action_about(const struct arbiter *a, enum action_type type,
                                  const struct instance *instance)
{
	return (struct action){
		.type = type,
		.model = instance->model,
		.instance = instance_id(a, instance),
		.request = ID_NONE,
		.instance_sequence = instance->sequence,
	};
}

void instance_open(struct arbiter *a, struct model *model, const struct amount *peak,
                   const struct amount *sigma)
{
	assert(!model->instance && !instance_table_full(a));

	struct instance *instance = take_row(a);

	instance->model = model_index(a, model);
	instance->slots = model->spec.slots;
	instance->context_tokens = model->spec.context_tokens;
	instance->sequence = ++a->instance_sequence;
	enter(a, instance, INSTANCE_LOADING);
	instance->opened_step = a->counters.steps;
	instance->opened_at = instance->progress_at = a->now;
	instance->base = footprint_base(a, model);
	instance->sigma = *sigma;
	instance->expects = footprint_expects(model);
	instance->measuring = model->spec.flags & MODEL_MEASURE_FIRST && !model->learned.loads;
	ledger_open(a, instance, peak);

	model->instance = instance_index(a, instance) + 1;
	model->prior = model->learned;
	model->last_used_at = a->now;
	model->loads++;
	model->rests = 0;
	instance->outside = model_outside(model);
	a->loading += !instance->outside;
	a->measuring += instance->measuring;
	a->counters.loads++;
	model_refresh(a, model);

	struct action action = action_about(a, ACTION_SPAWN, instance);
	action.slots = instance->slots;
	action.context_tokens = instance->context_tokens;
	outbox_put(a, &action);
}

void instance_progress(struct arbiter *a, struct instance *instance, uint32_t permille)
{
	if (instance->state != INSTANCE_LOADING || permille == instance->permille)
		return;
	instance->permille = permille;
	instance->progress_at = a->now;
	model_refresh(a, model_row(a, instance->model));
}

void instance_measured(struct arbiter *a, struct instance *instance)
{
	a->measuring -= instance->measuring;
	instance->measuring = 0;
}

void instance_reclaim(struct arbiter *a, struct instance *instance)
{
	if (instance->state != INSTANCE_READY && instance->state != INSTANCE_DRAINING)
		return;
	const struct model *model = model_row(a, instance->model);
	instance->swing = footprint_swing(a, model, &instance->needs, instance_busy(instance));
	instance->kv_bytes = kept_applies(model) ? kept_claim(model, instance, NULL) : 0;
	struct amount claim = instance_claim_with(a, instance, NULL);
	claim = amount_max(&claim, &model->resize_claim);
	ledger_claim(a, instance, &claim);
}

struct amount instance_claim_with(const struct arbiter *a, const struct instance *instance,
                                  const struct amount *more)
{
	const struct model *model = model_row(a, instance->model);
	struct amount claim = instance->base, needs = instance->needs;

	if (more)
		amount_add(&needs, more);
	struct amount swing = footprint_swing(a, model, &needs, more || instance_busy(instance));
	if (kept_applies(model))
		claim.bytes[0][USE_HOST] += kept_claim(model, instance, more);
	else
		amount_add(&claim, &needs);
	amount_add(&claim, &swing);
	return claim;
}

struct amount instance_claim_cleared(const struct arbiter *a, const struct instance *instance,
                                     const struct amount *more)
{
	struct instance bare = *instance;

	kept_clear(&bare);
	return instance_claim_with(a, &bare, more);
}

void instance_take(struct arbiter *a, struct instance *instance, const struct request *request)
{
	int64_t need = amount_total(&request->spec.need);
	bool first = instance->running.count + instance->ending == 1;

	amount_add(&instance->needs, &request->spec.need);
	if (first || need < instance->least_need)
		instance->least_need = need;
	instance_reclaim(a, instance);
}

void instance_leave(struct arbiter *a, struct instance *instance, const struct request *request)
{
	amount_subtract(&instance->needs, &request->spec.need);
	if (kept_applies(model_row(a, instance->model)))
		kept_request_ended(instance, request);
	instance_reclaim(a, instance);
}

void instance_kept_told(struct arbiter *a, struct instance *instance, const struct event *event)
{
	a->kept_ever = 1;
	kept_told(instance, event);
	instance_reclaim(a, instance);
}

void instance_ready(struct arbiter *a, struct instance *instance, uint32_t slots,
                    uint32_t context_tokens)
{
	struct model *model = model_row(a, instance->model);

	assert(instance->state == INSTANCE_LOADING);
	a->loading -= !instance->outside;
	enter(a, instance, INSTANCE_READY);
	instance->permille = 1000;
	instance->ready_at = a->now;
	if (slots)
		instance->slots = slots;
	if (context_tokens)
		instance->context_tokens = context_tokens;
	instance_reclaim(a, instance);
	model->last_load_us = a->now - instance->opened_at;
	habit_loaded(a, model);
	model->last_used_at = a->now;
	model->load_failures = 0;
	model->never_ready = 0;
	if (model->renewing)
		model->renewing = model->preload = 0;
	model_refresh(a, model);

	struct decision decision = decision_about(a, DECISION_READY, REASON_NONE, model);
	decision.load_us = model->last_load_us;
	resize_ready(a, model, &decision);
	decision.need_bytes = amount_total(&instance->claim);
	decision.measured_bytes = 0; /* that was of the load; no sample has seen it ready */
	decision_record(a, &decision);
}

void instance_drain(struct arbiter *a, struct instance *instance, enum reason reason,
                    const struct model *drain_for)
{
	assert(instance->state == INSTANCE_READY || instance->state == INSTANCE_DRAINING);
	enter(a, instance, INSTANCE_DRAINING);
	instance->drain = reason;
	instance->drain_for = drain_for ? model_index(a, drain_for) + 1 : 0;
	instance->drain_at = a->now;
	model_refresh(a, model_row(a, instance->model));
}

void instance_serve(struct arbiter *a, struct instance *instance)
{
	assert(instance->state == INSTANCE_DRAINING && !instance->cut);
	enter(a, instance, INSTANCE_READY);
	instance->drain = REASON_NONE;
	instance->drain_for = 0;
	instance->drain_not_before = a->now + DRAIN_PAUSE_US;
	model_refresh(a, model_row(a, instance->model));
}

void instance_cut(struct instance *instance, enum fail fail)
{
	if (instance->running.count)
		instance->cut = fail;
}

static void leave_loading(struct arbiter *a, struct instance *instance)
{
	a->loading -= instance->state == INSTANCE_LOADING && !instance->outside;
	instance_measured(a, instance);
	instance->drain = REASON_NONE;
	instance->drain_for = 0;
}

void instance_end(struct arbiter *a, struct instance *instance, enum action_type how,
                  enum reason reason)
{
	assert(instance->state < INSTANCE_STOPPING);
	assert(!instance->running.count || instance->cut);
	leave_loading(a, instance);
	if (instance->ready_at && how == ACTION_STOP)
		footprint_in_peace(a, model_row(a, instance->model));
	enter(a, instance, INSTANCE_STOPPING);
	instance->stop_reason = reason;
	model_row(a, instance->model)->rests = reason == REASON_IDLE || reason == REASON_OPERATOR;
	if (reason == REASON_PRESSURE)
		model_squeezed(a, model_row(a, instance->model));
	if (reason != REASON_CONTEXT)
		resize_give_up(a, model_row(a, instance->model));

	struct action action = action_about(a, how, instance);
	action.reason = reason;
	outbox_put(a, &action);
	model_refresh(a, model_row(a, instance->model));
}

void instance_unload(struct arbiter *a, struct instance *instance, enum action_type how,
                     enum reason reason)
{
	struct model *model = model_row(a, instance->model);
	struct decision decision = decision_about(a, DECISION_UNLOAD, reason, model);

	decision.idle_us = a->now - model->last_used_at;
	a->counters.unloads++;
	decision_record(a, &decision);
	instance_end(a, instance, how, reason);
}

static void count_failure(struct arbiter *a, struct instance *instance, enum reason reason,
                          const struct instance_ending *ending)
{
	struct model *model = model_row(a, instance->model);
	enum fail fail = ending->fail;
	bool loading = instance->state == INSTANCE_LOADING;

	if (loading && fail != FAIL_START_TIMEOUT && fail != FAIL_UNREACHABLE && fail != FAIL_OUT_OF_MEMORY)
		fail = FAIL_LOAD_FAILED; /* however it ended */
	if (fail == FAIL_OUT_OF_MEMORY)
		footprint_ran_out(a, model);
	if (loading)
		model_load_failed(a, model, ending->never_ready, fail);
	else
		model_crashed(a, model);
	if (reason == REASON_SLOW) /* the next load would be as slow: nobody waits for two */
		model_purge(a, model, fail);
	struct decision decision =
		decision_about(a, loading ? DECISION_LOAD_FAILED : DECISION_DIED, reason, model);
	decision.fail = fail;
	decision.cause = ending->cause;
	decision.exit_status = ending->exit_status;
	decision.load_us = loading ? a->now - instance->opened_at : 0;
	decision.wait_us = model->retry_at - a->now;
	decision_record(a, &decision);
}

void instance_unhealthy(struct arbiter *a, struct instance *instance, enum reason reason)
{
	if (instance->state >= INSTANCE_STOPPING)
		return;
	struct instance_ending ending = { .fail = FAIL_ENGINE_DIED };
	if (instance->state == INSTANCE_LOADING)
		ending.fail = reason == REASON_STALLED || reason == REASON_SLOW ? FAIL_START_TIMEOUT : FAIL_LOAD_FAILED;
	count_failure(a, instance, reason, &ending);
	instance_cut(instance, FAIL_ENGINE_DIED);
	instance_end(a, instance, ACTION_KILL, reason);
}

void instance_exited(struct arbiter *a, struct instance *instance, const struct instance_ending *ending)
{
	struct model *model = model_row(a, instance->model);

	assert(instance->state != INSTANCE_GONE);
	if (instance->state < INSTANCE_STOPPING)
		count_failure(a, instance, REASON_NONE, ending);
	leave_loading(a, instance);
	if (!instance->cut)
		instance_cut(instance, ending->fail == FAIL_OUT_OF_MEMORY ? ending->fail : FAIL_ENGINE_DIED);
	enter(a, instance, INSTANCE_GONE);
	instance->exited_at = a->now;
	instance->seen_gone = 0; /* what was read before the exit proves nothing */
	instance->fresh = 0;
	model_strand(a, model);
	model_refresh(a, model);
}

void instance_close(struct arbiter *a, struct instance *instance)
{
	struct model *model = model_row(a, instance->model);
	uint32_t index = instance_index(a, instance);

	assert(instance->state == INSTANCE_GONE && !instance->running.count);
	ledger_close(a, instance);
	enter(a, instance, INSTANCE_FREE);
	if (instance->prev)
		instance_link(a, instance->prev)->next = instance->next;
	else
		a->instances_first = instance->next;
	if (instance->next)
		instance_link(a, instance->next)->prev = instance->prev;
	else
		a->instances_last = instance->prev;
	a->instances_live--;
	*instance = (struct instance){ .generation = instance->generation,
	                               .next = a->instances_free };
	a->instances_free = index + 1;
	model->instance = 0;
	pace_changed(a); /* cancelled requests may have been counted there to the end */
	model_refresh(a, model);
}
