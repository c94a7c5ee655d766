#include "sim/study.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/arbiter.h"
#include "sim/clairvoyant.h"
#include "sim/liveness.h"

static const struct {
	const char *name;
	enum earlier which;
	void (*decide)(void *ctx, struct stage *stage);
} policies[] = {
	{ "cotenant", 0, NULL },
	{ "threshold", EARLIER_THRESHOLD, threshold_decide },
	{ "threshold-v1", EARLIER_V1, threshold_decide },
	{ "hysteresis", EARLIER_HYSTERESIS, threshold_decide },
	{ "cost-benefit", 0, cost_benefit_decide },
	{ "lru", 0, lru_decide },
	{ "one-at-a-time", 0, one_at_a_time_decide },
	{ "clairvoyant", 0, NULL },
};

enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

const char *study_policy(uint32_t index)
{
	return index < POLICIES ? policies[index].name : NULL;
}

/* ---- what was felt ---- */

static int ascending(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

static double wait_of(const struct stage *stage, const struct stage_request *request)
{
	double until = request->state == STAGE_WAITS ? stage->now : request->started_s;

	return until - request->arrived_s;
}

static bool is_over(const struct stage_request *request)
{
	return request->state == STAGE_ENDED || request->state == STAGE_FAILED ||
	       request->state == STAGE_LEFT;
}

static double response_of(const struct stage *stage, const struct stage_request *request)
{
	return (is_over(request) ? request->ended_s : stage->now) - request->arrived_s;
}

/* Of one class, or of all where class is SCENE_CLASSES; returns how many. */
static uint32_t waits_of(const struct stage *stage, uint32_t class, double *waits)
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < stage->requests; r++) {
		const struct stage_request *request = &stage->request[r];
		if (stage->model[request->model].is->external)
			continue;
		if (class != SCENE_CLASSES && request->class != class)
			continue;
		waits[count++] = wait_of(stage, request);
	}
	return count;
}

static double mean(const double *values, uint32_t count)
{
	double sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += values[i];
	return count ? sum / count : 0;
}

static double p95(double *values, uint32_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), ascending);
	uint32_t at = (uint32_t)(0.95 * count);
	return values[at < count ? at : count - 1];
}

static void measure_ends(const struct stage *stage, struct study_result *out)
{
	static const double class_weight[SCENE_CLASSES] = { 4, 2, 1 };
	double sum = 0, weights = 0;

	for (uint32_t r = 0; r < stage->requests; r++) {
		const struct stage_request *request = &stage->request[r];
		if (stage->model[request->model].is->external)
			continue;
		double weight = class_weight[request->class] * request->weight;
		sum += weight * response_of(stage, request);
		weights += weight;
		out->requests++;
		out->finished += request->state == STAGE_ENDED;
		out->rejected += request->state == STAGE_FAILED;
		out->left += request->state == STAGE_LEFT;
		out->unfinished += !is_over(request);
	}
	out->response_weighted_s = weights > 0 ? sum / weights : 0;
}

static void measure_models(const struct stage *stage, struct study_result *out)
{
	out->models = stage->models;
	for (uint32_t r = 0; r < stage->requests; r++) {
		const struct stage_request *request = &stage->request[r];
		struct study_model *model = &out->model[request->model];
		if (stage->model[request->model].is->external)
			continue;
		model->wait_mean_s += wait_of(stage, request);
		model->response_mean_s += response_of(stage, request);
		model->requests++;
	}
	for (uint32_t m = 0; m < stage->models; m++) {
		struct study_model *model = &out->model[m];
		model->loads = stage->model[m].is->external ? 0 : stage->model[m].loads;
		if (!model->requests)
			continue;
		model->wait_mean_s /= (double)model->requests;
		model->response_mean_s /= (double)model->requests;
	}
}

void study_measure(const struct stage *stage, struct study_result *out)
{
	double *waits = xmalloc((stage->requests + 1) * sizeof(*waits));
	double hours = stage->now / 3600;

	*out = (struct study_result){ .seed = stage->scene->seed, .hours = hours };
	uint32_t count = waits_of(stage, SCENE_CLASSES, waits);
	out->wait_mean_s = mean(waits, count);
	for (uint32_t i = 0; i < count; i++)
		out->wait_max_s = waits[i] > out->wait_max_s ? waits[i] : out->wait_max_s;
	count = waits_of(stage, 0, waits);
	out->wait_interactive_mean_s = mean(waits, count);
	for (uint32_t class = 0; class < SCENE_CLASSES; class++) {
		count = waits_of(stage, class, waits);
		out->wait_p95_s[class] = p95(waits, count);
	}
	free(waits);
	measure_ends(stage, out);
	measure_models(stage, out);
	memcpy(out->faults, stage->faults.count, sizeof(out->faults));
	out->loads = stage->loads;
	out->ooms = stage->ooms;
	if (hours <= 0)
		return;
	out->loads_per_hour = (double)stage->loads / hours;
	out->oom_per_hour = (double)stage->ooms / hours;
	out->memory_used_mean = stage->memory_s / stage->now / stage->scene->physical_gb;
}

/* ---- running ---- */

/* A player, and the look at what waits. */
struct watched {
	struct stage_player player;
	struct liveness liveness;
};

static void watched_hear(void *ctx, struct stage *stage, enum stage_news news, uint32_t index)
{
	struct watched *watched = ctx;

	if (news == NEWS_TICK)
		liveness_look(&watched->liveness, stage);
	watched->player.hear(watched->player.ctx, stage, news, index);
}

static void watched_decide(void *ctx, struct stage *stage)
{
	struct watched *watched = ctx;

	watched->player.decide(watched->player.ctx, stage);
}

static void play(const struct scene *scene, struct stage_player player, struct study_result *out)
{
	struct watched watched = { .player = player };
	struct stage_player outer = { &watched, watched_hear, watched_decide };
	struct stage *stage = xmalloc(sizeof(*stage));

	stage_init(stage, scene, &outer);
	stage_run(stage);
	study_measure(stage, out);
	out->overdue_max_s = watched.liveness.longest_s;
	out->overdue_bound_s = liveness_bound_s(stage);
	stage_free(stage);
	free(stage);
}

/* Its rules are proved after each step where something goes wrong, and at the end that nobody was forgotten. */
static void run_arbiter(const struct scene *scene, struct study_result *out)
{
	struct driven *driven = driven_new(scene, POLICY_COTENANT, scene->faults_until_s > 0);

	play(scene, driven_player(driven), out);
	out->invariant_violations = driven_violations(driven) + (out->unfinished > 0);
	out->invariant_violations += out->overdue_max_s > out->overdue_bound_s;
	driven_free(driven);
}

static void run_earlier(const struct scene *scene, uint32_t policy, struct study_result *out)
{
	struct earlier_state state = { .which = policies[policy].which, .open = true };

	play(scene, (struct stage_player){ &state, earlier_hear, policies[policy].decide }, out);
}

static void run_clairvoyant(const struct scene *scene, struct study_result *out)
{
	struct clairvoyant *clairvoyant = clairvoyant_new();

	play(scene, clairvoyant_player(clairvoyant), out);
	clairvoyant_free(clairvoyant);
}

bool study_run(const struct scene *scene, const char *policy, struct study_result *out)
{
	for (uint32_t i = 0; i < POLICIES; i++) {
		if (strcmp(policies[i].name, policy) != 0)
			continue;
		if (policies[i].decide)
			run_earlier(scene, i, out);
		else if (i > 0)
			run_clairvoyant(scene, out);
		else
			run_arbiter(scene, out);
		return true;
	}
	return false;
}
