#include "sim/liveness.h"

#include <math.h>

#include "sim/stage_parts.h"

static const double overdue_after_s[SCENE_CLASSES] = { 200, 420, 1800 };
static const double calm_after_s = 600; /* the longest pause before another try to load */

static bool overdue(const struct stage *stage, const struct stage_model *model)
{
	for (uint32_t i = 0; i < model->queue.count; i++) {
		const struct stage_request *request = &stage->request[model->queue.item[i]];
		if (stage->now - request->arrived_s > overdue_after_s[request->class])
			return true;
	}
	return false;
}

/* By what is true, with one request, were it alone. */
static bool fits_alone(const struct stage *stage, const struct stage_model *model)
{
	double need = (model->is->base_gb + model->is->kv_gb) * model->is->ratio + 2.5 * model->is->fluct_sd_gb;

	return stage_background(stage) + need <= 0.98 * stage->scene->physical_gb;
}

/* Nothing that no policy could change is in the way. */
static bool free_to_act(const struct stage *stage)
{
	double faults = stage->scene->faults_until_s;

	if (faults > 0 && stage->now < faults + calm_after_s)
		return false;
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (model->state != STAGE_COLD && (model->is->external || model->pinned))
			return false;
	}
	return stage->now >= stage->stalled_until;
}

void liveness_look(struct liveness *liveness, const struct stage *stage)
{
	bool may = free_to_act(stage);

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		double *waits = &liveness->overdue_s[m];
		if (model->is->external || model->state != STAGE_COLD || !overdue(stage, model))
			*waits = 0;
		else if (may && fits_alone(stage, model))
			*waits += stage->scene->tick_s;
		liveness->longest_s = fmax(liveness->longest_s, *waits);
	}
}

double liveness_bound_s(const struct stage *stage)
{
	double run[SCENE_MODELS_MAX] = { 0 }, bound = 0;

	for (uint32_t r = 0; r < stage->requests; r++) {
		const struct stage_request *request = &stage->request[r];
		if (request->state == STAGE_ENDED)
			run[request->model] = fmax(run[request->model], request->ended_s - request->started_s);
	}
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct scene_model *is = &stage->scene->model[m];
		double load = 2 * (is->startup_s + is->file_gb / stage->scene->disk_gbps); /* two at once */
		if (!is->external)
			bound += run[m] + 0.3 + is->file_gb / 40 + load + fmax(30, load);
	}
	return bound;
}
