#include "core/control.h"

#include <string.h>

#include "core/decide.h"
#include "core/footprint.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/place.h"
#include "core/relief.h"
#include "core/request.h"
#include "core/resize.h"
#include "core/set.h"

/* After a critical moment nothing is loaded for so long. */
enum { CALM_US = 60000000 };

/* At the end of all, so long is waited for memory to be seen back. */
enum { SHUTDOWN_RELEASE_US = 2000000 };

/* ---- the catalogue ---- */

static bool same_footprint(const struct model_spec *x, const struct model_spec *y)
{
	return x->file_key == y->file_key && x->build_key == y->build_key &&
	       !memcmp(&x->base, &y->base, sizeof(x->base));
}

/* `by`: 1 or, wrapping around, -1. */
static void count_kind(struct arbiter *a, const struct model *model, uint32_t by)
{
	a->outside += model->present && model_outside(model) ? by : 0;
	a->reservations += model->present && model_is_reservation(model) ? by : 0;
}

static void remove_model(struct arbiter *a, struct model *model)
{
	struct instance *instance = model_instance(a, model);

	count_kind(a, model, UINT32_MAX);
	footprint_leave(a, model);
	model->present = 0;
	model->pin_command = 0;
	model->preload = 0;
	model_purge(a, model, FAIL_MODEL_REMOVED);
	set_link(a, model->spec.set);
	if (instance && instance->state == INSTANCE_LOADING)
		instance_unload(a, instance, ACTION_ABORT_LOAD, REASON_CONFIG);
	else if (instance && instance->state < INSTANCE_STOPPING)
		instance_drain(a, instance, REASON_CONFIG, NULL);
	model_refresh(a, model);
}

/*
 * What runs ends in peace, and where it served it is started anew, as soon as
 * there is room: for those who wait, or as it was there before.
 */
static void renew(struct arbiter *a, struct model *model)
{
	struct instance *instance = model_instance(a, model);

	model->spec.flags &= ~(uint32_t)MODEL_RENEW;
	if (!instance || instance->state >= INSTANCE_STOPPING || a->shutdown)
		return;
	bool unloads = instance->state == INSTANCE_DRAINING && !instance->drain_for;
	if (instance->state == INSTANCE_LOADING)
		instance_unload(a, instance, ACTION_ABORT_LOAD, REASON_CONFIG);
	else if (!unloads)
		instance_drain(a, instance, REASON_CONFIG, NULL);
	if (unloads)
		return; /* it goes, whatever it was started with */
	model->renewing = !model->preload;
	model->preload = 1;
}

void control_model(struct arbiter *a, uint32_t index, const struct model_spec *spec, uint64_t request)
{
	struct model *model = model_row(a, index);
	struct instance *instance = model_instance(a, model);

	if (!spec->present) {
		if (index < a->models_used && model->present)
			remove_model(a, model);
		return;
	}
	if (index >= a->models_used)
		a->models_used = index + 1;
	footprint_leave(a, model);
	bool had_preload = model->present && model->spec.flags & MODEL_PRELOAD;
	bool resizes = spec->flags & MODEL_RESIZE && model->present;
	if (!same_footprint(&model->spec, spec)) {
		model->prior = model->learned = (struct learned_row){ 0 };
		if (!resizes)
			model->habit = (struct habit){ 0 };
		a->learned_dirty -= model->learned_dirty;
		model->learned_dirty = 0;
		if (instance)
			instance->outdated = 1;
	}
	uint32_t left = model->present ? model->spec.set : 0;
	count_kind(a, model, UINT32_MAX);
	model->present = 1;
	model->spec = *spec;
	model->pool = amount_main_pool(&spec->base);
	model_list(a, model);
	footprint_join(a, model);
	count_kind(a, model, 1);
	model->mate = 0;
	if (left && left != spec->set)
		set_link(a, left);
	if (spec->set)
		set_link(a, spec->set);
	if (!resizes && (!had_preload || !(spec->flags & MODEL_PRELOAD))) {
		model->preload = spec->flags & MODEL_PRELOAD && !a->shutdown;
		model->renewing = 0;
	}
	if (instance)
		instance_reclaim(a, instance); /* what its requests take may count otherwise now */
	model->least = model->hopeless = (struct amount){ 0 };
	if (!resizes) {
		/* Whom that kept out for good is measured once more: it may have been wrong. */
		model->prior.sure = model->learned.sure = (struct amount){ 0 };
		model->load_failures = model->crashes = model->never_ready = 0;
		model->retry_at = model->back_at = 0;
		model->squeezed = 0;
	}
	if (spec->flags & MODEL_RENEW)
		renew(a, model);
	if (resizes)
		resize_model(a, model, request);
	model_refresh(a, model);
}

void control_pin(struct arbiter *a, uint32_t index, bool pin)
{
	struct model *model = model_row(a, index);

	model->pin_command = pin ? 1 : -1;
	struct decision decision = decision_about(a, DECISION_PIN, REASON_OPERATOR, model);
	decision.need_bytes = pin;
	decision_record(a, &decision);
	model_refresh(a, model);
}

/* ---- time ---- */

static void give_up_drain(struct arbiter *a, struct instance *instance)
{
	struct model *model = model_row(a, instance->model);
	struct decision decision = decision_about(a, DECISION_DRAIN_END, REASON_OVERDUE, model);

	decision.for_model = instance->drain_for - 1;
	decision.wait_us = a->now - instance->drain_at;
	decision_record(a, &decision);
	instance_serve(a, instance);
}

static enum fail cut_by(const struct model *model)
{
	return model->present ? FAIL_DRAINING : FAIL_MODEL_REMOVED;
}

static bool is_too_slow(const struct arbiter *a, const struct model *model, const struct instance *instance)
{
	return model->spec.start_timeout_us > 0 && instance->opened_at + model->spec.start_timeout_us <= a->now;
}

void control_expire(struct arbiter *a, struct model *model)
{
	struct instance *instance = model_instance(a, model);

	model_refresh(a, model);
	if (!instance || model->due_at > a->now)
		return;
	switch ((enum instance_state)instance->state) {
	case INSTANCE_LOADING:
		instance_unhealthy(a, instance, is_too_slow(a, model, instance) ? REASON_SLOW : REASON_STALLED);
		break;
	case INSTANCE_READY:
		model->preload = 0; /* else it would be back at once */
		instance_unload(a, instance, ACTION_STOP, REASON_IDLE);
		break;
	case INSTANCE_DRAINING:
		if (instance->drain_for)
			give_up_drain(a, instance);
		else
			instance_cut(instance, cut_by(model));
		break;
	case INSTANCE_STOPPING:
	case INSTANCE_GONE:
	case INSTANCE_FREE:
		break;
	}
	model_refresh(a, model);
}

/* A drain for a person or the configuration ends in an unload; one for room is place.c's. */
bool control_stop_drained(struct arbiter *a)
{
	INSTANCES_APART(a, i) {
		if (i->state != INSTANCE_DRAINING || i->drain_for || instance_busy(i))
			continue;
		instance_unload(a, i, ACTION_STOP, (enum reason)i->drain);
		return true;
	}
	return false;
}

/* ---- pressure ---- */

void control_pressure(struct arbiter *a, enum pressure level, int64_t short_bytes)
{
	a->short_bytes = level == PRESSURE_CRIT ? short_bytes : 0;
	a->unjudged = 0;
	/* What went would come back at once and do the same again. */
	if (level == PRESSURE_CRIT)
		a->calm_at = a->now + CALM_US;
	if (level == a->pressure)
		return;
	a->pressure = level;
	struct decision decision = decision_about(a, DECISION_PRESSURE, REASON_PRESSURE, NULL);
	decision.need_bytes = level;
	decision_record(a, &decision);
}

/* How much it hurts to end a busy one: pins last, then by priority, then the longest unused first. */
static bool hurts_less(const struct arbiter *a, const struct instance *x, const struct instance *y)
{
	const struct model *mx = model_row(a, x->model);
	const struct model *my = model_row(a, y->model);

	if (model_pinned(mx) != model_pinned(my))
		return !model_pinned(mx);
	if (mx->spec.priority != my->spec.priority)
		return mx->spec.priority > my->spec.priority;
	if (mx->last_used_at != my->last_used_at)
		return mx->last_used_at < my->last_used_at;
	return x->sequence < y->sequence;
}

static struct instance *least_hurt(const struct arbiter *a, bool pinned)
{
	struct instance *least = NULL;

	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		if (i->state >= INSTANCE_STOPPING || model_pinned(model) != pinned || model_outside(model))
			continue;
		if (!least || hurts_less(a, i, least))
			least = i;
	}
	return least;
}

static void emergency(struct arbiter *a, struct instance *victim)
{
	struct model *model = model_row(a, victim->model);
	struct decision decision = decision_about(a, DECISION_EMERGENCY, REASON_PRESSURE, model);

	decision.fail = FAIL_EMERGENCY;
	decision_record(a, &decision);
	a->counters.emergencies++;
	instance_cut(victim, FAIL_EMERGENCY);
	instance_end(a, victim, ACTION_KILL, REASON_PRESSURE);
}

static void evict_idle(struct arbiter *a, struct instance *victim)
{
	struct model *model = model_row(a, victim->model);
	struct decision decision = decision_about(a, DECISION_EVICT, REASON_PRESSURE, model);

	decision.idle_us = a->now - model->last_used_at;
	decision_record(a, &decision);
	a->counters.evictions++;
	/* Where every second counts, who runs nothing is not asked to take its leave. */
	bool critical = a->pressure == PRESSURE_CRIT;
	instance_end(a, victim, critical ? ACTION_KILL : ACTION_STOP, REASON_PRESSURE);
}

/*
 * A load that brought the machine there would do so again: it counts as a failed
 * one, so that a model which is too large is not tried for ever.
 */
static bool abort_load(struct arbiter *a)
{
	INSTANCES_APART(a, i) {
		if (i->state != INSTANCE_LOADING || i->outside)
			continue; /* finding somebody else's server takes no room */
		struct model *model = model_row(a, i->model);
		model_load_failed(a, model, false, FAIL_NO_ROOM);
		struct decision decision =
			decision_about(a, DECISION_LOAD_FAILED, REASON_PRESSURE, model);
		decision.fail = FAIL_NO_ROOM;
		decision.load_us = a->now - i->opened_at;
		decision.wait_us = model->retry_at - a->now;
		decision_record(a, &decision);
		instance_end(a, i, ACTION_ABORT_LOAD, REASON_PRESSURE);
		return true;
	}
	return false;
}

/* What is measured of those that leave: it is on its way back. */
static bool leaving(const struct arbiter *a, int64_t *out_bytes)
{
	bool any = false;

	*out_bytes = 0;
	INSTANCES_APART(a, i) {
		if (i->state < INSTANCE_STOPPING)
			continue;
		any = true;
		*out_bytes += amount_total(&i->own);
	}
	return any;
}

/*
 * One after the other: what goes now may be enough. Where it is known not to be,
 * idle ones go together; who runs something is never ended while others leave.
 */
bool control_relieve(struct arbiter *a)
{
	bool critical = a->pressure == PRESSURE_CRIT;
	int64_t coming;

	if (a->pressure == PRESSURE_NONE)
		return false;
	if (critical && abort_load(a))
		return true;
	/* The sample that showed it gone may have read how much is left before it went. */
	if (!critical && a->unjudged)
		return false;
	bool any = leaving(a, &coming);
	if (any && coming >= a->short_bytes)
		return false;

	/* Idle conversations before any model: that is quick, and what they said can be read again. */
	if (relief_is_coming(a))
		return false;
	if (relief_under_pressure(a))
		return true;
	if (!critical && resize_under_pressure(a))
		return true;
	struct instance *victim = place_idle(a, critical, false);
	if (victim) {
		evict_idle(a, victim);
		return true;
	}
	if (!critical || any)
		return false;
	victim = least_hurt(a, false);
	if (!victim)
		victim = place_idle(a, true, true);
	if (!victim)
		victim = least_hurt(a, true);
	if (victim)
		emergency(a, victim);
	return victim != NULL;
}

/* ---- shutdown ---- */

void control_shutdown(struct arbiter *a)
{
	a->shutdown = a->shutdown ? SHUTDOWN_AT_ONCE : SHUTDOWN_IN_PEACE;
	for (uint32_t i = 0; i < a->models_used; i++) {
		struct model *model = model_row(a, i);
		if (!model->preload)
			continue;
		model->preload = 0;
		model_refresh(a, model);
	}
}

static bool shut_instance(struct arbiter *a, struct instance *instance)
{
	if (a->shutdown == SHUTDOWN_AT_ONCE && instance->state < INSTANCE_STOPPING) {
		instance_cut(instance, FAIL_DRAINING);
		instance_unload(a, instance, ACTION_KILL, REASON_SHUTDOWN);
		return true;
	}
	if (instance->state == INSTANCE_LOADING) {
		instance_unload(a, instance, ACTION_ABORT_LOAD, REASON_SHUTDOWN);
		return true;
	}
	bool serves = instance->state == INSTANCE_READY ||
	              (instance->state == INSTANCE_DRAINING && instance->drain_for);
	if (serves)
		instance_drain(a, instance, REASON_SHUTDOWN, NULL);
	return serves;
}

/* That its memory is back is to be seen, but not for ever: the machine may have become unreadable. */
static bool is_awaited(const struct arbiter *a, const struct instance *instance)
{
	bool comes = !a->blind && a->now < instance->exited_at + SHUTDOWN_RELEASE_US;

	return instance->state != INSTANCE_GONE || comes;
}

int64_t control_shut_due(const struct arbiter *a)
{
	int64_t due = NEVER;

	if (!a->shutdown || a->drained_told)
		return due;
	INSTANCES_APART(a, i)
		if (i->state == INSTANCE_GONE && is_awaited(a, i) && i->exited_at + SHUTDOWN_RELEASE_US < due)
			due = i->exited_at + SHUTDOWN_RELEASE_US;
	return due;
}

bool control_shut(struct arbiter *a)
{
	const struct refusal refusal = { .fail = FAIL_DRAINING, .reason = REASON_SHUTDOWN };
	bool runs = false;

	if (!a->shutdown || a->drained_told)
		return false;
	MODELS_STIRRING(a, model) {
		struct instance *instance = model_instance(a, model);
		struct request *waiting = model_head(a, model);

		if (!waiting)
			waiting = request_link(a, model->unloads.first);
		if (waiting) {
			request_reject(a, waiting, &refusal);
			return true;
		}
		if (instance && shut_instance(a, instance))
			return true;
		runs |= instance && is_awaited(a, instance);
	}
	if (runs || a->requests_live)
		return false;
	a->drained_told = 1;
	struct action action = {
		.type = ACTION_DRAINED,
		.model = MODEL_NONE,
		.instance = ID_NONE,
		.request = ID_NONE,
	};
	outbox_put(a, &action);
	return true;
}
