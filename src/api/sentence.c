#include "api/sentence.h"

#include <string.h>
#include <sys/wait.h>

#include "api/sentence_parts.h"

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
		[REASON_CAPACITY] = "because no request that came for it has room beside it",
		[REASON_VIEW] = "because no request that came for it has room beside it",
		[REASON_LIMIT] = "because no request that came for it has room beside it",
		[REASON_CONTEXT] = "to give it a larger context",
		[REASON_BLIND] = "because the machine's memory cannot be read",
	};
	return reason < REASON_COUNT && texts[reason] ? texts[reason] : "";
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
	sentence_size(out, d->need_bytes);
	buf_printf(out, never ? "%s, at most " : "%s, ", never && d->measured_bytes > 0 ? " as measured" : "");
	/* A load that took more than it should has left less than nothing. */
	sentence_size(out, d->room_bytes > 0 ? d->room_bytes : 0);
	buf_printf(out, never ? " can be free" : " free");
	if (d->capacity_bytes > 0 && whole) {
		buf_printf(out, " of ");
		sentence_size(out, capped ? allowed : d->capacity_bytes);
	}
	const char *binds = sentence_binds(d->reason);
	if (binds)
		buf_printf(out, " %s", binds);
	else if (capped && d->capacity_bytes > 0 && whole)
		buf_printf(out, " allowed");
	if (never)
		buf_printf(out, "; %s", fail_never_remedy(d->reason));
}

void never_text(const struct decision *d, struct buf *out)
{
	buf_printf(out, "%s", fail_facts(FAIL_NEVER_FITS)->cause);
	put_numbers(d, out);
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
		sentence_time(out, d->load_us);
	}
	if (d->reason == REASON_CONTEXT) {
		buf_printf(out, ", ");
		sentence_time(out, d->wait_us);
		buf_printf(out, " since that was decided");
	}
	if (d->need_bytes > 0) {
		buf_printf(out, ", claims ");
		sentence_size(out, d->need_bytes);
	}
}

static void put_times(uint32_t count, struct buf *out)
{
	static const char *const words[] = { "never", "once", "twice" };

	if (count < 3)
		buf_printf(out, "%s", words[count]);
	else
		buf_printf(out, "%u times", count);
}

void going_text(const struct decision *d, const struct names *names, struct buf *out)
{
	const char *model = sentence_name(names, d->model);
	double cost_s = (double)d->regret_milli / 1000;

	buf_printf(out, "asked for in the last hour: %s ", model);
	put_times(d->asked, out);
	if (d->for_model != MODEL_NONE) {
		buf_printf(out, ", %s ", sentence_name(names, d->for_model));
		put_times(d->asked_for, out);
	}
	buf_printf(out, "; bringing %s back ", model);
	if (d->load_us > 0) {
		buf_printf(out, "takes ");
		sentence_time(out, d->load_us);
		buf_printf(out, " and ");
	}
	buf_printf(out, "was expected to cost ");
	if (cost_s < 0.05) {
		buf_printf(out, "next to nothing, so seldom is it asked for");
		return;
	}
	buf_printf(out, "%.1f s of waiting, weighted by class", cost_s);
	if (d->prefill_us >= 100000) {
		buf_printf(out, " (");
		sentence_time(out, d->prefill_us);
		buf_printf(out, " to read its conversations again)");
	}
}

static void put_going(const struct decision *d, const struct names *names, struct buf *out)
{
	if (!d->regret_milli && !d->asked && !d->asked_for)
		return;
	buf_printf(out, "; ");
	going_text(d, names, out);
}

static void put_evict(const struct decision *d, const char *model, const struct names *names,
                      struct buf *out)
{
	bool was_used = d->idle_us > 0 && d->idle_us < d->at_us; /* else it is as old as the clock */
	const char *before = " (";

	buf_printf(out, "evicted %s", model);
	if (was_used) {
		buf_printf(out, "%sused ", before);
		sentence_time(out, d->idle_us);
		buf_printf(out, " ago");
		before = ", ";
	}
	if (d->measured_bytes > 0) {
		buf_printf(out, "%s", before);
		sentence_size(out, d->measured_bytes);
		before = ", ";
	}
	if (d->claim_bytes > 0 && sentence_differ(d->measured_bytes, d->claim_bytes)) {
		buf_printf(out, "%sclaim: ", before);
		sentence_size(out, d->claim_bytes);
		before = ", ";
	}
	if (*before == ',')
		buf_printf(out, ")");
	if (d->for_model != MODEL_NONE)
		buf_printf(out, " to make room for %s", sentence_name(names, d->for_model));
	else
		put_because(d, out);
	put_numbers(d, out);
	put_going(d, names, out);
}

/* What was measured, of itself and of the machine, which others move too; what was promised where that is another. */
static void put_released(const struct decision *d, const char *model, struct buf *out)
{
	int64_t machine = d->machine_bytes;

	if (d->outside)
		buf_printf(out, "%s's server is let go of, it had ", model);
	else if (d->measured_bytes > 0)
		buf_printf(out, "%s gave back ", model);
	else
		buf_printf(out, "%s ended before it was measured", model);
	if (d->measured_bytes > 0 || d->outside)
		sentence_size(out, d->measured_bytes);
	if (d->outside)
		return;
	buf_printf(out, " (machine: ");
	sentence_size(out, machine < 0 ? -machine : machine);
	buf_printf(out, "%s", machine < 0 ? " more in use" : "");
	if (sentence_differ(d->measured_bytes, d->claim_bytes)) {
		buf_printf(out, ", claim: ");
		sentence_size(out, d->claim_bytes);
	}
	buf_printf(out, ")");
	if (d->wait_us > 0) {
		buf_printf(out, ", seen ");
		sentence_time(out, d->wait_us);
		buf_printf(out, " after its end");
	}
}

/* What was asked for: by a client, or by a person. */
static void put_asked(const struct decision *d, const char *model, struct buf *out)
{
	static const char *const words[REQUEST_KIND_COUNT] = { "a request for", "a load of", "an unload of",
		                                               "a stop of" };
	bool by_command = d->request_kind > REQUEST_INFER && d->request_kind < REQUEST_KIND_COUNT;

	buf_printf(out, "%s %s%s", words[by_command ? d->request_kind : REQUEST_INFER], model,
	           by_command ? " by command" : "");
}

static void put_queued(const struct decision *d, const char *model, struct buf *out)
{
	const char *what = sentence_waits_for(d->reason);

	put_asked(d, model, out);
	buf_printf(out, " waits");
	if (what)
		buf_printf(out, " for %s", what);
	put_queue(d, out);
	put_numbers(d, out);
}

static void put_refusal(const struct decision *d, const char *verb, const char *model, struct buf *out)
{
	buf_printf(out, "%s ", verb);
	put_asked(d, model, out);
	if (d->wait_us > 0) {
		buf_printf(out, " after ");
		sentence_time(out, d->wait_us);
	}
	if (d->fail == FAIL_DEADLINE && d->load_us > 0) {
		buf_printf(out, ", its deadline cannot be met: a load takes at least ");
		sentence_time(out, d->load_us);
	} else {
		buf_printf(out, ", %s", fail_facts((enum fail)d->fail)->cause);
	}
	const char *what = d->fail == FAIL_DEADLINE ? sentence_waits_for(d->reason) : NULL;
	if (what)
		buf_printf(out, "; it waited for %s", what);
	put_numbers(d, out);
}

static void put_emergency(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "EMERGENCY: ended %s to save the machine's memory", model);
	if (d->measured_bytes > 0) {
		buf_printf(out, " (");
		sentence_size(out, d->measured_bytes);
		buf_printf(out, ")");
	}
	if (d->capacity_bytes > 0) {
		buf_printf(out, ": models hold ");
		sentence_size(out, d->held_bytes);
		buf_printf(out, ", others ");
		sentence_size(out, d->foreign_bytes);
		buf_printf(out, ", of ");
		sentence_size(out, d->capacity_bytes);
	}
}

static void put_next_try(const struct decision *d, struct buf *out)
{
	if (d->wait_us <= 0)
		return;
	buf_printf(out, "; next try in ");
	sentence_time(out, d->wait_us);
}

static void put_cause(const struct decision *d, struct buf *out)
{
	static const char *const texts[CAUSE_COUNT] = {
		[CAUSE_KILLED] = "killed from outside, signal 9",
		[CAUSE_GROUP_LIMIT] = "killed by the kernel at the control group's memory limit",
		[CAUSE_MACHINE_FULL] = "killed by the kernel because the machine ran out of memory",
		[CAUSE_DEVICE_FULL] = "its device had no memory left for it",
		[CAUSE_HOST_FULL] = "the machine had no memory left for it",
	};
	if (d->cause < CAUSE_COUNT && texts[d->cause])
		buf_printf(out, " (%s)", texts[d->cause]);
}

/* Of its own accord: with which status, or of which signal. */
static void put_status(const struct decision *d, struct buf *out)
{
	int status = d->exit_status;

	if (WIFSIGNALED(status))
		buf_printf(out, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		buf_printf(out, "status %d", WEXITSTATUS(status));
}

static void put_death(const struct decision *d, const char *model, struct buf *out)
{
	if (d->cause == CAUSE_NONE) {
		buf_printf(out, "%s could not be asked any more", model);
	} else {
		buf_printf(out, "the engine of %s ended", model);
		if (d->cause == CAUSE_CRASHED) {
			buf_printf(out, " by itself, with ");
			put_status(d, out);
		}
		put_cause(d, out);
	}
	if (d->running)
		buf_printf(out, ", with %u request%s running", d->running, sentence_plural(d->running));
	put_next_try(d, out);
}

static void put_failure(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "%s could not be loaded", model);
	if (d->load_us > 0) {
		buf_printf(out, ", after ");
		sentence_time(out, d->load_us);
	}
	if (d->reason == REASON_PRESSURE)
		buf_printf(out, ": the machine's memory ran short");
	if (d->reason == REASON_STALLED)
		buf_printf(out, ": no progress");
	if (d->reason == REASON_SLOW)
		buf_printf(out, ": longer than start_timeout");
	if (d->cause == CAUSE_CRASHED) {
		buf_printf(out, ": its engine ended by itself, with ");
		put_status(d, out);
	}
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
		sentence_size(out, d->held_bytes);
		buf_printf(out, ", others ");
		sentence_size(out, d->foreign_bytes);
		buf_printf(out, ", of ");
		sentence_size(out, d->capacity_bytes);
	}
}

static void put_dispatch(const struct decision *d, const char *model, struct buf *out)
{
	buf_printf(out, "a request goes to %s", model);
	if (d->wait_us > 0) {
		buf_printf(out, " after waiting ");
		sentence_time(out, d->wait_us);
	}
	put_queue(d, out);
}

static void put_drain(const struct decision *d, const char *model, const struct names *names, struct buf *out)
{
	buf_printf(out, "%s takes no new request, ", model);
	if (d->for_model == MODEL_NONE)
		buf_printf(out, "to be unloaded by command when what runs has ended");
	else
		buf_printf(out, "to make room for %s", sentence_name(names, d->for_model));
	put_queue(d, out);
	put_numbers(d, out);
	put_going(d, names, out);
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
	if (kind == DECISION_LOAD && d->reason == REASON_ALONE && d->need_bytes > d->room_bytes)
		buf_printf(out, "; the estimate may be too high, so it is tried and watched");
}

void decision_text(const struct decision *d, const struct names *names, struct buf *out)
{
	enum decision_kind kind = d->kind < DECISION_KIND_COUNT ? d->kind : DECISION_NONE;
	const char *model = sentence_name(names, d->model);

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
