#include "core/request.h"

#include <assert.h>

#include "core/chain.h"
#include "core/due.h"
#include "core/habit.h"
#include "core/held.h"
#include "core/instance.h"
#include "core/learn.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/pace.h"
#include "core/prospect.h"
#include "core/resize.h"
#include "core/set.h"

enum { QUEUE_RETRY_US = 5000000 };

struct request *request_find(const struct arbiter *a, struct id id)
{
	if (id.index >= a->requests_used)
		return NULL;
	struct request *request = request_row(a, id.index);
	bool live = request->state != REQUEST_FREE && request->generation == id.generation;
	return live ? request : NULL;
}

static struct id request_id(const struct arbiter *a, const struct request *request)
{
	return (struct id){ request_index(a, request), request->generation };
}

static bool unloads(const struct request *request)
{
	return request->spec.kind == REQUEST_UNLOAD || request->spec.kind == REQUEST_STOP;
}

static struct model *model_of(const struct arbiter *a, const struct request *request)
{
	return model_row(a, request->spec.model);
}

static void count_waiting(struct arbiter *a, struct model *model, const struct request *request,
                          int64_t by)
{
	int64_t weight = by * class_weight(request->spec.priority);

	model->waits_weight += weight;
	model->waits_arrival += weight * request->arrived_at;
	a->waits_weight += weight;
}

/* `by`: 1 or, wrapping around, -1. */
static void count_kind(struct arbiter *a, const struct request *request, uint32_t by)
{
	if (unloads(request))
		a->unloads_waiting += by;
	else if (request->spec.kind == REQUEST_LOAD)
		a->loads_waiting += by;
}

static void enqueue(struct arbiter *a, struct request *request)
{
	struct model *model = model_of(a, request);

	count_kind(a, request, 1);
	if (unloads(request)) {
		chain_insert(a, &model->unloads, request);
	} else {
		chain_insert(a, &model->queue, request);
		model->evictors += !(request->spec.flags & REQUEST_NO_EVICT);
		count_waiting(a, model, request, 1);
	}
	model_refresh(a, model);
}

static void end_purge(struct arbiter *a, struct model *model)
{
	a->purging -= model->purge != FAIL_NONE;
	model->purge = FAIL_NONE;
}

static void dequeue(struct arbiter *a, struct request *request)
{
	struct model *model = model_of(a, request);

	assert(request->state == REQUEST_WAITING);
	count_kind(a, request, UINT32_MAX);
	if (unloads(request)) {
		chain_remove(a, &model->unloads, request);
	} else {
		chain_remove(a, &model->queue, request);
		model->evictors -= !(request->spec.flags & REQUEST_NO_EVICT);
		count_waiting(a, model, request, -1);
		if (!model->queue.count)
			end_purge(a, model);
		if (!model->queue.count && !model->instance)
			resize_give_up(a, model); /* who needed it has left: what comes back is a load like any other */
	}
	model_refresh(a, model);
}

static void free_row(struct arbiter *a, struct request *request)
{
	due_set_request(a, request, NEVER);
	*request = (struct request){ .generation = request->generation };
	a->requests_live--;
}

/* The refusal of a request that may have no row, told by its spec. */
static void refuse(struct arbiter *a, struct id id, const struct request_spec *spec,
                   int64_t waited_us, const struct refusal *refusal)
{
	const struct model *model = spec->model < a->models_used ? model_row(a, spec->model) : NULL;
	struct decision decision = decision_about(a, DECISION_REFUSE, refusal->reason, model);

	decision.fail = refusal->fail;
	decision.request = spec->sequence;
	decision.request_kind = spec->kind;
	decision.wait_us = waited_us;
	decision.load_us = refusal->load_us;
	if (refusal->weighed)
		decision_weighed(a, &decision, &refusal->verdict);
	if (refusal->fail == FAIL_NEVER_FITS && model)
		decision.measured_bytes = prospect_measured(model);
	decision_record(a, &decision);
	a->counters.rejects[refusal->fail]++;

	struct action action = {
		.type = ACTION_REJECT,
		.model = spec->model,
		.instance = ID_NONE,
		.request = id,
		.fail = refusal->fail,
		.reason = refusal->reason,
		.retry_after_us = refusal->retry_after_us,
		.decision = decision,
	};
	outbox_put(a, &action);
}

void request_reject(struct arbiter *a, struct request *request, const struct refusal *refusal)
{
	struct id id = request_id(a, request);
	struct request_spec spec = request->spec;
	int64_t waited = a->now - request->arrived_at;

	dequeue(a, request);
	free_row(a, request);
	refuse(a, id, &spec, waited, refusal);
}

/* The least that a load of it takes, by what loads took; half, for its file may be cached. 0: unknown. */
static int64_t least_load_us(const struct arbiter *a, const struct model *model)
{
	if (model_resident(a, model) || !model->learned.loads)
		return 0;
	return model->learned.load_us / 2;
}

void request_expire(struct arbiter *a, struct request *request)
{
	struct model *model = model_of(a, request);
	struct refusal refusal = {
		.fail = FAIL_DEADLINE,
		.reason = model_reason(a, model),
		.load_us = least_load_us(a, model),
	};

	assert(request->state == REQUEST_WAITING);
	if (a->now >= request->deadline_at)
		refusal.load_us = 0;
	else if (a->now + refusal.load_us < request->deadline_at) {
		due_set_request(a, request, request->deadline_at);
		return;
	}
	request_reject(a, request, &refusal);
}

void request_done(struct arbiter *a, struct request *request)
{
	struct action action = {
		.type = ACTION_DONE,
		.model = request->spec.model,
		.instance = ID_NONE,
		.request = request_id(a, request),
	};

	if (request->spec.kind == REQUEST_LOAD)
		model_instance(a, model_of(a, request))->by_hand = 1;
	dequeue(a, request);
	free_row(a, request);
	outbox_put(a, &action);
}

void request_dispatch(struct arbiter *a, struct instance *instance, struct request *request)
{
	struct model *model = model_of(a, request);

	assert(request->spec.kind == REQUEST_INFER && instance->state == INSTANCE_READY);
	assert(instance_has_slot(instance) && model_instance(a, model) == instance);
	dequeue(a, request);
	request->state = REQUEST_RUNNING;
	request->instance = instance_id(a, instance);
	request->started_at = a->now;
	instance->served++;
	model->hopeless = (struct amount){ 0 };
	model->squeezed = 0;
	habit_turn(model, request);
	chain_append(a, &instance->running, request);
	instance_take(a, instance, request);
	pace_begin(a, request);
	pace_changed(a);
	model->last_used_at = a->now;
	set_used(a, model);
	model_refresh(a, model);
	a->counters.dispatches++;

	struct decision decision = decision_about(a, DECISION_DISPATCH, REASON_REQUEST, model);
	decision.request = request->spec.sequence;
	decision.need_bytes = amount_total(&request->spec.need);
	decision.wait_us = a->now - request->arrived_at;
	decision_record(a, &decision);

	struct action action = {
		.type = ACTION_DISPATCH,
		.model = request->spec.model,
		.instance = request->instance,
		.request = request_id(a, request),
		.instance_sequence = instance->sequence,
	};
	outbox_put(a, &action);
}

void request_cancel(struct arbiter *a, struct request *request, enum fail fail)
{
	struct instance *instance = instance_find(a, request->instance);

	assert(request->state == REQUEST_RUNNING && instance);
	chain_remove(a, &instance->running, request);
	instance->ending++;
	request->state = REQUEST_ENDING;
	due_set_request(a, request, NEVER);
	request->deadline_at = NEVER;

	struct model *model = model_of(a, request);
	model_refresh(a, model);
	struct decision decision = decision_about(a, DECISION_CANCEL, REASON_NONE, model);
	decision.request = request->spec.sequence;
	decision.request_kind = request->spec.kind;
	decision.fail = fail;
	decision_record(a, &decision);

	struct action action = {
		.type = ACTION_CANCEL,
		.model = request->spec.model,
		.instance = request->instance,
		.request = request_id(a, request),
		.fail = fail,
		.instance_sequence = instance->sequence,
	};
	outbox_put(a, &action);
}

/* It leaves its instance, if that still lives, with its slot and its bytes. */
static void leave_instance(struct arbiter *a, struct request *request)
{
	struct instance *instance = instance_find(a, request->instance);

	if (!instance)
		return;
	if (request->state == REQUEST_RUNNING)
		chain_remove(a, &instance->running, request);
	else
		instance->ending--;
	instance_leave(a, instance, request);
	pace_changed(a);
	model_of(a, request)->last_used_at = a->now;
	set_used(a, model_of(a, request));
}

enum { PREFILL_LEAST = 16 }; /* tokens: fewer tell little of how fast many are read */

/* An answer that came through whole teaches how fast the model is and what it now holds. */
static void learn_answer(struct arbiter *a, struct request *request, const struct answer_told *told)
{
	struct model *model = model_of(a, request);
	struct instance *instance = instance_find(a, request->instance);

	model->crashes = 0;
	habit_served(a, model, request);
	pace_end(a, request, told->tokens_out, told->decode_us);
	if (told->prefill_tokens >= PREFILL_LEAST && told->prefill_us > 0)
		habit_prefilled(model, told->prefill_tokens, told->prefill_us);
	if (instance)
		learn_prompt(a, instance, told->tokens_in, told->prefill_tokens);
	if (instance)
		held_note(a, instance, request, told->tokens_in + told->tokens_out);
}

void request_ended(struct arbiter *a, struct request *request, enum fail fail,
                   const struct answer_told *told)
{
	struct model *model = model_of(a, request);

	if (request->state == REQUEST_RUNNING && fail == FAIL_NONE)
		learn_answer(a, request, told);
	if (request->state == REQUEST_WAITING)
		dequeue(a, request);
	else
		leave_instance(a, request);
	free_row(a, request);
	model_refresh(a, model);
}

static void refuse_load(const struct arbiter *a, const struct model *model,
                        const struct request_spec *spec, struct refusal *out)
{
	bool infers = spec->kind == REQUEST_INFER;
	bool told = amount_total(&spec->need) > 0;
	const struct amount *need = !infers ? NULL : told ? &spec->need : &model->spec.per_request;

	if (infers && !(model->spec.flags & MODEL_AUTOLOAD) && !model->queue.count) {
		out->fail = FAIL_NOT_LOADED;
	} else if (infers && model_refuses(a, model)) {
		out->fail = FAIL_BACKING_OFF;
		out->reason = REASON_BACK_OFF;
		out->retry_after_us = model->retry_at - a->now;
	} else if (a->machine_known && !model_outside(model) && prospect_never(a, model, need, &out->verdict)) {
		out->fail = FAIL_NEVER_FITS;
		out->reason = out->verdict.binds;
		out->weighed = true;
	}
}

/* Why a new request is not taken. */
static struct refusal refusal_of(const struct arbiter *a, const struct request_spec *spec)
{
	struct refusal refusal = { 0 };
	const struct model *model = spec->model < a->models_used ? model_row(a, spec->model) : NULL;

	if (a->shutdown) {
		refusal.fail = FAIL_DRAINING;
		refusal.reason = REASON_SHUTDOWN;
		return refusal;
	}
	if (!model || !model->present) {
		refusal.fail = FAIL_UNKNOWN_MODEL;
		return refusal;
	}
	if (spec->deadline_at_us <= a->last_at) {
		refusal.fail = FAIL_DEADLINE;
		return refusal;
	}
	if (spec->kind != REQUEST_INFER && spec->kind != REQUEST_LOAD)
		return refusal;
	if (!model_resident(a, model))
		refuse_load(a, model, spec, &refusal);
	if (refusal.fail || spec->kind == REQUEST_LOAD)
		return refusal;

	/* A queue of 0 still lets a request wait for its own load. */
	const struct instance *instance = model_instance(a, model);
	uint32_t bound = model->spec.queue ? model->spec.queue : 1;
	bool passes = instance && instance->state == INSTANCE_READY && instance_has_slot(instance);
	bool was_taken = spec->waited_us > 0;
	if (model->queue.count >= bound && !was_taken && !(passes && !model->queue.count)) {
		refusal.fail = FAIL_QUEUE_FULL;
		refusal.retry_after_us = QUEUE_RETRY_US;
	}
	return refusal;
}

static struct request *take_row(struct arbiter *a, struct id id, const struct request_spec *spec)
{
	struct request *request = request_row(a, id.index);
	bool timed = spec->deadline_at_us != NEVER;

	if (id.index >= a->requests_used)
		a->requests_used = id.index + 1;
	*request = (struct request){
		.generation = id.generation,
		.state = REQUEST_WAITING,
		.instance = ID_NONE,
		.arrival = ++a->arrivals,
		.arrived_at = spec->waited_us < a->now ? a->now - spec->waited_us : 0,
		.deadline_at = timed ? spec->deadline_at_us - a->asleep_us : NEVER,
		.spec = *spec,
	};
	if (spec->kind == REQUEST_INFER && amount_total(&spec->need) == 0)
		request->spec.need = model_row(a, spec->model)->spec.per_request;
	/* A command runs nothing, and what a reservation needs was claimed when it was granted. */
	if (spec->kind != REQUEST_INFER || model_row(a, spec->model)->spec.flags & MODEL_RESERVATION)
		request->spec.need = (struct amount){ 0 };
	a->requests_live++;
	bool loads = spec->kind == REQUEST_INFER && timed;
	int64_t ahead = loads ? least_load_us(a, model_row(a, spec->model)) : 0;
	due_set_request(a, request, request->deadline_at - ahead);
	return request;
}

/* It runs something: that ends first. The unload itself is recorded when it has drained. */
static void drain_by_command(struct arbiter *a, struct model *model, struct instance *instance,
                             const struct request_spec *spec)
{
	struct decision decision = decision_about(a, DECISION_DRAIN, REASON_OPERATOR, model);

	decision.request = spec->sequence;
	if (instance->running.count)
		decision_record(a, &decision);
	instance_drain(a, instance, REASON_OPERATOR, NULL);
}

/* An unload or stop: set it going; it is done when the instance is gone. */
static void take_down(struct arbiter *a, struct model *model, const struct request_spec *spec)
{
	enum request_kind kind = (enum request_kind)spec->kind;
	struct instance *instance = model_instance(a, model);

	model->preload = 0;
	resize_give_up(a, model);
	if (kind == REQUEST_STOP)
		model_purge(a, model, FAIL_CANCELLED);
	if (!instance || instance->state >= INSTANCE_STOPPING) {
		model_refresh(a, model);
		return;
	}
	if (instance->state == INSTANCE_LOADING) {
		instance_end(a, instance, ACTION_ABORT_LOAD, REASON_OPERATOR);
	} else if (kind == REQUEST_STOP) {
		instance_cut(instance, FAIL_CANCELLED);
		instance_end(a, instance, ACTION_STOP, REASON_OPERATOR);
	} else {
		drain_by_command(a, model, instance, spec);
		return;
	}
	a->counters.unloads++;
	struct decision decision = decision_about(a, DECISION_UNLOAD, REASON_OPERATOR, model);
	decision_record(a, &decision);
}

/* An eject by role use takes nothing from anybody. */
static bool wish_is_refused(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	if (!instance || instance->state >= INSTANCE_STOPPING)
		return false;
	return instance->state != INSTANCE_READY || instance_busy(instance) || model->queue.count ||
	       model_pinned(model);
}

void request_arrived(struct arbiter *a, struct id id, const struct request_spec *spec)
{
	struct refusal refusal = refusal_of(a, spec);

	if (!refusal.fail && spec->flags & REQUEST_WISH && spec->kind != REQUEST_INFER &&
	    spec->kind != REQUEST_LOAD && wish_is_refused(a, model_row(a, spec->model)))
		refusal.fail = FAIL_WISH_REFUSED;
	if (refusal.fail) {
		refuse(a, id, spec, 0, &refusal);
		return;
	}

	struct request *request = take_row(a, id, spec);
	struct model *model = model_of(a, request);
	enqueue(a, request);
	if (spec->kind == REQUEST_INFER && !spec->waited_us)
		habit_arrived(a, model, request);
	a->arrived = id.index + 1;
	if (unloads(request))
		take_down(a, model, spec);
	else if (spec->kind == REQUEST_LOAD)
		model->retry_at = 0; /* who asks for a load by hand has mended what was wrong */
	model_refresh(a, model);
}
