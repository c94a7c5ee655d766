#include "api/sentence.h"

#include "base/units.h"

static const char *name_of(const struct names *names, uint32_t model)
{
	const char *name = model == MODEL_NONE ? NULL : names->model(names->ctx, model);
	return name ? name : "a model that is gone";
}

static void put_size(struct buf *out, int64_t bytes)
{
	char text[UNITS_TEXT];
	buf_printf(out, "%s", units_size(text, bytes));
}

static void put_time(struct buf *out, int64_t us)
{
	char text[UNITS_TEXT];
	buf_printf(out, "%s", units_duration(text, us));
}

static const char *plural(uint32_t count)
{
	return count == 1 ? "" : "s";
}

/* Why something was begun or ended, to stand behind the sentence's verb; "" where there is nothing to say. */
static const char *because(uint32_t reason)
{
	static const char *const texts[REASON_COUNT] = {
		[REASON_REQUEST] = "for a request",
		[REASON_PRELOAD] = "because it is to be loaded ahead (preload)",
		[REASON_OPERATOR] = "by command",
		[REASON_ROOM] = "to make room",
		[REASON_IDLE] = "because it was idle for its unload_after",
		[REASON_OVERDUE] = "because another has waited too long",
		[REASON_LEAST_RECENT] = "as the one used longest ago",
		[REASON_PRESSURE] = "because the machine's memory runs short",
		[REASON_CONFIG] = "because the configuration changed",
		[REASON_SHUTDOWN] = "because the daemon goes down",
		[REASON_MEASURE_FIRST] = "alone, to measure what it takes",
		[REASON_STALLED] = "because its load made no progress",
		[REASON_SLOW] = "because its load took too long",
		[REASON_ALONE] = "into what is otherwise kept free, as nothing else could go for it",
		[REASON_SET] = "with its set",
		[REASON_CONTEXT] = "to give it a larger context",
	};
	return reason < REASON_COUNT && texts[reason] ? texts[reason] : "";
}

/* What something waits for or is stopped by. */
static const char *waits_for(uint32_t reason)
{
	static const char *const texts[REASON_COUNT] = {
		[REASON_REQUEST] = "its turn",
		[REASON_ROOM] = "room",
		[REASON_OVERDUE] = "another that has waited longer",
		[REASON_PRESSURE] = "the machine's memory pressure to end",
		[REASON_SLOTS] = "a free slot",
		[REASON_LOADING] = "a load in flight",
		[REASON_UNLOADING] = "memory to come back",
		[REASON_BACK_OFF] = "its next try after a failure",
		[REASON_LIMIT] = "room under memory.limit",
		[REASON_CAPACITY] = "room in the machine's memory",
		[REASON_VIEW] = "room under a cap of the machine",
		[REASON_PINS] = "room that pinned or busy models hold",
		[REASON_MEASURE_FIRST] = "the machine to be its own, to be measured",
		[REASON_STALLED] = "an engine that makes no progress",
		[REASON_SLOW] = "a load that takes too long",
		[REASON_ALONE] = "the others to go",
		[REASON_CONTEXT] = "its larger context",
		[REASON_SHUTDOWN] = "the daemon, which goes down",
	};
	return reason < REASON_COUNT && texts[reason] ? texts[reason] : NULL;
}

static const char *what_binds(uint32_t reason)
{
	switch (reason) {
	case REASON_LIMIT:
		return "under memory.limit";
	case REASON_VIEW:
		return "under a cap of the machine";
	case REASON_PINS:
		return "beside what is pinned or busy";
	default:
		return NULL;
	}
}

/*
 * ": needs 4.6 GiB, 3.1 GiB free of 8.0 GiB", of what is known. Where less is free than the capacity
 * leaves, a cap below it binds (memory.limit, a control group): then it is "free of" what that allows.
 */
static void put_numbers(const struct decision *d, struct buf *out)
{
	/* What never fits is judged by the least that it takes, against all that others leave. */
	bool never = d->fail == FAIL_NEVER_FITS;
	int64_t allowed = d->room_bytes + d->held_bytes;
	bool capped = allowed < d->capacity_bytes - d->foreign_bytes;
	/* Room without those that may go, or without what it has itself: with all that is held it is no whole. */
	bool whole = !never && d->reason != REASON_PINS && d->kind != DECISION_GROW;

	if (d->need_bytes <= 0)
		return;
	buf_printf(out, never ? ": needs at least " : ": needs ");
	put_size(out, d->need_bytes);
	buf_printf(out, never ? ", at most " : ", ");
	put_size(out, d->room_bytes);
	buf_printf(out, never ? " can be free" : " free");
	if (d->capacity_bytes > 0 && whole) {
		buf_printf(out, " of ");
		put_size(out, capped ? allowed : d->capacity_bytes);
	}
	const char *binds = what_binds(d->reason);
	if (binds)
		buf_printf(out, " %s", binds);
	else if (capped && d->capacity_bytes > 0 && whole)
		buf_printf(out, " allowed");
}

static void put_because(const struct decision *d, struct buf *out)
{
	const char *text = because(d->reason);
	if (*text)
		buf_printf(out, " %s", text);
}

static void put_queue(const struct decision *d, struct buf *out)
{
	if (d->running || d->queued)
		buf_printf(out, " (%u running, %u waiting)", d->running, d->queued);
}

static void put_ready(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "%s is ready", model);
	if (d->reason == REASON_CONTEXT)
		buf_printf(out, " with a context of %u tokens", d->context_tokens);
	if (d->load_us > 0) {
		buf_printf(out, " after ");
		put_time(out, d->load_us);
	}
	if (d->reason == REASON_CONTEXT) {
		buf_printf(out, ", ");
		put_time(out, d->wait_us);
		buf_printf(out, " since that was decided");
	}
	if (d->need_bytes > 0) {
		buf_printf(out, ", claims ");
		put_size(out, d->need_bytes);
	}
}

/* ", regret 0.02 with 1.5 s of reading again; asked for 3 times in the last hour, the other 40" */
static void put_regret(const struct decision *d, struct buf *out)
{
	if (!d->regret_milli && !d->asked && !d->asked_for)
		return;
	buf_printf(out, ", regret %.2f", (double)d->regret_milli / 1000);
	if (d->prefill_us >= 100000) {
		buf_printf(out, " with ");
		put_time(out, d->prefill_us);
		buf_printf(out, " of reading again");
	}
	buf_printf(out, "; asked for %u time%s in the last hour", d->asked, plural(d->asked));
	if (d->for_model != MODEL_NONE)
		buf_printf(out, ", the other %u", d->asked_for);
}

static void put_evict(const struct decision *d, const char *model, const struct names *names,
                      struct buf *out)
{
	int64_t bytes = d->measured_bytes;
	bool was_used = d->idle_us > 0 && d->idle_us < d->at_us; /* else it is as old as the clock */

	buf_printf(out, "evicted %s", model);
	if (was_used || bytes > 0) {
		buf_printf(out, " (");
		if (was_used) {
			buf_printf(out, "used ");
			put_time(out, d->idle_us);
			buf_printf(out, " ago%s", bytes > 0 ? ", " : "");
		}
		if (bytes > 0)
			put_size(out, bytes);
		buf_printf(out, ")");
	}
	if (d->for_model != MODEL_NONE)
		buf_printf(out, " to make room for %s", name_of(names, d->for_model));
	else
		put_because(d, out);
	put_regret(d, out);
	put_numbers(d, out);
}

static void put_released(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "%s gave back ", model);
	if (d->need_bytes > 0)
		put_size(out, d->need_bytes);
	else
		buf_printf(out, "its memory");
	if (d->wait_us > 0) {
		buf_printf(out, ", seen ");
		put_time(out, d->wait_us);
		buf_printf(out, " after its end");
	}
}

static void put_queued(const struct decision *d, const char *model, struct buf *out)
{
	const char *what = waits_for(d->reason);

	buf_printf(out, "a request for %s waits", model);
	if (what)
		buf_printf(out, " for %s", what);
	put_queue(d, out);
	put_numbers(d, out);
}

static void put_refusal(const struct decision *d, const char *verb, const char *model, struct buf *out)
{
	buf_printf(out, "%s a request for %s", verb, model);
	if (d->wait_us > 0) {
		buf_printf(out, " after ");
		put_time(out, d->wait_us);
	}
	if (d->fail == FAIL_DEADLINE && d->load_us > 0) {
		buf_printf(out, ", its deadline cannot be met: a load takes at least ");
		put_time(out, d->load_us);
	} else {
		buf_printf(out, ", %s", fail_facts((enum fail)d->fail)->cause);
	}
	const char *what = d->fail == FAIL_DEADLINE ? waits_for(d->reason) : NULL;
	if (what)
		buf_printf(out, "; it waited for %s", what);
	put_numbers(d, out);
}

static void put_emergency(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "EMERGENCY: ended %s to save the machine's memory", model);
	if (d->measured_bytes > 0) {
		buf_printf(out, " (");
		put_size(out, d->measured_bytes);
		buf_printf(out, ")");
	}
	if (d->capacity_bytes > 0) {
		buf_printf(out, ": models hold ");
		put_size(out, d->held_bytes);
		buf_printf(out, ", others ");
		put_size(out, d->foreign_bytes);
		buf_printf(out, ", of ");
		put_size(out, d->capacity_bytes);
	}
}

static void put_next_try(const struct decision *d, struct buf *out)
{
	if (d->wait_us <= 0)
		return;
	buf_printf(out, "; next try in ");
	put_time(out, d->wait_us);
}

static void put_cause(const struct decision *d, struct buf *out)
{
	static const char *const texts[CAUSE_COUNT] = {
		[CAUSE_KILLED] = "killed from outside",
		[CAUSE_GROUP_LIMIT] = "killed by the kernel at the control group's memory limit",
		[CAUSE_MACHINE_FULL] = "killed by the kernel because the machine ran out of memory",
		[CAUSE_DEVICE_FULL] = "its device had no memory left for it",
		[CAUSE_HOST_FULL] = "the machine had no memory left for it",
	};
	if (d->cause < CAUSE_COUNT && texts[d->cause])
		buf_printf(out, " (%s)", texts[d->cause]);
}

static void put_death(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "the engine of %s ended by itself", model);
	put_cause(d, out);
	if (d->running)
		buf_printf(out, " with %u request%s running", d->running, plural(d->running));
	put_next_try(d, out);
}

static void put_failure(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "%s could not be loaded", model);
	if (d->load_us > 0) {
		buf_printf(out, ", after ");
		put_time(out, d->load_us);
	}
	if (d->reason == REASON_STALLED)
		buf_printf(out, ": no progress");
	if (d->reason == REASON_SLOW)
		buf_printf(out, ": longer than start_timeout");
	put_cause(d, out);
	put_next_try(d, out);
}

/* The kinds that are one fixed phrase around the model's name. */
static const char *phrase_before(enum decision_kind kind)
{
	static const char *const texts[DECISION_KIND_COUNT] = {
		[DECISION_LOAD] = "loading ",
		[DECISION_UNLOAD] = "unloading ",
		[DECISION_SHRINK] = "giving up idle conversations of ",
		[DECISION_WARM] = "warming the file of ",
	};
	return texts[kind] ? texts[kind] : "";
}

static void put_machine_wide(const struct decision *d, enum decision_kind kind, struct buf *out)
{
	static const char *const texts[DECISION_KIND_COUNT] = {
		[DECISION_GRANT] = "granted a lease",
		[DECISION_DENY] = "denied a lease",
		[DECISION_RECLAIM] = "asked a lease to give back memory",
		[DECISION_COMPACT] = "compacting the machine's memory",
	};
	static const char *const pressure[] = { "the machine's memory suffices again",
		                                "the machine's memory runs short",
		                                "the machine's memory is about to run out" };
	const char *text = texts[kind];

	if (kind == DECISION_PRESSURE) /* need_bytes: enum pressure */
		text = pressure[d->need_bytes >= 0 && d->need_bytes <= 2 ? d->need_bytes : 1];
	buf_printf(out, "%s", text ? text : "nothing was decided");
	if (d->capacity_bytes > 0) {
		buf_printf(out, ": models hold ");
		put_size(out, d->held_bytes);
		buf_printf(out, ", others ");
		put_size(out, d->foreign_bytes);
		buf_printf(out, ", of ");
		put_size(out, d->capacity_bytes);
	}
}

static void put_dispatch(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "a request goes to %s", model);
	if (d->wait_us > 0) {
		buf_printf(out, " after waiting ");
		put_time(out, d->wait_us);
	}
	put_queue(d, out);
}

static void put_drain(const struct decision *d, const char *model, const struct names *names, struct buf *out)
{
	buf_printf(out, "%s takes no new request, to make room for %s", model, name_of(names, d->for_model));
	put_queue(d, out);
	put_regret(d, out);
	put_numbers(d, out);
}

/* Of what a model has in memory. */
static void put_change(const struct decision *d, enum decision_kind kind, const char *model, struct buf *out)
{
	if (kind == DECISION_GROW)
		buf_printf(out, "growing the context of %s from %u to %u tokens", model, d->context_was,
		           d->context_tokens);
	else if (kind == DECISION_SHRINK && d->context_was)
		buf_printf(out, "taking the context of %s back from %u tokens", model, d->context_was);
	else
		buf_printf(out, "%s%s", phrase_before(kind), model);
	put_because(d, out);
	put_numbers(d, out);
}

void decision_text(const struct decision *d, const struct names *names, struct buf *out)
{
	enum decision_kind kind = d->kind < DECISION_KIND_COUNT ? d->kind : DECISION_NONE;
	const char *model = name_of(names, d->model);

	switch (kind) {
	case DECISION_READY:
		put_ready(d, model, out);
		return;
	case DECISION_EVICT:
		put_evict(d, model, names, out);
		return;
	case DECISION_RELEASED:
		put_released(d, model, out);
		return;
	case DECISION_DISPATCH:
		put_dispatch(d, model, out);
		return;
	case DECISION_QUEUE:
		put_queued(d, model, out);
		return;
	case DECISION_REFUSE:
		put_refusal(d, "refused", model, out);
		return;
	case DECISION_CANCEL:
		put_refusal(d, "ended", model, out);
		return;
	case DECISION_LOAD_FAILED:
		put_failure(d, model, out);
		return;
	case DECISION_DIED:
		put_death(d, model, out);
		return;
	case DECISION_DRAIN:
		put_drain(d, model, names, out);
		return;
	case DECISION_DRAIN_END:
		buf_printf(out, "%s serves again: %s", model,
		           d->reason == REASON_OVERDUE ? "it could not be drained in time"
		                                       : "its room is no longer needed");
		return;
	case DECISION_PIN: /* need_bytes: 1 = pinned */
		buf_printf(out, "%s %s", d->need_bytes ? "pinned" : "took the pin off", model);
		put_because(d, out);
		return;
	case DECISION_EMERGENCY:
		put_emergency(d, model, out);
		return;
	case DECISION_GROW:
	case DECISION_SHRINK:
	case DECISION_LOAD:
	case DECISION_UNLOAD:
	case DECISION_WARM:
		put_change(d, kind, model, out);
		return;
	case DECISION_NONE:
	case DECISION_PRESSURE:
	case DECISION_GRANT:
	case DECISION_DENY:
	case DECISION_RECLAIM:
	case DECISION_COMPACT:
	case DECISION_KIND_COUNT:
		put_machine_wide(d, kind, out);
		return;
	}
}

/* ---- a model's present state ---- */

static void put_since(const struct model_view *m, int64_t now_us, struct buf *out)
{
	if (m->loading_since_us > 0 && now_us > m->loading_since_us) {
		buf_printf(out, " for ");
		put_time(out, now_us - m->loading_since_us);
	}
	if (m->permille > 0)
		buf_printf(out, " (%u %%)", m->permille / 10);
}

static void put_why_waiting(const struct model_view *m, struct buf *out)
{
	const char *what = waits_for(m->reason);

	if (what)
		buf_printf(out, ", waits for %s", what);
}

static void put_usage(const struct model_view *m, int64_t now_us, struct buf *out)
{
	if (m->measured_bytes > 0 && m->settled) {
		buf_printf(out, ", takes ");
		put_size(out, m->measured_bytes);
	}
	if (m->last_used_at_us > 0 && now_us > m->last_used_at_us) {
		buf_printf(out, ", last used ");
		put_time(out, now_us - m->last_used_at_us);
		buf_printf(out, " ago");
	}
}

void model_text(const struct model_view *m, int64_t now_us, struct buf *out)
{
	buf_printf(out, "%s is ", m->spec->name);
	switch (m->state) {
	case MODEL_UNLOADED:
		buf_printf(out, "not loaded");
		put_usage(m, now_us, out);
		break;
	case MODEL_QUEUED:
		buf_printf(out, "not loaded yet");
		put_why_waiting(m, out);
		break;
	case MODEL_LOADING:
		buf_printf(out, "loading");
		put_since(m, now_us, out);
		break;
	case MODEL_IDLE:
		buf_printf(out, "loaded and idle");
		put_usage(m, now_us, out);
		break;
	case MODEL_BUSY:
		buf_printf(out, "answering %u request%s", m->running, plural(m->running));
		put_usage(m, now_us, out);
		break;
	case MODEL_DRAINING:
		buf_printf(out, "draining: %u request%s still run%s", m->running, plural(m->running),
		           m->running == 1 ? "s" : "");
		break;
	case MODEL_UNLOADING:
		buf_printf(out, "unloading");
		put_usage(m, now_us, out);
		break;
	case MODEL_RESIZING:
		buf_printf(out, "changing its context");
		break;
	case MODEL_SLEEPING:
		buf_printf(out, "asleep");
		break;
	case MODEL_FAILED:
		buf_printf(out, "out of service after %u failure%s in a row", m->failures,
		           plural(m->failures));
		if (m->retry_at_us > now_us) {
			buf_printf(out, ", next try in ");
			put_time(out, m->retry_at_us - now_us);
		}
		break;
	case MODEL_STATE_COUNT:
		break;
	}
	if (m->queued)
		buf_printf(out, "; %u request%s wait%s for it", m->queued, plural(m->queued),
		           m->queued == 1 ? "s" : "");
	if (m->pinned)
		buf_printf(out, "; pinned");
}

/* ---- a plan ---- */

static void put_victims(const struct plan *plan, const struct names *names, struct buf *out)
{
	int64_t total = 0;

	for (uint32_t i = 0; i < plan->victims; i++) {
		buf_printf(out, "%s%s", i == 0 ? "" : i + 1 == plan->victims ? " and " : ", ",
		           name_of(names, plan->victim[i]));
		total += plan->victim_bytes[i];
	}
	buf_printf(out, " (");
	put_size(out, total);
	buf_printf(out, ")");
}

/* The numbers that the decision would be made by; the model's own where it came to none. */
static void put_plan_numbers(const struct plan *plan, struct buf *out)
{
	bool asked = plan->asked_bytes > 0, never = asked && plan->fits == FITS_NEVER;

	buf_printf(out, never ? ": needs at least " : ": needs ");
	put_size(out, asked ? plan->asked_bytes : plan->peak_bytes);
	buf_printf(out, never ? ", at most " : asked ? ", " : " at the peak of its load, ");
	put_size(out, asked ? plan->room_bytes : plan->free_bytes);
	buf_printf(out, never ? " can be free" : " free");
	const char *binds = what_binds(plan->reason);
	if (binds)
		buf_printf(out, " %s", binds);
}

void plan_text(const struct plan *plan, const char *model, const struct names *names, struct buf *out)
{
	if (plan->loaded) {
		buf_printf(out, "%s is loaded: nothing has to go for it", model);
		return;
	}
	switch (plan->fits) {
	case FITS_NOW:
		buf_printf(out, "%s fits now", model);
		break;
	case FITS_TIGHT:
		buf_printf(out, "%s fits only tightly, into what is otherwise kept free, with nothing beside it that could go",
		           model);
		break;
	case FITS_AFTER_EVICTION:
		buf_printf(out, "%s fits after ", model);
		if (plan->victims)
			put_victims(plan, names, out);
		else
			buf_printf(out, "others");
		buf_printf(out, " %s", plan->victims == 1 ? "goes" : "go");
		break;
	case FITS_AFTER_LEASE:
		buf_printf(out, "%s fits after a lease ends", model);
		break;
	case FITS_NEVER:
		buf_printf(out, "%s can never fit on this machine", model);
		break;
	case FITS_NOT_NOW:
		buf_printf(out, "%s has to wait for busy or pinned models", model);
		break;
	case FITS_COUNT:
		break;
	}
	put_plan_numbers(plan, out);
}
