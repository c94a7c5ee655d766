#include "core/learn.h"

#include "core/instance.h"
#include "core/kept.h"
#include "core/model.h"
#include "core/pace.h"

/* Bytes of an average that moves a fraction of the way to x. */
static int64_t toward(int64_t average, int64_t x, int64_t tenths)
{
	return average + (x - average) / 10 * tenths;
}

int64_t learn_untouched(const struct model *model, const struct instance *instance)
{
	int64_t all = instance->context_tokens, left = all - instance->filled_tokens;

	if (instance->filled_tokens == 0)
		return model->spec.cache_bytes + model->spec.compute_bytes;
	if (all == 0 || left <= 0)
		return model->spec.cache_bytes;
	double share = (double)left / (double)all;
	return model->spec.cache_bytes + (int64_t)((double)model->spec.compute_context_bytes * share);
}

/* Told anew what it holds idle: what was seen before is of less. */
void learn_prompt(const struct arbiter *a, struct instance *instance, int64_t tokens, int64_t read)
{
	int64_t batch = model_row(a, instance->model)->spec.batch_tokens;
	int64_t filled = tokens > batch ? tokens - batch : 1; /* its last batch may be a small one */

	if (batch == 0 || read < batch || filled <= instance->filled_tokens)
		return;
	instance->filled_tokens = filled;
	instance->idle_samples = 0;
}

/*
 * What an instance that holds `idle` will hold when it has worked: as was known, but no
 * less than it holds and no more than with all that it may yet touch.
 */
static int64_t when_worked(int64_t idle, int64_t known, int64_t untouched)
{
	if (known < idle)
		return idle;
	return known < idle + untouched ? known : idle + untouched;
}

static void learn_base(int64_t *base, int64_t *sigma, int64_t x, bool first)
{
	int64_t least = x / 1000 * 12; /* 1.2 %: nothing is known better than that */

	if (first) {
		*base = x;
		*sigma = x / 20;
	} else if (x != *base) { /* else nothing was shown */
		double off = (double)(x - *base);
		double was = (double)*sigma;
		double variance = 0.7 * (was * was + 0.3 * off * off);
		int64_t average = toward(*base, x, 3);
		*base = average > x ? average : x;
		*sigma = (int64_t)__builtin_sqrt(variance);
	}
	if (*sigma < least)
		*sigma = least;
}

static void combine(struct arbiter *a, struct model *model, const struct instance *instance)
{
	struct learned_row row = model->prior;

	row.file_key = model->spec.file_key;
	row.build_key = model->spec.build_key;
	const struct amount *known = row.loads ? &row.base : &model->spec.base;
	struct amount worked = instance->idle;
	worked.bytes[0][USE_HOST] = when_worked(worked.bytes[0][USE_HOST], known->bytes[0][USE_HOST],
	                                        learn_untouched(model, instance));
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			learn_base(&row.base.bytes[pool][use], &row.sigma.bytes[pool][use],
			           worked.bytes[pool][use], row.loads == 0);
	row.peak = amount_max(&row.peak, &instance->load_peak);
	if (amount_total(&instance->sure) > 0)
		row.sure = instance->sure;
	row.load_us = row.loads ? toward(row.load_us, model->last_load_us, 3) : model->last_load_us;
	row.loads++;
	row.prefill_ns = (int64_t)(model->habit.prefill_s * 1e9);
	row.speed_milli = (int64_t)(model->habit.speed_alone * 1e3);
	model->learned = row;
	a->learned_dirty += !model->learned_dirty;
	model->learned_dirty = 1;
}

/*
 * A single sample may be wrong, and what was measured is believed for good: so what
 * two in a row agree on is learned.
 */
static void learn_load_peak(struct instance *instance)
{
	struct amount sure = amount_min(&instance->own, &instance->last);

	instance->load_peak = amount_max(&instance->load_peak, &sure);
	instance->last = instance->own;
}

/* What its next life takes as well: not what it keeps on the side once it has served. */
static struct amount without_caches(const struct model *model, const struct instance *instance,
                                    const struct amount *bare)
{
	struct amount rest = *bare, nothing = { 0 };

	if (!instance->served)
		return rest;
	rest.bytes[0][USE_HOST] -= model->spec.cache_bytes;
	for (uint32_t slot = 0; slot < model->spec.slots && !kept_applies(model); slot++)
		amount_subtract(&rest, &model->spec.per_request);
	return amount_max(&rest, &nothing);
}

/* Were two wrong that agreed, two later ones that show clearly less say so. */
static void learn_sure(const struct model *model, struct instance *instance, const struct amount *bare)
{
	struct amount now = without_caches(model, instance, bare), was = without_caches(model, instance, &instance->last);
	struct amount least = amount_min(&now, &was), most = amount_max(&now, &was);
	int64_t known = amount_total(&instance->sure);

	if (amount_total(&most) < known - known / 16)
		instance->sure = most;
	else
		instance->sure = amount_max(&instance->sure, &least);
}

/* True where it taught anything. The first stands until there is a second. */
static bool learn_idle(const struct model *model, struct instance *instance, const struct amount *bare)
{
	struct amount agreed = instance->idle_samples ? amount_min(bare, &instance->last) : *bare;
	struct amount before = instance->idle, sure_before = instance->sure;
	bool first = instance->idle_samples == 0;

	if (!first)
		learn_sure(model, instance, bare);
	instance->idle = instance->idle_samples < 2 ? agreed : amount_max(&instance->idle, &agreed);
	instance->idle_samples += instance->idle_samples < 2;
	instance->last = *bare;
	return first || !amount_equal(&instance->idle, &before) || !amount_equal(&instance->sure, &sure_before);
}

void learn_sample(struct arbiter *a, struct instance *instance)
{
	struct model *model = model_row(a, instance->model);
	bool ready = instance->state == INSTANCE_READY || instance->state == INSTANCE_DRAINING;

	instance->peak = amount_max(&instance->peak, &instance->own);
	if (!instance->complete || !instance->fresh)
		return;
	if (instance->state == INSTANCE_LOADING)
		learn_load_peak(instance);
	if (!ready)
		return;
	if (instance_busy(instance) || instance->outdated || model_outside(model))
		return;

	/* What conversations hold is not the model's. */
	if (instance->kept.settling)
		return;
	struct amount bare = instance->own, nothing = { 0 };
	bare.bytes[0][USE_HOST] -= instance->kept.total_bytes;
	bare = amount_max(&bare, &nothing);
	if (learn_idle(model, instance, &bare))
		combine(a, model, instance);
}

bool learn_row(struct arbiter *a, const struct learned_row *row)
{
	bool taken = false;

	if (row->file_key == LEARNED_PACE) {
		pace_import(a, row);
		return true;
	}
	for (uint32_t i = 0; i < a->models_used; i++) {
		struct model *model = model_row(a, i);
		if (!model->present || model->spec.file_key != row->file_key ||
		    model->spec.build_key != row->build_key || model->learned.loads > 0)
			continue;
		model->prior = model->learned = *row;
		model_refresh(a, model);
		model->habit.prefill_s = (double)row->prefill_ns / 1e9;
		model->habit.speed_alone = (double)row->speed_milli / 1e3;
		model->habit.caution = (double)row->caution_milli / 1e3;
		taken = true;
	}
	return taken;
}
