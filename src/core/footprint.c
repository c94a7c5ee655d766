#include "core/footprint.h"

#include "core/habit.h"
#include "core/instance.h"
#include "core/kept.h"
#include "core/learn.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/policy.h"

#define SECOND INT64_C(1000000)

/* Weight of the assumption about a model never measured: ratio 1, spread 17 %. */
static const double prior_weight = 2, prior_variance = 0.17 * 0.17;
static const double least_spread = 0.012, first_spread = 0.05;
static const double caution_most = CAUTION_MILLI_MAX / 1000.0, caution_least = 0.2, caution_share = 0.1;

static bool learns(const struct arbiter *a)
{
	return policy_ops((enum policy)a->machine.policy)->learns;
}

static double clamp(double x, double least, double most)
{
	return x < least ? least : x > most ? most : x;
}

/* No more than the ledger takes of one amount: sums of such do not overflow. */
static struct amount scaled(const struct arbiter *a, const struct amount *amount, double by)
{
	struct amount out = { 0 };
	double most = (double)a->bytes_max;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (amount->bytes[pool][use] != 0)
				out.bytes[pool][use] = (int64_t)clamp(
					(double)amount->bytes[pool][use] * by, -most, most);
	return out;
}

/* ---- learning ---- */

/* By whole numbers, so that what goes leaves no trace. `by`: 1 or -1. */
static void count_ratio(struct arbiter *a, const struct model *model, int by)
{
	const double whole = 4294967296.0;
	double ratio = model->habit.ratio;

	if (!model->present || !model->habit.samples)
		return;
	a->ratios += by * (int64_t)(ratio * whole);
	a->ratios_squared += by * (int64_t)(ratio * ratio * whole);
	a->ratios_known += (uint32_t)by;
}

void footprint_join(struct arbiter *a, const struct model *model)
{
	count_ratio(a, model, 1);
}

void footprint_leave(struct arbiter *a, const struct model *model)
{
	count_ratio(a, model, -1);
}

static void learn_ratio(struct arbiter *a, struct model *model, double x)
{
	struct habit *habit = &model->habit;
	double by = habit->samples < 20 ? 0.15 : 0.04;

	footprint_leave(a, model);
	x = clamp(x, 0.1, 10);
	if (habit->samples == 0) {
		habit->ratio = x;
		habit->variance = first_spread * first_spread;
	} else {
		habit->ratio += by * (x - habit->ratio);
		double off = x - habit->ratio;
		habit->variance += by * (off * off - habit->variance);
	}
	if (habit->variance < least_spread * least_spread)
		habit->variance = least_spread * least_spread;
	if (habit->samples < UINT32_MAX)
		habit->samples++;
	footprint_join(a, model);
}

static double first_rest(const struct model *model)
{
	double base = (double)amount_total(&model->spec.base);

	return base * (model->spec.flags & MODEL_EXPERTS ? 0.08 : 0.02);
}

static void learn_rest(const struct arbiter *a, struct model *model,
                       const struct instance *instance)
{
	struct habit *habit = &model->habit;
	struct amount needs = scaled(a, &instance->needs, clamp(habit->ratio, 0.5, 2));
	int64_t running = kept_applies(model) ? instance->kv_bytes : amount_total(&needs);
	double idle = (double)(amount_total(&instance->base) + running);
	double beyond = (double)amount_total(&instance->own) - idle;
	double since = habit_seconds(a->now - a->habits_at);
	double before = habit->runs_seen ? habit->rest : first_rest(model);

	double faded = 1e-5 * clamp(since, 0, 10) * (double)amount_total(&model->spec.base);
	/* A single sample may be wrong; a short peak comes again. */
	double sure = beyond < habit->rest_once ? beyond : habit->rest_once;
	habit->rest = sure > before - faded ? sure : before - faded;
	habit->rest_once = beyond > habit->rest_once - faded ? beyond : habit->rest_once - faded;
	habit->rest = clamp(habit->rest, 0, (double)a->bytes_max);
	if (habit->runs_seen < UINT32_MAX)
		habit->runs_seen++;
}

/* What was never touched is not seen: it counts as estimated. */
static double unseen(const struct model *model, const struct instance *instance, double own)
{
	double short_of = (double)amount_total(&model->spec.base) - own;

	return clamp(short_of, 0, (double)learn_untouched(model, instance));
}

static void learn_footprint(struct arbiter *a, const struct instance *instance)
{
	struct model *model = model_row(a, instance->model);
	double base = (double)amount_total(&model->spec.base);
	double own = (double)(amount_total(&instance->own) - instance->kept.total_bytes);
	bool ready = instance->state == INSTANCE_READY || instance->state == INSTANCE_DRAINING;

	if (!instance->complete || !instance->fresh || instance->outdated || base <= 0)
		return;
	if (ready && !instance_busy(instance) && instance->kept.settling)
		return; /* what it holds is not known yet */
	if (ready && !instance_busy(instance))
		learn_ratio(a, model, (own + unseen(model, instance, own)) / base);
	else if (ready && model->habit.samples)
		learn_rest(a, model, instance);
	else if (instance->state == INSTANCE_LOADING && instance->permille > 250 &&
	         model->spec.flags & MODEL_LINEAR_LOAD)
		learn_ratio(a, model, own / (base * instance->permille / 1000));
}

/* What it is counted with follows what was learned. */
static void follow(struct arbiter *a, struct instance *instance)
{
	struct model *model = model_row(a, instance->model);
	double before = (double)amount_total(&instance->base);

	if (!learns(a) || instance->state > INSTANCE_DRAINING || instance->outdated)
		return;
	struct amount sigma = footprint_sigma(a, model);
	instance->base = footprint_base(a, model);
	/* The rest is beyond the base: what the base grew by is in it no more. */
	double grown = (double)amount_total(&instance->base) - before;
	if (grown > 0 && instance->state != INSTANCE_LOADING && model->habit.runs_seen) {
		model->habit.rest = clamp(model->habit.rest - grown, 0, model->habit.rest);
		model->habit.rest_once = clamp(model->habit.rest_once - grown, 0, model->habit.rest_once);
	}
	ledger_spread(a, instance, &sigma);
	instance_reclaim(a, instance);
}

/* Were it wrong, no sample could show it, for nothing would ever run. */
void footprint_doubt(struct model *model)
{
	model->habit.rest *= 0.8;
	model->habit.rest_once *= 0.8;
}

void footprint_sample(struct arbiter *a, struct instance *instance)
{
	learn_footprint(a, instance);
	follow(a, instance);
}

/* The prior: what those that were measured have in common. */
static void learn_prior(struct arbiter *a)
{
	const double whole = 4294967296.0;
	double known = a->ratios_known, count = known + prior_weight;
	double sum = (double)a->ratios / whole, squares = (double)a->ratios_squared / whole;

	a->ratio_mean = (sum + prior_weight) / count;
	double off = squares - 2 * a->ratio_mean * sum + known * a->ratio_mean * a->ratio_mean;
	a->ratio_variance = (prior_weight * prior_variance + (off > 0 ? off : 0)) / count;
}

/* How much others' use rises within half a minute: a load takes about that. */
static void learn_foreign(struct arbiter *a)
{
	const double least = 0.1e18, first = 0.25e18;

	if (a->foreign_kept && a->now - a->foreign_kept_at < SECOND - SECOND / 20)
		return;
	uint32_t place = a->foreign_kept % FOREIGN_KEPT;
	uint32_t oldest = (a->foreign_kept + 1) % FOREIGN_KEPT;
	for (uint32_t pool = 0; pool < a->machine.pools; pool++) {
		int64_t now = ledger_foreign(a, pool);
		double *variance = &a->foreign_variance[pool];
		a->foreign_was[pool][place] = now;
		if (!a->foreign_kept)
			*variance = first;
		if (a->foreign_kept < FOREIGN_KEPT - 1)
			continue;
		double risen = (double)(now - a->foreign_was[pool][oldest]);
		risen = risen > 0 ? risen : 0;
		*variance += 0.01 * (risen * risen - *variance);
		*variance = *variance > least ? *variance : least;
	}
	a->foreign_kept_at = a->now;
	a->foreign_kept++;
	if (a->foreign_kept == 2 * FOREIGN_KEPT)
		a->foreign_kept = FOREIGN_KEPT; /* only its remainder counts from here */
}

bool footprint_foreign_falls(const struct arbiter *a)
{
	const uint32_t seconds = 5;

	if (a->foreign_kept <= seconds)
		return false;
	/* The newest stands before the place of the next. */
	uint32_t before = (a->foreign_kept - 1 - seconds) % FOREIGN_KEPT;
	for (uint32_t pool = 0; pool < a->machine.pools; pool++)
		if (ledger_foreign(a, pool) < a->foreign_was[pool][before] - a->capacity[pool] / 100)
			return true;
	return false;
}

void footprint_sampled(struct arbiter *a)
{
	learn_prior(a);
	learn_foreign(a);
	a->habits_at = a->now;
	if (!learns(a))
		return;
	/* Of which little is known, that follows what is known of the others. */
	INSTANCES_LIVE(a, i) {
		bool loads = i->state == INSTANCE_LOADING;
		if (loads && !i->outdated)
			i->expects = UINT32_MAX; /* to be counted anew */
		if (loads || !model_row(a, i->model)->habit.samples)
			follow(a, i);
	}
	footprint_expect(a);
}

/* ---- lack of memory ---- */

static void keep_caution(struct arbiter *a, struct model *model, double caution)
{
	model->habit.caution = caution;
	if (model->learned.loads && !model->learned_dirty) {
		model->learned_dirty = 1;
		a->learned_dirty++;
	}
}

void footprint_ran_out(struct arbiter *a, struct model *model)
{
	keep_caution(a, model, clamp(model->habit.caution + 1, 0, caution_most));
}

void footprint_in_peace(struct arbiter *a, struct model *model)
{
	double left = model->habit.caution / 2;

	if (model->habit.caution > 0)
		keep_caution(a, model, left < caution_least ? 0 : left);
}

/* ---- what to count with ---- */

static bool is_declared(const struct model *model)
{
	return model->spec.flags & MODEL_DECLARED;
}

struct amount footprint_base(const struct arbiter *a, const struct model *model)
{
	if (!learns(a) || is_declared(model) || model->learned.loads)
		return model_base(model);
	double ratio = model->habit.samples ? model->habit.ratio : a->ratio_mean;
	return scaled(a, &model->spec.base, ratio > 0 ? ratio : 1);
}

struct amount footprint_swing(const struct arbiter *a, const struct model *model,
                          const struct amount *needs, bool busy)
{
	struct amount swing = { 0 };
	double ratio = model->habit.samples ? model->habit.ratio : a->ratio_mean;
	uint32_t most_pool = 0, most_use = 0;

	if (!learns(a) || !busy || is_declared(model))
		return swing;
	/* Bytes of KV a token are exact; what is learned of the rest says nothing of them. */
	if (!kept_applies(model))
		swing = scaled(a, needs, clamp(ratio > 0 ? ratio : 1, 0.5, 2) - 1);
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (model->spec.base.bytes[pool][use] > model->spec.base.bytes[most_pool][most_use]) {
				most_pool = pool;
				most_use = use;
			}
	double rest = model->habit.runs_seen ? model->habit.rest : first_rest(model);
	swing.bytes[most_pool][most_use] += (int64_t)rest;
	return swing;
}

static struct amount spread(const struct arbiter *a, const struct model *model)
{
	if (!learns(a) || is_declared(model))
		return model_sigma(model);
	double variance = model->habit.samples ? model->habit.variance : a->ratio_variance;
	if (!model->habit.samples && model->learned.loads)
		return model->learned.sigma;
	return scaled(a, &model->spec.base, __builtin_sqrt(variance > 0 ? variance : prior_variance));
}

struct amount footprint_sigma(const struct arbiter *a, const struct model *model)
{
	struct amount sigma = spread(a, model);

	return model->habit.caution > 0 ? scaled(a, &sigma, 1 + model->habit.caution) : sigma;
}

uint32_t footprint_expects(const struct model *model)
{
	uint32_t waiting = model->queue.count ? model->queue.count : 1;

	return waiting < model->spec.slots ? waiting : model->spec.slots;
}

/* Of those who will run as soon as it is ready. */
static struct amount expected_needs(const struct arbiter *a, const struct model *model,
                                    uint32_t expects)
{
	struct amount needs = { 0 };

	if (!kept_applies(model))
		return scaled(a, &model->spec.per_request, expects);
	for (struct request *r = model_head(a, model); r && expects; r = request_link(a, r->next), expects--)
		amount_add(&needs, &r->spec.need);
	return needs;
}

static struct amount expected_peak(const struct arbiter *a, const struct model *model, uint32_t expects)
{
	struct amount peak, running;

	if (!learns(a))
		return model_peak(model);
	struct amount base = footprint_base(a, model);
	struct amount beyond = amount_max(&model->spec.peak, &model->spec.base);
	amount_subtract(&beyond, &model->spec.base);
	peak = base;
	amount_add(&peak, &beyond);
	if (model->learned.loads)
		peak = amount_max(&peak, &model->learned.peak);
	struct amount needs = expected_needs(a, model, expects);
	running = base;
	amount_add(&running, &needs);
	struct amount swing = footprint_swing(a, model, &needs, true);
	amount_add(&running, &swing);
	return amount_max(&peak, &running);
}

struct amount footprint_peak(const struct arbiter *a, const struct model *model, uint32_t expects)
{
	struct amount peak = expected_peak(a, model, expects);

	if (model->habit.caution > 0) {
		struct amount base = footprint_base(a, model);
		struct amount more = scaled(a, &base, caution_share * model->habit.caution);
		amount_add(&peak, &more);
	}
	return peak;
}

void footprint_expect(struct arbiter *a)
{
	if (!learns(a))
		return;
	INSTANCES_APART(a, i) {
		const struct model *model = model_row(a, i->model);
		uint32_t expects = footprint_expects(model);
		if (i->state != INSTANCE_LOADING || i->expects == expects)
			continue;
		struct amount peak = footprint_peak(a, model, expects);
		i->expects = expects;
		ledger_claim(a, i, &peak);
	}
}
