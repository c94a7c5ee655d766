/* A day of a sketch. */
#include "sim/sketch.h"

#include <math.h>

#include "base/str.h"
#include "sim/dice.h"

static double gb(int64_t bytes)
{
	return (double)bytes / 1e9;
}

static double seconds(int64_t us)
{
	return (double)us / 1e6;
}

static double milli(int64_t value)
{
	return (double)value / 1000;
}

bool sketch_asked(const struct sketch *sketch)
{
	for (size_t i = 0; i < sketch->models_count; i++)
		if (sketch->models[i].asks_count)
			return true;
	return false;
}

static double hours_of(const struct sketch *sketch, double hours)
{
	return hours > 0 ? hours : seconds(sketch->hours_us) / 3600;
}

double sketch_requests(const struct sketch *sketch, double load, double hours)
{
	double count = 0, horizon = 3600 * hours_of(sketch, hours);

	for (size_t i = 0; i < sketch->models_count; i++)
		for (size_t j = 0; j < sketch->models[i].asks_count; j++) {
			const struct sketch_asks *asks = &sketch->models[i].asks[j];
			count += load * horizon / seconds(asks->every_us) * asks->at_once * milli(asks->turns_milli);
		}
	return count;
}

static void set_machine(const struct sketch *sketch, struct scene *scene)
{
	double all = gb(sketch->memory_bytes);

	scene->physical_gb = all;
	scene->disk_gbps = gb(sketch->disk_bytes);
	scene->cached_gbps = gb(sketch->cache_bytes);
	scene->start_gb = sketch->others_bytes < 0 ? all / 8 : gb(sketch->others_bytes);
	scene->walk_gb = 0.0025 * scene->start_gb;
	scene->min_gb = 0.7 * scene->start_gb;
	scene->max_gb = sketch->others_most_bytes < 0 ? 2 * scene->start_gb : gb(sketch->others_most_bytes);
	scene->spike_gb = gb(sketch->burst_bytes);
	scene->spike_rate = sketch->burst_bytes ? 1 / seconds(sketch->burst_every_us) : 0;
	scene->spike_mean_s = seconds(sketch->burst_lasts_us);
	scene->spike_ramp_gbps = 0.5;
	scene->revert = 0.0005;
	scene->tick_s = 1;
	scene->stall_s = 10;
}

static void add_model(const struct sketch_model *from, struct scene *scene)
{
	struct scene_model *model = &scene->model[scene->models++];

	*model = (struct scene_model){
		.base_gb = gb(from->footprint_bytes),
		.kv_gb = gb(from->per_request_bytes),
		.slots = from->slots,
		.bandwidth = from->reservation ? 0.8 : milli(from->slows_milli),
		.batch_beta = milli(from->batching_milli),
		.mean_work_s = seconds(from->work_us),
		.work_sigma = milli(from->work_spread_milli),
		.file_gb = gb(from->file_bytes < 0 ? from->footprint_bytes : from->file_bytes),
		.startup_s = seconds(from->startup_us),
		.fluct_sd_gb = gb(from->swing_bytes),
		.ratio = milli(from->actual_milli),
		.pinned = from->pin,
		.external = from->reservation,
	};
	str_copy(model->name, sizeof(model->name), str_from(from->name));
	if (from->load_us >= 0)
		model->startup_s = seconds(from->load_us) - model->file_gb / scene->disk_gbps;
	if (from->reservation) {
		model->kv_gb = model->file_gb = model->fluct_sd_gb = 0;
		model->slots = 1;
		model->startup_s = 0.1;
		model->ratio = 1;
		model->pinned = false;
	}
	model->estimate_gb = model->base_gb + model->slots * model->kv_gb;
}

static void add_turn(const struct sketch_asks *asks, uint32_t m, double think_s, struct rng *rng,
                     struct scene *scene)
{
	const struct scene_model *model = &scene->model[m];
	double mean = asks->work_us < 0 ? model->mean_work_s : seconds(asks->work_us);
	double work = dice_lognormal(rng, mean, model->work_sigma);
	struct scene_step step = {
		.model = m,
		.class = asks->class,
		.weight = milli(asks->weight_milli),
		.think_s = think_s,
		.work_s = work,
		.hint_s = work * exp(0.5 * dice_normal(rng)),
	};

	scene_add_step(scene, &step);
}

static void add_asks(const struct sketch_asks *asks, uint32_t m, double load, struct rng *rng,
                     struct scene *scene)
{
	double t = 0;

	while ((t += dice_exponential(rng, seconds(asks->every_us) / load)) < scene->horizon_s) {
		for (uint32_t i = 0; i < asks->at_once; i++) {
			uint32_t turns = dice_geometric(rng, milli(asks->turns_milli));
			scene_add_session(scene, t);
			for (uint32_t turn = 0; turn < turns; turn++)
				add_turn(asks, m, turn ? dice_exponential(rng, seconds(asks->think_us)) : 0, rng,
				         scene);
		}
	}
}

void sketch_draw(const struct sketch *sketch, uint64_t seed, double load, double hours,
                 struct scene *scene)
{
	struct rng rng = dice_seeded(seed ^ str_hash(str_from(sketch->title)));

	*scene = (struct scene){ .seed = seed, .rng_seed = 7919 * seed + 13 };
	str_copy(scene->workload, sizeof(scene->workload), str_from(sketch->title));
	scene->horizon_s = 3600 * hours_of(sketch, hours);
	scene->drain_s = scene->horizon_s > 21600 ? scene->horizon_s : 21600;
	set_machine(sketch, scene);
	for (size_t i = 0; i < sketch->models_count; i++)
		add_model(&sketch->models[i], scene);
	for (size_t i = 0; i < sketch->models_count; i++)
		for (size_t j = 0; j < sketch->models[i].asks_count; j++)
			add_asks(&sketch->models[i].asks[j], (uint32_t)i, load, &rng, scene);
	scene_sort(scene);
}
