/*
 * A plan is the decision itself, made on a copy: the used rows of each table go
 * to the scratch block, a load is asked for there, and what follows is read off
 * its actions.
 */
#include <assert.h>
#include <string.h>

#include "core/instance.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/request.h"
#include "core/work.h"

static void copy_rows(const struct arbiter *a, void *scratch, uint64_t at, uint64_t bytes)
{
	memcpy((char *)scratch + at, (const char *)a + at, bytes);
}

static struct arbiter *copy_used(const struct arbiter *a, void *scratch)
{
	copy_rows(a, scratch, 0, sizeof(*a));
	copy_rows(a, scratch, a->requests_at, a->requests_used * sizeof(struct request));
	copy_rows(a, scratch, a->models_at, a->models_used * sizeof(struct model));
	copy_rows(a, scratch, a->instances_at, a->instances_used * sizeof(struct instance));
	copy_rows(a, scratch, a->dues_at, a->dues * sizeof(struct due));
	return scratch;
}

/* The numbers of the first decision about it: later ones have the room that others left. */
static void read_numbers(const struct decision *decision, uint32_t model, struct plan *out)
{
	bool loads = (decision->kind == DECISION_LOAD || decision->kind == DECISION_REFUSE) &&
	             decision->model == model;
	bool evicts = decision->kind == DECISION_EVICT && decision->for_model == model;

	if (out->asked_bytes > 0 || (!loads && !evicts))
		return;
	out->asked_bytes = decision->need_bytes;
	out->measured = decision->fail == FAIL_NEVER_FITS && decision->measured_bytes > 0;
	out->room_bytes = decision->room_bytes;
}

static void read_decision(const struct decision *decision, uint32_t model, struct plan *out)
{
	read_numbers(decision, model, out);
	if (decision->kind == DECISION_EVICT && decision->for_model == model) {
		out->fits = FITS_AFTER_EVICTION;
		out->reason = (enum reason)decision->reason;
		if (out->victims < PLAN_VICTIMS_MAX) {
			out->victim[out->victims] = decision->model;
			out->victim_regret_milli[out->victims] = decision->regret_milli;
			out->victim_prefill_us[out->victims] = decision->prefill_us;
			out->victim_bytes[out->victims++] = decision->claim_bytes;
		}
	}
	if (decision->kind == DECISION_LOAD && decision->model == model) {
		out->fits = decision->reason == REASON_ALONE ? FITS_TIGHT : FITS_NOW;
		out->reason = (enum reason)decision->reason;
	}
}

static void read_action(const struct action *action, struct id asked, uint32_t model,
                        struct plan *out)
{
	if (action->type == ACTION_RECORD)
		read_decision(&action->decision, model, out);
	if (!id_equal(action->request, asked))
		return;
	if (action->type == ACTION_DONE) {
		out->fits = FITS_NOW;
		out->reason = REASON_NONE;
		out->loaded = true;
	}
	if (action->type == ACTION_REJECT) {
		out->fits = action->fail == FAIL_NEVER_FITS ? FITS_NEVER : FITS_NOT_NOW;
		out->reason = (enum reason)action->reason;
	}
}

static void ask(struct arbiter *copy, uint32_t model, struct plan *out)
{
	struct id asked = { copy->limits.requests, 1 }; /* the row no shell may name */
	struct request_spec spec = {
		.model = model,
		.kind = REQUEST_LOAD,
		.priority = model_row(copy, model)->spec.priority,
		.deadline_at_us = NEVER,
	};
	struct action item;
	struct actions actions = { .items = &item, .capacity = 1 };

	copy->settled = 0;
	request_arrived(copy, asked, &spec);
	do {
		while (!outbox_move(copy, &actions) || actions.count) {
			read_action(&item, asked, model, out);
			actions.count = 0;
		}
	} while (work_once(copy));
}

/*
 * What stands between the model and its room. The reasons of loads and evictions say why they are made
 * and not that: nothing does where it fits, and what sets the free bytes where others have to go.
 */
static enum reason what_binds(const struct plan *plan, const struct pool_view *pool)
{
	switch (plan->fits) {
	case FITS_NOW:
		return REASON_NONE;
	case FITS_TIGHT:
	case FITS_AFTER_EVICTION:
	case FITS_AFTER_LEASE:
		return (enum reason)pool->binds;
	case FITS_NEVER:
	case FITS_NOT_NOW:
	case FITS_COUNT:
		break;
	}
	return plan->reason;
}

bool arbiter_plan(const struct arbiter *a, uint32_t index, void *scratch, struct plan *out)
{
	assert(!a->working);
	if (index >= a->models_used || !model_row(a, index)->present)
		return false;

	struct arbiter *copy = copy_used(a, scratch);
	struct model *model = model_row(copy, index);
	struct amount base = model_base(model);
	struct amount peak = model_peak(model);
	struct pool_view pool;

	arbiter_pool(a, amount_main_pool(&peak), &pool);
	*out = (struct plan){
		.fits = FITS_NOT_NOW,
		.need_bytes = amount_total(&base),
		.peak_bytes = amount_total(&peak),
		.free_bytes = pool.free_bytes,
		.wait_estimate_us = model->learned.load_us ? model->learned.load_us
		                                           : model->spec.load_expected_us,
	};
	if (model_backing_off(a, model))
		out->wait_estimate_us += model->retry_at - a->now;
	if (model_resident(a, model))
		out->wait_estimate_us = 0;
	ask(copy, index, out);
	if (out->fits == FITS_NOT_NOW && out->reason == REASON_NONE) {
		out->reason = model_reason(copy, model);
		if (out->reason == REASON_LOADING && model->instance)
			out->fits = FITS_NOW;
		if (out->reason == REASON_UNLOADING)
			out->fits = FITS_AFTER_EVICTION;
	}
	if (out->fits == FITS_NEVER)
		out->wait_estimate_us = 0; /* there is nothing to wait for */
	out->reason = what_binds(out, &pool);
	return true;
}
