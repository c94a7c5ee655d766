/*
 * The earlier policies, as the study that compares with them defines them: they
 * know one number of each model, the estimate of all its slots taken, and look at
 * measured memory beside it.
 */
#include <math.h>
#include <string.h>

#include "sim/study.h"

enum { LOADS_MAX = 2, UNLIMITED_TURNS = 64, NOBODY = -1 };

struct sight {
	struct stage *stage;
	double size; /* B */
};

static double estimate(const struct stage *stage, uint32_t m)
{
	return stage->model[m].is->estimate_gb;
}

/* Measured or estimated, whichever is more. */
static double taken(const struct stage *stage)
{
	double used = stage_measured(stage), estimated = stage_background(stage);

	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].state != STAGE_COLD)
			estimated += estimate(stage, m);
	return used > estimated ? used : estimated;
}

static double pressure(const struct stage *stage)
{
	return stage_measured(stage) / stage->scene->physical_gb;
}

static bool all_cold(const struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].state != STAGE_COLD)
			return false;
	return true;
}

static double unloading(const struct stage *stage)
{
	double gb = 0;

	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].state == STAGE_UNLOADING)
			gb += estimate(stage, m);
	return gb;
}

static bool any_unloading(const struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].state == STAGE_UNLOADING)
			return true;
	return false;
}

static bool is_idle(const struct stage_model *model)
{
	return model->state == STAGE_READY && !model->running.count && !model->queue.count &&
	       !model->pinned && !model->is->external;
}

static int lru_victim(const struct stage *stage)
{
	int oldest = NOBODY;

	for (uint32_t m = 0; m < stage->models; m++)
		if (is_idle(&stage->model[m]) &&
		    (oldest == NOBODY || stage->model[m].last_use < stage->model[oldest].last_use))
			oldest = (int)m;
	return oldest;
}

static double head_arrival(const struct stage *stage, uint32_t m)
{
	return stage->request[stage->model[m].queue.item[0]].arrived_s;
}

/* Of requests, who came first; requests are numbered as they arrive. */
static bool head_before(const struct stage *stage, uint32_t x, uint32_t y)
{
	double a = head_arrival(stage, x), b = head_arrival(stage, y);

	if (a < b || a > b)
		return a < b;
	return stage->model[x].queue.item[0] < stage->model[y].queue.item[0];
}

static void dispatch_all(struct stage *stage)
{
	for (;;) {
		int first = NOBODY;
		for (uint32_t m = 0; m < stage->models; m++) {
			const struct stage_model *model = &stage->model[m];
			if (model->state != STAGE_READY || !model->queue.count ||
			    model->running.count >= model->is->slots)
				continue;
			if (first == NOBODY || head_before(stage, m, (uint32_t)first))
				first = (int)m;
		}
		if (first == NOBODY)
			return;
		stage_start(stage, stage->model[first].queue.item[0]);
	}
}

/* Cold models with a queue, by the arrival of its head. */
static uint32_t waiting_list(const struct stage *stage, uint32_t list[SCENE_MODELS_MAX])
{
	uint32_t count = 0;

	for (uint32_t m = 0; m < stage->models; m++) {
		if (stage->model[m].state != STAGE_COLD || !stage->model[m].queue.count)
			continue;
		uint32_t at = count++;
		while (at > 0 && head_before(stage, m, list[at - 1])) {
			list[at] = list[at - 1];
			at--;
		}
		list[at] = m;
	}
	return count;
}

/* ---- threshold, hysteresis ---- */

void earlier_hear(void *ctx, struct stage *stage, enum stage_news news, uint32_t index)
{
	struct earlier_state *state = ctx;
	enum { KEPT = sizeof(state->pressure) / sizeof(state->pressure[0]) };

	(void)index;
	if (news != NEWS_TICK)
		return;
	if (state->ticks == KEPT) {
		memmove(state->pressure, state->pressure + 1,
		        (KEPT - 1) * sizeof(state->pressure[0]));
		state->ticks--;
	}
	state->pressure[state->ticks++] = pressure(stage);
}

static double slope(const struct earlier_state *state)
{
	double n = state->ticks, x_mean = (n - 1) / 2, y_mean = 0, xy = 0, xx = 0;

	if (state->ticks < 5)
		return 0;
	for (uint32_t i = 0; i < state->ticks; i++)
		y_mean += state->pressure[i] / n;
	for (uint32_t i = 0; i < state->ticks; i++) {
		xy += (i - x_mean) * (state->pressure[i] - y_mean);
		xx += (i - x_mean) * (i - x_mean);
	}
	return xy / xx;
}

static void unload_one(struct stage *stage)
{
	int victim = any_unloading(stage) ? NOBODY : lru_victim(stage);

	if (victim != NOBODY)
		stage_unload(stage, (uint32_t)victim);
}

static bool threshold_fits(const struct earlier_state *state, const struct stage *stage, uint32_t m)
{
	double size = stage->scene->physical_gb, p = pressure(stage);

	switch (state->which) {
	case EARLIER_V1:
		return p < 0.70;
	case EARLIER_THRESHOLD:
		return p < 0.70 && (taken(stage) + estimate(stage, m)) / size < 0.90;
	case EARLIER_HYSTERESIS:
		break;
	}
	return state->open && p + estimate(stage, m) / size < 0.90;
}

static void swing(struct earlier_state *state, struct stage *stage)
{
	double p = pressure(stage);
	double rising = slope(state);
	double ahead = p + 10 * (rising > 0 ? rising : 0);

	if (ahead > 0.90)
		state->open = false;
	if (p < 0.70)
		state->open = true;
	if (!state->open && p >= 0.70)
		unload_one(stage);
}

void threshold_decide(void *ctx, struct stage *stage)
{
	struct earlier_state *state = ctx;
	uint32_t list[SCENE_MODELS_MAX];

	dispatch_all(stage);
	if (state->which == EARLIER_HYSTERESIS)
		swing(state, stage);
	else if (pressure(stage) > 0.85)
		unload_one(stage);
	uint32_t count = waiting_list(stage, list);
	for (uint32_t i = 0; i < count; i++) {
		if (stage_loading(stage) >= LOADS_MAX && !stage->model[list[i]].is->external)
			return;
		if (!threshold_fits(state, stage, list[i]) && !all_cold(stage)) {
			unload_one(stage);
			return;
		}
		stage_load(stage, list[i]);
	}
}

/* ---- lru ---- */

static bool lru_alone(const struct stage *stage, uint32_t m, double budget)
{
	if (stage->model[m].is->external)
		return false;
	for (uint32_t i = 0; i < stage->models; i++)
		if (stage->model[i].state != STAGE_COLD && !stage->model[i].is->external)
			return false;
	return estimate(stage, m) + stage_background(stage) > budget;
}

/* Until what is on its way out suffices, or nobody is left to go. */
static void make_room(struct stage *stage, double need, double coming, double budget)
{
	double now = taken(stage);
	int victim;

	while (now - coming + need > budget && (victim = lru_victim(stage)) != NOBODY) {
		stage_unload(stage, (uint32_t)victim);
		coming += estimate(stage, (uint32_t)victim);
	}
}

void lru_decide(void *ctx, struct stage *stage)
{
	double budget = 0.90 * stage->scene->physical_gb;
	uint32_t list[SCENE_MODELS_MAX];
	bool first = true;

	(void)ctx;
	dispatch_all(stage);
	double coming = unloading(stage);
	uint32_t count = waiting_list(stage, list);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t m = list[i];
		if (stage_loading(stage) >= LOADS_MAX && !stage->model[m].is->external)
			return;
		if (taken(stage) + estimate(stage, m) <= budget || lru_alone(stage, m, budget)) {
			stage_load(stage, m);
		} else if (first) {
			first = false;
			make_room(stage, estimate(stage, m), coming, budget);
		}
	}
}

/* ---- one at a time ---- */

void one_at_a_time_decide(void *ctx, struct stage *stage)
{
	uint32_t list[SCENE_MODELS_MAX], count;
	int target = NOBODY;
	bool busy = false;

	(void)ctx;
	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].is->external && stage->model[m].state == STAGE_COLD &&
		    stage->model[m].queue.count)
			stage_load(stage, m);
	dispatch_all(stage);
	count = waiting_list(stage, list);
	for (uint32_t i = 0; i < count && target == NOBODY; i++)
		if (!stage->model[list[i]].is->external)
			target = (int)list[i];
	if (target == NOBODY)
		return;
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if ((int)m == target || model->is->external || model->state == STAGE_COLD)
			continue;
		if (is_idle(model))
			stage_unload(stage, m);
		busy = true;
	}
	if (!busy)
		stage_load(stage, (uint32_t)target);
}

/* ---- cost-benefit ---- */

struct offer {
	uint32_t model;
	uint32_t request;
	double worth;
};

static struct offer offer_of(const struct stage *stage, uint32_t m)
{
	static const double priority[SCENE_CLASSES] = { 3, 2, 1 };
	const struct stage_model *model = &stage->model[m];
	double size = stage->scene->physical_gb, benefit = -1;
	struct offer offer = { .model = m };

	for (uint32_t i = 0; i < model->queue.count; i++) {
		const struct stage_request *r = &stage->request[model->queue.item[i]];
		double b = priority[r->class] * r->weight / (1 + r->hint_s / 30);
		if (b > benefit) {
			benefit = b;
			offer.request = model->queue.item[i];
		}
	}
	double share = 0.02, load = 0;
	if (model->state == STAGE_COLD) {
		share = estimate(stage, m) / size;
		load = stage_load_time(stage, m) / 60;
	}
	offer.worth = benefit / (share * (1 + pressure(stage)) + load + 0.01);
	return offer;
}

/* True where it did something: loaded, or made room. */
static bool bring(struct stage *stage, uint32_t m)
{
	double budget = 0.85 * stage->scene->physical_gb;
	double need = estimate(stage, m), now = taken(stage), coming = unloading(stage);
	double can = coming, others = 0;

	if (stage_loading(stage) >= LOADS_MAX && !stage->model[m].is->external)
		return false;
	if (now + need <= budget) {
		stage_load(stage, m);
		return true;
	}
	if (coming > 0 && now - coming + need <= budget)
		return false;
	if (all_cold(stage)) {
		stage_load(stage, m);
		return true;
	}
	for (uint32_t i = 0; i < stage->models; i++) {
		can += is_idle(&stage->model[i]) ? estimate(stage, i) : 0;
		others += stage->model[i].state != STAGE_COLD ? estimate(stage, i) : 0;
	}
	bool helps = now - can + need <= budget ||
	             (need + stage_background(stage) > budget && can >= others);
	if (!helps)
		return false;
	make_room(stage, need, coming, budget);
	return true;
}

static bool serve_offers(struct stage *stage)
{
	struct offer offers[SCENE_MODELS_MAX];
	uint32_t count = 0;

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (!model->queue.count || model->state == STAGE_LOADING ||
		    model->state == STAGE_UNLOADING)
			continue;
		struct offer offer = offer_of(stage, m);
		uint32_t at = count++;
		while (at > 0 && offer.worth > offers[at - 1].worth) {
			offers[at] = offers[at - 1];
			at--;
		}
		offers[at] = offer;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct stage_model *model = &stage->model[offers[i].model];
		if (model->state == STAGE_COLD) {
			if (bring(stage, offers[i].model))
				return true;
		} else if (model->running.count < model->is->slots) {
			stage_start(stage, offers[i].request);
			return true;
		}
	}
	return false;
}

void cost_benefit_decide(void *ctx, struct stage *stage)
{
	(void)ctx;
	for (int turn = 0; turn < UNLIMITED_TURNS; turn++)
		if (!serve_offers(stage))
			return;
}
