#include "sim/faults.h"

#include <math.h>

#include "base/str.h"
#include "sim/dice.h"
#include "sim/stage_parts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t nobody = UINT32_MAX;

static const double patience_s = 120, holder_gone_s = 600, hung_s = 150;

const char *fault_name(uint32_t kind)
{
	static const char *const names[FAULT_KINDS] = {
		[FAULT_CLIENT_LEFT] = "client_left",
		[FAULT_HOLDER_VANISHED] = "holder_vanished",
		[FAULT_LOAD_FAILED] = "load_failed",
		[FAULT_LOAD_HUNG] = "load_hung",
		[FAULT_CRASH] = "crash",
		[FAULT_LEAK] = "leak",
		[FAULT_ENGINE_GREW] = "engine_grew",
		[FAULT_LIE] = "lie",
		[FAULT_CLOCK] = "clock",
		[FAULT_OTHERS_GREW] = "others_grew",
		[FAULT_PINNED] = "all_pinned",
	};

	return kind < FAULT_KINDS ? names[kind] : NULL;
}

/* ---- by seed, kind and whom ---- */

static struct rng dice_of(const struct stage *stage, enum fault kind, uint64_t a, uint64_t b)
{
	struct rng rng = { stage->scene->rng_seed };

	rng.state = rng_next(&rng) + kind;
	rng.state = rng_next(&rng) + a;
	rng.state = rng_next(&rng) + b;
	rng_next(&rng);
	return rng;
}

static bool still(const struct stage *stage)
{
	return stage->now < stage->scene->faults_until_s;
}

/* Whether it happens now; the stream goes on with what comes of it. */
static bool happens(struct stage *stage, enum fault kind, uint64_t a, uint64_t b, double chance,
                    struct rng *rng)
{
	*rng = dice_of(stage, kind, a, b);
	if (!still(stage) || rng_unit(rng) >= chance)
		return false;
	stage->faults.count[kind] += kind != FAULT_CLIENT_LEFT; /* who is answered before does not leave */
	return true;
}

static uint64_t second(const struct stage *stage)
{
	return (uint64_t)llround(stage->now);
}

/* ---- clients ---- */

void faults_arrived(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];
	struct rng rng;

	request->leaves_at = INFINITY;
	if (happens(stage, FAULT_CLIENT_LEFT, request->session, request->step, 0.05, &rng))
		request->leaves_at = stage->now + patience_s * rng_unit(&rng);
}

/* It will not give back what it was granted, until its time is over. */
void faults_started(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];
	struct rng rng;

	if (!stage->model[request->model].is->external ||
	    !happens(stage, FAULT_HOLDER_VANISHED, request->session, request->step, 0.2, &rng))
		return;
	request->left_s = INFINITY;
	request->leaves_at = stage->now + holder_gone_s;
}

static uint32_t impatient(const struct stage *stage, const struct stage_line *line)
{
	for (uint32_t i = 0; i < line->count; i++)
		if (stage->request[line->item[i]].leaves_at <= stage->now)
			return line->item[i];
	return nobody;
}

static void clients_leave(struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++) {
		uint32_t r;
		while ((r = impatient(stage, &stage->model[m].queue)) != nobody ||
		       (r = impatient(stage, &stage->model[m].running)) != nobody) {
			stage->faults.count[FAULT_CLIENT_LEFT] += isfinite(stage->request[r].left_s);
			stage_leave(stage, r);
		}
	}
}

/* ---- engines ---- */

void faults_load(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];
	struct rng rng;

	model->stops_at = INFINITY;
	model->hangs = model->grows = false;
	model->grown_gb = 0;
	if (model->is->external)
		return;
	if (happens(stage, FAULT_LOAD_FAILED, m, model->loads, 0.05, &rng)) {
		model->stops_at = rng_unit(&rng);
	} else if (happens(stage, FAULT_LOAD_HUNG, m, model->loads, 0.02, &rng)) {
		model->stops_at = rng_unit(&rng);
		model->hangs = true;
	}
	model->grows = happens(stage, FAULT_ENGINE_GREW, m, model->loads, 0.1, &rng);
}

void faults_unloaded(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];
	double most = 0.02 * stage->scene->physical_gb;
	struct rng rng;

	model->grown_gb = 0;
	if (model->is->external || !happens(stage, FAULT_LEAK, m, model->loads, 0.05, &rng))
		return;
	stage->faults.leaked_gb += 0.02 * model->is->base_gb;
	stage->faults.leaked_gb = fmin(stage->faults.leaked_gb, most);
}

static void engines_live_on(struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++) {
		struct stage_model *model = &stage->model[m];
		struct rng rng;
		if (model->state == STAGE_LOADING && model->hangs && !still(stage)) {
			model->stops_at = INFINITY; /* and goes on */
			model->hangs = false;
		}
		bool hung = model->state == STAGE_LOADING && model->hangs && model->progress >= model->stops_at;
		model->hung_s = hung ? model->hung_s + stage->scene->tick_s : 0;
		if (model->hung_s > hung_s)
			stage_kill(stage, m);
		if (model->state != STAGE_READY || !model->running.count || model->is->external)
			continue;
		if (model->grows && still(stage))
			model->grown_gb = fmin(model->grown_gb + 0.001 * model->is->base_gb, 0.3 * model->is->base_gb);
		if (happens(stage, FAULT_CRASH, m, second(stage), 1.0 / 3600, &rng))
			stage_kill(stage, m);
	}
}

/* ---- the machine ---- */

static void samples_lie(struct stage *stage)
{
	static const double factors[] = { 0, 0.5, 1.5 };
	struct rng rng;

	stage->faults.lie_about = nobody;
	stage->faults.lie_total = 1;
	if (!happens(stage, FAULT_LIE, second(stage), 0, 0.02, &rng))
		return;
	stage->faults.lie = factors[rng_below(&rng, COUNT(factors))];
	if (rng_below(&rng, 3) == 0)
		stage->faults.lie_total = stage->faults.lie;
	else
		stage->faults.lie_about = (uint32_t)rng_below(&rng, stage->models);
}

/* Ahead for good, or behind for one event. */
static void clock_jumps(struct stage *stage)
{
	struct rng rng;

	if (!happens(stage, FAULT_CLOCK, second(stage), 0, 1.0 / 1800, &rng))
		return;
	if (rng_below(&rng, 2))
		stage->faults.clock_ahead_s += 1800 * rng_unit(&rng);
	else
		stage->faults.clock_behind_s = 1000 * rng_unit(&rng);
}

static void others_grow(struct stage *stage)
{
	struct rng rng;

	if (stage->spikes == STAGE_SPIKES_MAX ||
	    !happens(stage, FAULT_OTHERS_GREW, second(stage), 0, 1.0 / 3600, &rng))
		return;
	double gb = stage->scene->physical_gb * (0.1 + 0.15 * rng_unit(&rng));
	stage->spike[stage->spikes++] =
		(struct stage_spike){ stage->now, stage->now + dice_exponential(&rng, 300), gb };
}

static void pin_all(struct stage *stage, bool pinned)
{
	for (uint32_t m = 0; m < stage->models; m++) {
		struct stage_model *model = &stage->model[m];
		bool loaded = model->state == STAGE_READY && !model->is->external;
		bool now = model->is->pinned || (pinned && loaded);
		if (model->pinned == now)
			continue;
		model->pinned = now;
		stage_hear(stage, NEWS_PINNED, m);
	}
}

static void pins(struct stage *stage)
{
	struct rng rng;

	if (stage->faults.pinned_until > 0 && (stage->now >= stage->faults.pinned_until || !still(stage))) {
		stage->faults.pinned_until = 0;
		pin_all(stage, false);
	}
	if (!happens(stage, FAULT_PINNED, second(stage), 0, 1.0 / 3600, &rng))
		return;
	stage->faults.pinned_until = stage->now + 60 + 540 * rng_unit(&rng);
	pin_all(stage, true);
}

void faults_tick(struct stage *stage)
{
	pins(stage);
	samples_lie(stage);
	clock_jumps(stage);
	others_grow(stage);
	engines_live_on(stage);
	clients_leave(stage);
}

/* ---- the scene ---- */

/* Another program that asks for its memory now and then. */
static void add_reservation(struct scene *scene)
{
	struct rng rng = dice_seeded(scene->rng_seed + 1);
	struct scene_model model = {
		.name = "reservation", .base_gb = 0.2 * scene->physical_gb, .slots = 1, .bandwidth = 0.8,
		.mean_work_s = 180, .work_sigma = 0.4, .startup_s = 0.1, .ratio = 1, .external = true,
	};
	uint32_t m = scene->models;
	double t = 300;

	if (m == SCENE_MODELS_MAX)
		return;
	model.estimate_gb = model.base_gb;
	scene->model[scene->models++] = model;
	while ((t += dice_exponential(&rng, 1500)) < scene->horizon_s) {
		double work = dice_lognormal(&rng, model.mean_work_s, model.work_sigma);
		scene_add_session(scene, t);
		scene_add_step(scene, &(struct scene_step){ .model = m, .class = 1, .weight = 1, .work_s = work,
		                                            .hint_s = work });
	}
	scene_sort(scene);
}

void faults_scene(struct scene *scene)
{
	bool reserves = false;

	for (uint32_t m = 0; m < scene->models; m++) {
		struct scene_model *model = &scene->model[m];
		reserves |= model->external;
		if (m % 3 == 2 && !model->external)
			model->fluct_sd_gb = fmax(model->fluct_sd_gb, fmin(3, 0.03 * model->base_gb));
	}
	if (!reserves)
		add_reservation(scene);
	scene->faults_until_s = 0.75 * scene->horizon_s;
}
