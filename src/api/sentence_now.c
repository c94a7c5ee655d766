/* What a model is doing now, and what a plan for it means. */
#include "api/sentence_parts.h"

/* ---- a model's present state ---- */

static void put_since(const struct model_view *m, int64_t now_us, struct buf *out)
{
	if (m->loading_since_us > 0 && now_us > m->loading_since_us) {
		buf_printf(out, " for ");
		sentence_time(out, now_us - m->loading_since_us);
	}
	if (m->permille > 0)
		buf_printf(out, " (%u %%)", m->permille / 10);
}

static void put_why_waiting(const struct model_view *m, struct buf *out)
{
	const char *what = sentence_waits_for(m->reason);

	if (what)
		buf_printf(out, ", waits for %s", what);
}

static void put_usage(const struct model_view *m, int64_t now_us, struct buf *out)
{
	if (m->measured_bytes > 0 && m->settled) {
		buf_printf(out, ", takes ");
		sentence_size(out, m->measured_bytes);
	}
	if (m->last_used_at_us > 0 && now_us > m->last_used_at_us) {
		buf_printf(out, ", last used ");
		sentence_time(out, now_us - m->last_used_at_us);
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
		buf_printf(out, "answering %u request%s", m->running, sentence_plural(m->running));
		put_usage(m, now_us, out);
		break;
	case MODEL_DRAINING:
		buf_printf(out, "draining: %u request%s still run%s", m->running, sentence_plural(m->running),
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
		           sentence_plural(m->failures));
		if (m->retry_at_us > now_us) {
			buf_printf(out, ", next try in ");
			sentence_time(out, m->retry_at_us - now_us);
		}
		break;
	case MODEL_STATE_COUNT:
		break;
	}
	if (m->queued)
		buf_printf(out, "; %u request%s wait%s for it", m->queued, sentence_plural(m->queued),
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
		           sentence_name(names, plan->victim[i]));
		total += plan->victim_bytes[i];
	}
	buf_printf(out, " (");
	sentence_size(out, total);
	buf_printf(out, ")");
}

/* The numbers that the decision would be made by; the model's own where it came to none. */
static void put_plan_numbers(const struct plan *plan, struct buf *out)
{
	bool asked = plan->asked_bytes > 0, never = asked && plan->fits == FITS_NEVER;

	buf_printf(out, never ? ": needs at least " : ": needs ");
	sentence_size(out, asked ? plan->asked_bytes : plan->peak_bytes);
	buf_printf(out, "%s", never && plan->measured ? " as measured" : "");
	buf_printf(out, never ? ", at most " : asked ? ", " : " at the peak of its load, ");
	sentence_size(out, asked ? plan->room_bytes : plan->free_bytes);
	buf_printf(out, never ? " can be free" : " free");
	const char *binds = sentence_binds(plan->reason);
	if (binds)
		buf_printf(out, " %s", binds);
	if (never)
		buf_printf(out, "; %s", fail_never_remedy(plan->reason));
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
