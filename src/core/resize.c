#include "core/resize.h"

#include "core/footprint.h"
#include "core/instance.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/place.h"
#include "core/prospect.h"
#include "core/relief.h"
#include "core/set.h"

static const struct amount nothing;

/* It comes back by itself: somebody waits for it, or it was there before. */
static void will_return(struct model *model)
{
	if (!model->preload)
		model->renewing = model->preload = 1;
}

/* What the larger one will claim, if that fits into what is free and what the smaller one holds. */
static struct amount claim_ahead(const struct arbiter *a, const struct model *model,
                                 const struct instance *instance, struct verdict *out)
{
	struct amount peak = footprint_peak(a, model, footprint_expects(model));
	struct amount sigma = footprint_sigma(a, model);
	struct outlook outlook;

	outlook_now(a, &outlook);
	outlook_remove(&outlook, instance);
	*out = outlook_weigh(a, &outlook, &peak, &sigma);
	return out->fits ? peak : nothing;
}

void resize_model(struct arbiter *a, struct model *model, uint64_t request)
{
	struct instance *instance = model_instance(a, model);
	uint32_t was = instance ? instance->context_tokens : 0;

	model->spec.flags &= ~(uint32_t)MODEL_RESIZE;
	if (!instance || instance->state >= INSTANCE_STOPPING || was >= model->spec.context_tokens || a->shutdown)
		return;
	struct verdict verdict;
	struct amount ahead = claim_ahead(a, model, instance, &verdict);
	struct decision decision = decision_about(a, DECISION_GROW, REASON_REQUEST, model);
	decision_weighed(a, &decision, &verdict);
	decision.request = request;
	decision.context_was = was;
	decision.context_tokens = model->spec.context_tokens;
	decision_record(a, &decision);

	model->resize_at = a->now;
	model->resize_claim = ahead;
	bool ends_anyway = instance->state == INSTANCE_DRAINING && !instance->drain_for;
	if (!ends_anyway)
		will_return(model);
	if (instance->state == INSTANCE_LOADING)
		instance_end(a, instance, ACTION_ABORT_LOAD, REASON_CONTEXT);
	else if (!ends_anyway)
		instance_drain(a, instance, REASON_CONTEXT, NULL);
	instance_reclaim(a, instance);
}

void resize_give_up(struct arbiter *a, struct model *model)
{
	struct instance *instance = model_instance(a, model);

	model->resize_at = 0;
	model->resize_claim = nothing;
	if (instance)
		instance_reclaim(a, instance);
}

void resize_ready(struct arbiter *a, struct model *model, struct decision *decision)
{
	if (!model->resize_at)
		return;
	model->resizes++;
	decision->reason = REASON_CONTEXT;
	decision->wait_us = a->now - model->resize_at;
	decision->context_tokens = model_instance(a, model)->context_tokens;
	model->resize_us += decision->wait_us;
	resize_give_up(a, model);
	model_refresh(a, model);
}

static bool load_at_once(struct arbiter *a, struct model *model)
{
	struct outlook now;
	struct verdict verdict;

	if (!place_wants_load(a, model) || a->shutdown || place_load_gate(a, model) != REASON_NONE)
		return false;
	struct want want = place_want(a, model, model_head(a, model));
	outlook_now(a, &now);
	if (!place_admits(a, &want, &now, &verdict))
		return false;
	place_start_load(a, &want, &verdict);
	return true;
}

void resize_load(struct arbiter *a, struct model *model)
{
	if (!model->resize_at)
		return;
	model->resize_claim = nothing;
	if (!load_at_once(a, model) && !model->queue.count)
		resize_give_up(a, model); /* it comes back when there is room, and nobody waits for that */
}

bool resize_under_pressure(struct arbiter *a)
{
	INSTANCES_LIVE(a, i) {
		struct model *model = model_row(a, i->model);
		if (i->state != INSTANCE_READY || instance_busy(i) || i->clearing || model->queue.count ||
		    model_pinned(model) || !(model->spec.flags & MODEL_GROWN))
			continue;
		struct decision decision = decision_about(a, DECISION_SHRINK, REASON_PRESSURE, model);
		decision.context_was = i->context_tokens;
		decision.idle_us = a->now - model->last_used_at;
		decision_record(a, &decision);
		model->spec.flags &= ~(uint32_t)MODEL_GROWN;
		will_return(model);
		instance_end(a, i, ACTION_STOP, REASON_PRESSURE);
		return true;
	}
	return false;
}

/* ---- looking ahead ---- */

/* Beside nobody who could go for it the spread that is else kept free may be taken. */
static bool fits(const struct arbiter *a, const struct want *want, const struct outlook *outlook)
{
	bool sole = place_is_sole(a, want, outlook);

	return outlook_weigh(a, outlook, &want->need, sole ? NULL : &want->sigma).fits;
}

/* The account without its own instance, which would go for the other context; `coming` is without who leaves. */
static void without_own(const struct arbiter *a, const struct model *model, struct outlook *now, struct outlook *coming)
{
	const struct instance *instance = model_instance(a, model);

	outlook_now(a, now);
	*coming = outlook_coming(a);
	if (!instance)
		return;
	outlook_remove(now, instance);
	if (instance->state < INSTANCE_STOPPING)
		outlook_remove(coming, instance);
}

enum fits arbiter_fits(const struct arbiter *a, uint32_t index, const struct model_spec *spec)
{
	struct want want = { .model = model_row(a, index) };
	struct model as = *want.model;
	struct outlook now, coming, others;

	as.spec = *spec;
	as.learned = (struct learned_row){ 0 };
	want.need = footprint_peak(a, &as, footprint_expects(&as));
	want.sigma = footprint_sigma(a, &as);
	without_own(a, want.model, &now, &coming);
	if (outlook_weigh(a, &now, &want.need, &want.sigma).fits)
		return FITS_NOW;
	if (fits(a, &want, &now))
		return FITS_TIGHT;
	others = coming;
	prospect_clear(a, &want, false, &others);
	if (fits(a, &want, &others))
		return FITS_AFTER_EVICTION;
	prospect_clear(a, &want, true, &coming);
	return fits(a, &want, &coming) ? FITS_NOT_NOW : FITS_NEVER;
}

/* As if what runs on it had ended, and its conversations were given up, where they are worth that. */
static void without_use(const struct arbiter *a, struct want *want, const struct amount *need, struct outlook *coming)
{
	struct instance *instance = want->instance;

	if (!instance)
		return;
	struct instance rest = *instance;
	rest.needs = nothing;
	rest.running.count = rest.ending = 0;
	rest.kept.settling = 0;
	rest.kept.settling_bytes = rest.kept.settling_least = 0;
	bool given_up = rest.kept.total_bytes >= RELIEF_LEAST_BYTES;
	if (instance->state < INSTANCE_STOPPING)
		outlook_remove(coming, instance);
	want->need = given_up ? instance_claim_cleared(a, &rest, need) : instance_claim_with(a, &rest, need);
	want->lower = want->need;
	want->sigma = instance->sigma;
	want->instance = NULL;
}

enum fits arbiter_fits_request(const struct arbiter *a, uint32_t index, const struct amount *need)
{
	struct model *model = model_row(a, index);
	struct request head = { .spec.need = *need, .arrived_at = a->now };
	struct want want = place_want(a, model, &head);
	struct outlook now, others, coming = outlook_coming(a);
	struct verdict verdict;

	if (!want.instance)
		amount_add(&want.need, need);
	outlook_now(a, &now);
	if (place_admits(a, &want, &now, &verdict))
		return verdict.alone ? FITS_TIGHT : FITS_NOW;
	without_use(a, &want, need, &coming);
	others = coming;
	prospect_clear(a, &want, false, &others);
	if (place_admits(a, &want, &others, &verdict))
		return FITS_AFTER_EVICTION;
	prospect_clear(a, &want, true, &coming);
	return place_admits(a, &want, &coming, &verdict) ? FITS_NOT_NOW : FITS_NEVER;
}
