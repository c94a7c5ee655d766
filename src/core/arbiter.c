#include "core/arbiter.h"

#include <assert.h>
#include <stdalign.h>

#include "core/control.h"
#include "core/due.h"
#include "core/footprint.h"
#include "core/instance.h"
#include "core/learn.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/pace.h"
#include "core/policy.h"
#include "core/relief.h"
#include "core/request.h"
#include "core/state.h"
#include "core/valid.h"
#include "core/work.h"

enum {
	ROWS_MAX = 1 << 20,
	INSTANCES_SPARE = 16,
	RECHECK_US = 1000000,
	EARLY_US = 10000, /* by how much a shell's timer may fire too early */
};

/* ---- the block ---- */

struct layout {
	struct arbiter_limits limits;
	uint64_t requests, models, decisions, instances, dues;
	uint64_t bytes;
};

static uint64_t lay(uint64_t *at, uint64_t rows, uint64_t row_bytes)
{
	uint64_t start = *at;
	uint64_t align = alignof(max_align_t);

	*at = (start + rows * row_bytes + align - 1) / align * align;
	return start;
}

/* False where a limit makes no sense. */
static bool lay_out(const struct arbiter_limits *limits, struct layout *out)
{
	struct arbiter_limits l = *limits;

	if (l.instances == 0)
		l.instances = l.models + INSTANCES_SPARE;
	if (l.models == 0 || l.models > ROWS_MAX || l.requests == 0 || l.requests > ROWS_MAX ||
	    l.instances > ROWS_MAX + INSTANCES_SPARE || l.leases > ROWS_MAX)
		return false;

	uint64_t requests_rows = (uint64_t)l.requests + 1;
	uint64_t at = 0;
	lay(&at, 1, sizeof(struct arbiter));
	out->limits = l;
	out->requests = lay(&at, requests_rows, sizeof(struct request));
	out->models = lay(&at, l.models, sizeof(struct model));
	out->decisions = lay(&at, (uint64_t)l.models * DECISIONS_KEPT, sizeof(struct decision));
	out->instances = lay(&at, l.instances, sizeof(struct instance));
	out->dues = lay(&at, requests_rows + l.models, sizeof(struct due));
	out->bytes = at;
	return true;
}

size_t arbiter_bytes(const struct arbiter_limits *limits)
{
	struct layout layout;

	return lay_out(limits, &layout) ? (size_t)layout.bytes : 0;
}

struct arbiter *arbiter_init(void *block, const struct arbiter_limits *limits)
{
	struct arbiter *a = block;
	struct layout layout;
	bool sensible = lay_out(limits, &layout);

	assert(sensible);
	a->limits = layout.limits;
	a->requests_rows = layout.limits.requests + 1;
	a->block_bytes = layout.bytes;
	a->requests_at = layout.requests;
	a->models_at = layout.models;
	a->decisions_at = layout.decisions;
	a->instances_at = layout.instances;
	a->dues_at = layout.dues;
	a->armed_at = NEVER;
	/* An instance's claim is at most four such amounts, an amount has sixteen places. */
	a->bytes_max = INT64_MAX / (1024 * ((int64_t)layout.limits.instances + 2));
	return a;
}

int64_t arbiter_bytes_max(const struct arbiter *a)
{
	return a->bytes_max;
}

/* ---- events ---- */

/* All that one measurement changes is done at once, so that a sample costs little however many there are. */
static void measured(struct arbiter *a, struct instance *instance, const struct event *event)
{
	bool again = instance->fresh; /* in one sample: the later counts, but teaches nothing more */

	instance->fresh = 1;
	instance->seen = event->measured.own;
	instance->complete = event->measured.complete != 0;
	instance->seen_gone = event->measured.gone != 0;
	ledger_measured(a, instance);
	if (again || !instance->complete)
		return;
	if (instance->state == INSTANCE_READY || instance->state == INSTANCE_DRAINING)
		instance->settled = 1;
	learn_sample(a, instance);
	footprint_sample(a, instance);
}

static void sampled(struct arbiter *a, const struct event *event)
{
	ledger_sample(a, event->sample.unreclaimable_bytes, event->sample.view_foreign_bytes);
	a->unjudged = a->blind = 0;
	int64_t in_use = ledger_in_use(a);
	INSTANCES_LIVE(a, i) {
		if (!i->complete)
			learn_sample(a, i);
		if (i->measuring && i->fresh && i->complete && i->state != INSTANCE_LOADING)
			instance_measured(a, i);
		ledger_note_had(i, in_use);
		if (i->state == INSTANCE_GONE && i->fresh && i->seen_gone)
			i->released = amount_total(&i->seen) == 0;
		i->fresh = 0;
	}
	footprint_sampled(a);
	policy_earlier_sampled(a);
	a->warm_due = 1;
}

/* False: it names something dead, or what it tells does not fit its state. */
static bool about_instance(struct arbiter *a, const struct event *event)
{
	struct id id = event->type == EVENT_MEASURED      ? event->measured.instance
	               : event->type == EVENT_TOKENS_HELD ? event->held.instance
	               : event->type == EVENT_CONVERSATION_ERASED ? event->erased.instance
	                                                  : event->instance.instance;
	struct instance *instance = instance_find(a, id);

	if (!instance)
		return false;
	if (event->type == EVENT_MEASURED) {
		measured(a, instance, event);
		return true;
	}
	if (instance->state == INSTANCE_GONE)
		return false;
	if (event->type == EVENT_INSTANCE_EXITED) {
		const struct instance_ending ending = {
			.fail = (enum fail)event->instance.fail,
			.cause = (enum end_cause)event->instance.cause,
			.exit_status = event->instance.exit_status,
			.never_ready = event->instance.never_ready != 0,
		};
		instance_exited(a, instance, &ending);
		return true;
	}
	if (event->type == EVENT_INSTANCE_SPAWNED) {
		instance->pid = event->instance.pid;
		return true;
	}
	if (event->type == EVENT_INSTANCE_UNHEALTHY) {
		instance_unhealthy(a, instance, REASON_NONE);
		return true;
	}
	if (event->type == EVENT_CONVERSATION_ERASED) {
		if (!instance->clearing)
			return false;
		relief_erased(a, instance, event->erased.failed == 1);
		return true;
	}
	if (event->type == EVENT_TOKENS_HELD) {
		instance_kept_told(a, instance, event);
		return true;
	}
	if (instance->state != INSTANCE_LOADING)
		return false;
	if (event->type == EVENT_INSTANCE_PROGRESS)
		instance_progress(a, instance, event->instance.permille);
	else
		instance_ready(a, instance, event->instance.slots, event->instance.context_tokens);
	return true;
}

static bool about_request(struct arbiter *a, const struct event *event)
{
	struct request *request = request_find(a, event->request.request);

	if (!request)
		return false;
	if (event->type == EVENT_REQUEST_FINISHED && request->state == REQUEST_WAITING)
		return false;
	enum fail fail = (enum fail)event->request.fail;
	struct answer_told told = {
		.tokens_in = event->request.tokens_in,
		.tokens_out = event->request.tokens_out,
		.prefill_tokens = event->request.prefill_tokens,
		.prefill_us = event->request.prefill_us,
		.decode_us = event->request.decode_us,
	};
	request_ended(a, request, event->type == EVENT_REQUEST_FINISHED ? fail : FAIL_CLIENT_GONE, &told);
	return true;
}

/* Time spent asleep is between the resume and the last event before it. */
static void advance(struct arbiter *a, const struct event *event)
{
	int64_t at = event->at_us > a->last_at ? event->at_us : a->last_at;

	if (event->type == EVENT_RESUME && a->suspended) {
		a->asleep_us += at - a->last_at;
		a->suspended = 0;
		a->armed_at = NEVER;
	}
	if (event->type == EVENT_SUSPEND)
		a->suspended = 1;
	a->last_at = at;
	a->now = at - a->asleep_us;
	if (a->recheck_at <= a->now)
		a->recheck_at = a->now + RECHECK_US;
	pace_advance(a);
	if (a->armed_at <= a->now + (event->type == EVENT_TICK ? EARLY_US : 0))
		a->armed_at = NEVER;
}

static bool about_the_world(struct arbiter *a, const struct event *event)
{
	switch (event->type) {
	case EVENT_MACHINE:
		ledger_set_machine(a, &event->machine);
		return true;
	case EVENT_MODEL:
		control_model(a, event->model.model, &event->model.spec, event->model.request);
		return true;
	case EVENT_LEARNED:
		return learn_row(a, &event->learned);
	case EVENT_SAMPLE:
		sampled(a, event);
		return true;
	case EVENT_FILE_RESIDENCY:
		model_row(a, event->residency.model)->cached_bytes = event->residency.cached_bytes;
		return true;
	case EVENT_PRESSURE:
		control_pressure(a, (enum pressure)event->pressure.level, event->pressure.short_bytes);
		return true;
	case EVENT_PIN:
		if (!model_row(a, event->command.model)->present)
			return false;
		control_pin(a, event->command.model, event->command.flag == 1);
		return true;
	case EVENT_SHUTDOWN:
		control_shutdown(a);
		return true;
	case EVENT_BLIND:
		a->blind = 1;
		return true;
	default:
		return true; /* wall, tick, suspend, resume: time has moved, that is all */
	}
}

static bool take(struct arbiter *a, const struct event *event)
{
	switch (event->type) {
	case EVENT_MEASURED:
	case EVENT_INSTANCE_SPAWNED:
	case EVENT_INSTANCE_PROGRESS:
	case EVENT_INSTANCE_READY:
	case EVENT_INSTANCE_UNHEALTHY:
	case EVENT_INSTANCE_EXITED:
	case EVENT_TOKENS_HELD:
	case EVENT_CONVERSATION_ERASED:
		return about_instance(a, event);
	case EVENT_REQUEST_ARRIVED:
		request_arrived(a, event->arrived.request, &event->arrived.spec);
		return true;
	case EVENT_REQUEST_GONE:
	case EVENT_REQUEST_FINISHED:
		return about_request(a, event);
	default:
		return about_the_world(a, event);
	}
}

/*
 * Some events only note what a later one acts upon: unless time has brought
 * something due meanwhile, they are no work.
 */
static bool only_notes(const struct arbiter *a, const struct event *event)
{
	bool notes = event->type == EVENT_MEASURED || event->type == EVENT_INSTANCE_PROGRESS ||
	             event->type == EVENT_INSTANCE_SPAWNED || event->type == EVENT_FILE_RESIDENCY;

	return notes && due_next(a) > a->now && due_wake(a) >= a->armed_at;
}

enum step arbiter_step(struct arbiter *a, const struct event *event, struct actions *out)
{
	assert(out->capacity >= 1 && out->count <= out->capacity);
	if (event) {
		assert(!a->working); /* the caller owes a call with NULL */
		a->counters.steps++;
		if (!event_is_possible(a, event)) {
			a->counters.invalid_events++;
			return STEP_DONE;
		}
		advance(a, event);
		if (!take(a, event))
			a->counters.stale_events++;
		a->working = !only_notes(a, event);
		a->settled = 0;
	}
	while (outbox_move(a, out)) {
		if (a->working && work_once(a))
			continue;
		a->working = 0;
		return STEP_DONE;
	}
	return STEP_MORE;
}
