#include <math.h>

#include "sim/dice.h"
#include "sim/stage_parts.h"

static double clamp(double x, double least, double most)
{
	return x < least ? least : x > most ? most : x;
}

double stage_background(const struct stage *stage)
{
	double gb = stage->walk_gb + stage->faults.leaked_gb;

	for (uint32_t i = 0; i < stage->spikes; i++) {
		const struct stage_spike *spike = &stage->spike[i];
		double ramped = (stage->now - spike->start_s) * stage->scene->spike_ramp_gbps;
		gb += spike->gb < ramped ? spike->gb : ramped;
	}
	return gb;
}

double stage_memory_of(const struct stage *stage, uint32_t m)
{
	const struct stage_model *model = &stage->model[m];
	const struct scene_model *is = model->is;
	double gb = 0;

	switch (model->state) {
	case STAGE_COLD:
		break;
	case STAGE_LOADING:
		gb = is->base_gb * is->ratio * (model->progress < 1 ? model->progress : 1);
		break;
	case STAGE_READY:
		gb = (is->base_gb + model->running.count * is->kv_gb) * is->ratio;
		if (model->running.count)
			gb += model->fluct_gb;
		gb += model->grown_gb;
		break;
	case STAGE_UNLOADING: /* a load that was given up got no further */
		gb = is->base_gb * is->ratio * (model->progress < 1 ? model->progress : 1) + model->grown_gb;
		break;
	}
	return gb > 0 ? gb : 0;
}

double stage_used(const struct stage *stage)
{
	double gb = stage_background(stage);

	for (uint32_t m = 0; m < stage->models; m++)
		gb += stage_memory_of(stage, m);
	return gb;
}

double stage_measured_of(const struct stage *stage, uint32_t m)
{
	return stage_memory_of(stage, m) * (stage->faults.lie_about == m ? stage->faults.lie : 1);
}

double stage_measured(const struct stage *stage)
{
	return stage_used(stage) * stage->faults.lie_total;
}

double stage_load_time(const struct stage *stage, uint32_t m)
{
	const struct stage_model *model = &stage->model[m];
	const struct scene *scene = stage->scene;

	return model->is->startup_s +
	       model->is->file_gb * (model->cached / scene->cached_gbps +
	                             (1 - model->cached) / scene->disk_gbps);
}

uint32_t stage_loading(const struct stage *stage)
{
	uint32_t loading = 0;

	for (uint32_t m = 0; m < stage->models; m++)
		loading += stage->model[m].state == STAGE_LOADING && !stage->model[m].is->external;
	return loading;
}

/* ---- what time does ---- */

static void spikes(struct stage *stage)
{
	const struct scene *scene = stage->scene;
	uint32_t kept = 0;

	if (scene->spike_rate > 0 && rng_unit(&stage->rng) < scene->spike_rate) {
		double takes = dice_exponential(&stage->rng, scene->spike_mean_s);
		double gb = scene->spike_gb * (0.5 + rng_unit(&stage->rng));
		if (stage->spikes < STAGE_SPIKES_MAX)
			stage->spike[stage->spikes++] =
				(struct stage_spike){ stage->now, stage->now + takes, gb };
	}
	for (uint32_t i = 0; i < stage->spikes; i++)
		if (stage->spike[i].end_s >= stage->now)
			stage->spike[kept++] = stage->spike[i];
	stage->spikes = kept;
}

void stage_drift(struct stage *stage)
{
	const struct scene *scene = stage->scene;

	stage->walk_gb += scene->walk_gb * dice_normal(&stage->rng);
	stage->walk_gb += (scene->start_gb - stage->walk_gb) * scene->revert;
	stage->walk_gb = clamp(stage->walk_gb, scene->min_gb, scene->max_gb);
	spikes(stage);
	for (uint32_t m = 0; m < stage->models; m++) {
		struct stage_model *model = &stage->model[m];
		double sd = model->is->fluct_sd_gb;
		if (sd <= 0)
			continue;
		model->fluct_gb += -0.1 * model->fluct_gb + 0.4359 * sd * dice_normal(&stage->rng);
		model->fluct_gb = clamp(model->fluct_gb, -2.5 * sd, 2.5 * sd);
	}
}

/* Of the cold models' files the one to give up first: least wanted, or cached longest ago. */
static int least_wanted(const struct stage *stage)
{
	int least = -1;

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (model->state != STAGE_COLD || model->cached <= 0)
			continue;
		if (least < 0) {
			least = (int)m;
			continue;
		}
		double x = model->cached_at, y = stage->model[least].cached_at;
		if (stage->file_value) {
			x = stage->file_value[m];
			y = stage->file_value[least];
		}
		if (x < y)
			least = (int)m;
	}
	return least;
}

void stage_trim(struct stage *stage)
{
	double over = stage_used(stage) - stage->scene->physical_gb;
	int m;

	for (uint32_t i = 0; i < stage->models; i++)
		if (stage->model[i].state == STAGE_COLD)
			over += stage->model[i].cached * stage->model[i].is->file_gb;
	while (over > 0 && (m = least_wanted(stage)) >= 0) {
		struct stage_model *model = &stage->model[m];
		double has = model->cached * model->is->file_gb;
		double takes = has < over ? has : over;
		model->cached -= model->is->file_gb > 0 ? takes / model->is->file_gb : 1;
		if (model->cached < 1e-6)
			model->cached = 0;
		over -= takes;
	}
}
