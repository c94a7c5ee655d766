#include "core/pace.h"

#include "core/habit.h"
#include "core/instance.h"
#include "core/model.h"

enum {
	SEEN_ENOUGH = 12,
	KEPT_EACH = 4, /* answers of a kind, before what they taught is kept anew; SEEN_ENOUGH is such a one */
	TOKENS_LEAST = 8,
	MOST_UNTIL_KNOWN = 2,
};

static const double near_one = 1.25;    /* of its own requests, at most so many ran beside it */
static const double nobody = 0.1;       /* others that ran meanwhile: less counts as alone */
static const double gain_least = 1.02;  /* for one more at once */
static const double loss_least = 0.95;  /* for one alone instead of two */

void pace_advance(struct arbiter *a)
{
	double since = habit_seconds(a->now - a->paced_at);

	a->paced_at = a->now;
	if (since <= 0 || a->instances_live == 0)
		return;
	for (uint32_t pool = 0; pool < a->machine.pools; pool++)
		a->pace[pool].crowd += a->pace[pool].active * since;
	INSTANCES_LIVE(a, i)
		i->ran += (i->running.count + i->ending) * since;
}

void pace_changed(struct arbiter *a)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		a->pace[pool].active = 0;
	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		if (instance_busy(i) && !model_is_reservation(model))
			a->pace[model->pool].active += pace_bandwidth(model);
	}
}

void pace_begin(struct arbiter *a, struct request *request)
{
	const struct model *model = model_row(a, request->spec.model);

	request->crowd_at_start = a->pace[model->pool].crowd;
	request->ran_at_start = model_instance(a, model)->ran;
}

static double toward(double old, double x, double by)
{
	return old > 0 ? old + by * (x - old) : x;
}

static void learn_shared(struct pace *pace, double others, double share)
{
	uint32_t crowd = (uint32_t)(others + 0.5);

	if (crowd < 1 || crowd > CROWDS)
		return;
	share = share > 1 ? 1 : share;
	pace->shared[crowd - 1] = toward(pace->shared[crowd - 1], share, 0.1);
	if (pace->seen[crowd - 1] < UINT32_MAX)
		pace->seen[crowd - 1]++;
	if (pace->seen[crowd - 1] % KEPT_EACH == 0)
		pace->dirty = 1;
}

void pace_export(struct pace *pace, uint32_t pool, struct learned_row *out)
{
	*out = (struct learned_row){ .file_key = LEARNED_PACE, .build_key = pool };
	for (uint32_t i = 0; i < CROWDS; i++) {
		out->share_ppb[i] = (int64_t)(pace->shared[i] * 1e9);
		out->answers[i] = pace->seen[i];
	}
	pace->dirty = 0;
}

void pace_import(struct arbiter *a, const struct learned_row *row)
{
	struct pace *pace = &a->pace[row->build_key];

	for (uint32_t i = 0; i < CROWDS; i++) {
		pace->shared[i] = (double)row->share_ppb[i] / 1e9;
		pace->seen[i] = row->answers[i];
	}
}

void pace_end(struct arbiter *a, const struct request *request, int64_t tokens, int64_t decode_us)
{
	struct model *model = model_row(a, request->spec.model);
	const struct instance *instance = instance_find(a, request->instance);
	struct pace *pace = &a->pace[model->pool];
	double ran = habit_seconds(a->now - request->started_at);

	if (tokens < TOKENS_LEAST || decode_us <= 0 || !instance || ran <= 0)
		return;
	double own = (instance->ran - request->ran_at_start) / ran;
	if (own > near_one)
		return;
	double others = (pace->crowd - request->crowd_at_start) / ran - pace_bandwidth(model);
	double speed = (double)tokens / habit_seconds(decode_us);
	if (others < nobody)
		model->habit.speed_alone = toward(model->habit.speed_alone, speed, 0.2);
	else if (model->habit.speed_alone > 0)
		learn_shared(pace, others, speed / model->habit.speed_alone);
}

double pace_most(const struct arbiter *a, uint32_t pool)
{
	const struct pace *pace = &a->pace[pool];
	double most = 1, gain = 1;

	if (pace->seen[0] < SEEN_ENOUGH)
		return MOST_UNTIL_KNOWN;
	if (2 * pace->shared[0] >= loss_least) {
		most = 2;
		gain = 2 * pace->shared[0];
	}
	for (uint32_t i = 1; i < CROWDS && pace->seen[i] >= SEEN_ENOUGH; i++) {
		double together = (i + 2) * pace->shared[i];
		if (together < gain * gain_least)
			continue;
		most = i + 2;
		gain = together;
	}
	return most;
}
