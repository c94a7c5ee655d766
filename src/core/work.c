#include "core/work.h"

#include "core/control.h"
#include "core/decide.h"
#include "core/due.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/place.h"
#include "core/plain.h"
#include "core/policy.h"
#include "core/prospect.h"
#include "core/request.h"
#include "core/resize.h"
#include "core/set.h"
#include "core/warm.h"

static bool purge(struct arbiter *a)
{
	if (!a->purging)
		return false;
	MODELS_STIRRING(a, model) {
		if (!model->purge)
			continue;
		struct refusal refusal = { .fail = model->purge };
		bool failed = model->purge == FAIL_LOAD_FAILED || model->purge == FAIL_NO_ROOM ||
		              model->purge == FAIL_START_TIMEOUT || model->purge == FAIL_UNREACHABLE ||
		              model->purge == FAIL_OUT_OF_MEMORY;
		if (failed && (!model->never_ready || model_outside(model)))
			refusal.retry_after_us = model->retry_at - a->now;
		request_reject(a, model_head(a, model), &refusal);
		return true;
	}
	return false;
}

static bool cut(struct arbiter *a)
{
	INSTANCES_APART(a, i) {
		if (!i->cut || !i->running.count)
			continue;
		request_cancel(a, request_link(a, i->running.first), (enum fail)i->cut);
		return true;
	}
	return false;
}

static void expire_request(struct arbiter *a, struct request *request)
{
	if (request->state == REQUEST_WAITING)
		request_expire(a, request);
	else if (a->now < request->deadline_at)
		due_set_request(a, request, request->deadline_at);
	else
		request_cancel(a, request, FAIL_DEADLINE);
}

static bool expire(struct arbiter *a)
{
	if (due_next(a) > a->now)
		return false;
	uint32_t node = due_row(a, 0)->node;
	if (node < a->requests_rows)
		expire_request(a, request_row(a, node));
	else
		control_expire(a, model_row(a, node - a->requests_rows));
	return true;
}

static bool release(struct arbiter *a)
{
	INSTANCES_APART(a, i) {
		if (i->state != INSTANCE_GONE || !i->released)
			continue;
		struct model *model = model_row(a, i->model);
		struct decision decision = decision_about(a, DECISION_RELEASED,
		                                          (enum reason)i->stop_reason, model);
		struct amount held = ledger_held_by(i);
		decision.need_bytes = decision.claim_bytes = amount_total(&held);
		decision.measured_bytes = i->had_bytes;
		decision.machine_bytes = i->machine_had_bytes - ledger_in_use(a);
		decision.outside = i->outside;
		decision.wait_us = a->now - i->exited_at;
		instance_close(a, i);
		decision_record(a, &decision);
		a->unjudged = 1;
		resize_load(a, model);
		return true;
	}
	return false;
}

/* Its bytes are awaited too, unless nobody can see them come. */
static bool is_unloaded(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	return !instance || (a->blind && instance->state == INSTANCE_GONE);
}

static bool finish_unloads(struct arbiter *a)
{
	if (!a->unloads_waiting)
		return false;
	MODELS_STIRRING(a, model) {
		if (!model->unloads.count || !is_unloaded(a, model))
			continue;
		request_done(a, request_link(a, model->unloads.first));
		return true;
	}
	return false;
}

/* The request of this step has found no place yet: say what it waits for. */
static bool announce(struct arbiter *a)
{
	if (!a->arrived)
		return false;
	struct request *request = request_row(a, a->arrived - 1);
	a->arrived = 0;
	/* An unload waits for nobody's room: what is ended for it was said when it was taken. */
	if (request->state != REQUEST_WAITING || request->spec.kind == REQUEST_UNLOAD ||
	    request->spec.kind == REQUEST_STOP)
		return true;
	struct model *model = model_row(a, request->spec.model);
	struct decision decision =
		decision_about(a, DECISION_QUEUE, model_reason(a, model), model);
	decision.request = request->spec.sequence;
	decision.request_kind = request->spec.kind;
	decision.pool = model->wait_pool;
	decision_record(a, &decision);
	return true;
}

/* One timer, for the next that time alone brings about. An earlier one that is armed still may stay. */
static bool arm(struct arbiter *a)
{
	int64_t next = due_wake(a);

	if (a->calm_at > a->now && a->calm_at < next)
		next = a->calm_at; /* loads may go on */
	int64_t shut = control_shut_due(a);
	next = shut < next ? shut : next;
	if (next >= a->armed_at)
		return false;
	a->armed_at = next;
	struct action action = {
		.type = ACTION_TIMER,
		.model = MODEL_NONE,
		.instance = ID_NONE,
		.request = ID_NONE,
		.at_us = next + a->asleep_us,
	};
	outbox_put(a, &action);
	return true;
}

static bool serve(struct arbiter *a)
{
	const struct policy_ops *policy = policy_ops((enum policy)a->machine.policy);

	if (prospect_refuse_blind(a) || prospect_refuse_pressed(a))
		return true;
	if (policy->decide)
		return policy->decide(a);
	return plain_undrain(a) || plain_dispatch(a) || plain_place(a);
}

static bool settle(struct arbiter *a)
{
	ledger_settle(a);
	return purge(a) || cut(a) || expire(a) || release(a) || finish_unloads(a) ||
	       control_shut(a) || control_relieve(a) || control_stop_drained(a) || set_follow(a) ||
	       place_attach(a) || serve(a) || warm_files(a);
}

/* What is told last changes nothing that was decided, so nothing is decided again after it. */
bool work_once(struct arbiter *a)
{
	if (!a->settled && settle(a))
		return true;
	a->settled = 1;
	return announce(a) || arm(a);
}
