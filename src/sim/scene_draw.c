/* The study's workloads, drawn from a seed: other days of the same kind as its files. */
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "sim/dice.h"
#include "sim/scene.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PI 3.14159265358979323846

struct draw {
	struct scene *scene;
	struct rng rng;
	double load;
};

static double rounded(double x)
{
	return round(x * 1e4) / 1e4;
}

static double uniform(struct draw *d, double least, double most)
{
	return least + (most - least) * rng_unit(&d->rng);
}

/* ---- sessions ---- */

static void session(struct draw *d, double start)
{
	scene_add_session(d->scene, rounded(start));
}

static double step_of(struct draw *d, uint32_t model, uint32_t class, double think, double work)
{
	struct scene_step step = {
		.model = model,
		.class = class,
		.weight = 1,
		.think_s = rounded(think),
		.work_s = rounded(work),
		.hint_s = rounded(work * exp(0.5 * dice_normal(&d->rng))),
	};

	scene_add_step(d->scene, &step);
	return work;
}

static double step(struct draw *d, uint32_t model, uint32_t class, double think)
{
	const struct scene_model *is = &d->scene->model[model];

	return step_of(d, model, class, think, dice_lognormal(&d->rng, is->mean_work_s, is->work_sigma));
}

/* Single requests, Poisson. */
static void open_load(struct draw *d, uint32_t model, double rate, uint32_t class)
{
	double t = 0;

	if (rate <= 0)
		return;
	while ((t += dice_exponential(&d->rng, 1 / rate)) < d->scene->horizon_s) {
		session(d, t);
		step(d, model, class, 0);
	}
}

/* ---- models ---- */

static uint32_t add_model(struct draw *d, struct scene_model model)
{
	struct scene *scene = d->scene;

	model.estimate_gb = model.base_gb + model.slots * model.kv_gb;
	if (!model.external)
		model.file_gb = model.base_gb;
	scene->model[scene->models] = model;
	return scene->models++;
}

static uint32_t named(struct draw *d, const char *name, double base, double kv, uint32_t slots,
                      double bandwidth, double beta, double work, double sigma, double startup,
                      double fluct)
{
	struct scene_model model = {
		.base_gb = base, .kv_gb = kv, .slots = slots, .bandwidth = bandwidth,
		.batch_beta = beta, .mean_work_s = work, .work_sigma = sigma,
		.startup_s = startup, .fluct_sd_gb = fluct,
	};

	str_copy(model.name, sizeof(model.name), str_from(name));
	return add_model(d, model);
}

static void catalogue(struct draw *d, const double *sizes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		double z = sizes[i];
		bool experts = i % 4 == 2 && z > 10;
		double work = (experts ? 0.255 : 0.7225) * z;
		uint32_t slots = z < 15 ? 4 : 2;
		char name[SCENE_NAME_BYTES];

		snprintf(name, sizeof(name), "m%g", z);
		named(d, name, 0.86 * z, 0.14 * z / slots, slots, z < 3 ? 0.4 : 1, 0.15,
		      work > 2.5 ? work : 2.5, 0.7, 1.5 + 0.03 * z,
		      !experts ? 0 : 1 + 0.03 * z < 3 ? 1 + 0.03 * z : 3);
	}
}

static void external(struct draw *d, double size, double every, double takes)
{
	struct scene_model model = {
		.name = "ext", .base_gb = size, .slots = 1, .bandwidth = 0.8, .mean_work_s = takes,
		.work_sigma = 0.4, .startup_s = 0.1, .ratio = 1, .external = true,
	};
	uint32_t m = add_model(d, model);
	double t = 300;

	while ((t += dice_exponential(&d->rng, every)) < d->scene->horizon_s) {
		session(d, t);
		step(d, m, 1, 0);
	}
}

/* Every model fits alone, whatever its estimate is worth. */
static void draw_ratios(struct draw *d)
{
	struct scene *scene = d->scene;

	for (uint32_t m = 0; m < scene->models; m++) {
		struct scene_model *model = &scene->model[m];
		double room = 0.95 * scene->physical_gb - 1.25 * scene->start_gb -
		              2.5 * model->fluct_sd_gb;
		double most = room / model->estimate_gb;
		if (model->external)
			continue;
		model->ratio = 1 + uniform(d, -0.3, 0.3);
		most = most > 0.6 ? most : 0.6;
		if (model->ratio > most)
			model->ratio = most;
	}
}

/* ---- workloads ---- */

static const double s96[] = { 4, 5, 7, 9, 12, 16, 20, 26, 34, 42, 55, 70 };
static const double s32[] = { 1.5, 2, 3, 5, 8, 11, 15, 20 };
static const double s24[] = { 1, 2, 3, 5, 8, 12 };
static const double s_batch[] = { 4, 5, 7, 9, 12, 16, 20, 26, 34 };
static const double s_starve[] = { 5, 7, 9, 12, 16, 20 };

static void model_sessions(struct draw *d, uint32_t m, double a, double length, double think)
{
	double u = rng_unit(&d->rng), t = 0;
	uint32_t class = u < 0.5 ? 0 : u < 0.8 ? 1 : 2;

	while ((t += dice_exponential(&d->rng, 1 / (0.7 * a))) < d->scene->horizon_s) {
		uint32_t steps = dice_geometric(&d->rng, length);
		session(d, t);
		for (uint32_t i = 0; i < steps; i++)
			step(d, m, class, i ? 1 + dice_exponential(&d->rng, think) : 0);
	}
	open_load(d, m, 0.3 * a * length, (class + 1) % 3);
}

static void catalogue_sessions(struct draw *d, const double *sizes, uint32_t count, double rate,
                               double length, double think)
{
	uint32_t rank[SCENE_MODELS_MAX];
	double sum = 0;

	catalogue(d, sizes, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = (uint32_t)rng_below(&d->rng, i + 1);
		rank[i] = rank[j];
		rank[j] = i + 1;
		sum += pow(i + 1, -0.9);
	}
	for (uint32_t i = 0; i < count; i++)
		model_sessions(d, i, rate * d->load * pow(rank[i], -0.9) / sum, length, think);
}

static void mixed(struct draw *d)
{
	double load = d->load * (strcmp(d->scene->workload, "mixed48") == 0 ? 0.8 : 1);
	uint32_t chat = named(d, "chat7b", 8, 1.5, 4, 1, .15, 12, .8, 2, 0);
	uint32_t code = named(d, "code3b", 4, .75, 4, 1, .15, 5, .8, 1.5, 0);
	uint32_t image = named(d, "image", 18, 8, 1, 1, 1, 15, .1, 6, .7);
	uint32_t whisper = named(d, "whisper", 3.5, .5, 2, .5, .5, 18, .7, 2, 0);
	uint32_t embed = named(d, "embed", 1, .1, 8, .3, .1, .15, .3, 1, 0);

	open_load(d, chat, .030 * load, 0);
	open_load(d, code, .030 * load, 0);
	open_load(d, code, .010 * load, 1);
	open_load(d, image, .008 * load, 1);
	open_load(d, whisper, .005 * load, 2);
	open_load(d, embed, .10 * load, 1);
	if (strcmp(d->scene->workload, "mixed64") == 0)
		external(d, 24, 2400, 240);
	if (strcmp(d->scene->workload, "mixed128") == 0)
		external(d, 40, 1500, 420);
}

static void cat96(struct draw *d)
{
	bool hot = strcmp(d->scene->workload, "cat96hot") == 0;

	catalogue_sessions(d, s96, COUNT(s96), hot ? .0060 : .0034, 6, 25);
}

static void low32(struct draw *d)
{
	catalogue_sessions(d, s32, COUNT(s32), .0085, 6, 20);
}

static void low24(struct draw *d)
{
	catalogue_sessions(d, s24, COUNT(s24), .012, 6, 20);
}

static void comfy96(struct draw *d)
{
	catalogue_sessions(d, s96, COUNT(s96), .0030, 6, 25);
	external(d, 36, 1500, 300);
}

static void over96(struct draw *d)
{
	catalogue_sessions(d, s96, COUNT(s96), .0105, 6, 15);
}

static void bursty96(struct draw *d)
{
	catalogue(d, s96, COUNT(s96));
	for (uint32_t m = 0; m < d->scene->models; m++) {
		uint32_t class = (uint32_t)rng_below(&d->rng, SCENE_CLASSES);
		double rate = 11 * d->load * .55 / (12 * d->scene->model[m].mean_work_s);
		double t = dice_exponential(&d->rng, 3000);

		rate = rate < .25 ? rate : .25;
		while (t < d->scene->horizon_s) {
			double end = t + dice_exponential(&d->rng, 300);
			while ((t += dice_exponential(&d->rng, 1 / rate)) < end &&
			       t < d->scene->horizon_s) {
				session(d, t);
				step(d, m, class, 0);
			}
			t = end + dice_exponential(&d->rng, 3000);
		}
	}
}

static void diurnal96(struct draw *d)
{
	catalogue(d, s96, COUNT(s96));
	for (uint32_t m = 0; m < d->scene->models; m++) {
		uint32_t class = (uint32_t)rng_below(&d->rng, SCENE_CLASSES);
		double horizon = d->scene->horizon_s, phase = uniform(d, 0, horizon);
		double rate = d->load * .5 / (12 * d->scene->model[m].mean_work_s), t = 0;

		while ((t += dice_exponential(&d->rng, 1 / (rate * 2.29))) < horizon) {
			double c = cos(2 * PI * (t - phase) / horizon);
			double h = .05 + (c > 0 ? 2.24 * c * c * c : 0);
			if (rng_unit(&d->rng) * 2.29 >= h)
				continue;
			session(d, t);
			step(d, m, class, 0);
		}
	}
}

/* Turns of one agent: the planner and some calls of the coder. Returns its work. */
static double agent_turns(struct draw *d, uint32_t turns, uint32_t *steps)
{
	double work = 0;

	for (uint32_t i = 0; i < turns; i++) {
		uint32_t calls = i % 2 ? dice_geometric(&d->rng, 2) : 1;
		for (uint32_t j = 0; j < calls; j++, ++*steps) {
			double think = *steps ? 0.3 + dice_exponential(&d->rng, 2) : 0;
			work += step(d, i % 2, 0, think);
		}
	}
	return work;
}

static void agents(struct draw *d)
{
	char kind = d->scene->workload[5];
	bool six = kind == '6';
	uint32_t count = six ? 6 : kind == '3' ? 3 : 1, slots = six ? 4 : 2;
	double kv = six ? 1.5 : 2;

	named(d, "planner", six ? 34 : 30, kv, slots, 1, .15, six ? 12 : 15, .6, 2.5, 0);
	named(d, "coder", six ? 30 : 26, kv, slots, 1, .15, six ? 9 : 10, .6, 2.5, 1);
	uint32_t chat = named(d, "chat", 6, .75, 4, 1, .15, 8, .7, 1.5, 0);
	uint32_t embed = named(d, "embed", 1, .1, 8, .3, .1, .15, .3, 1, 0);

	for (uint32_t a = 0; a < count; a++) {
		double t = 37.0 * a;
		while (t < d->scene->horizon_s) {
			uint32_t steps = 0;
			session(d, t);
			double work = agent_turns(d, six ? 160 : dice_geometric(&d->rng, 14), &steps);
			if (six)
				break;
			t += (work + 12.0 * steps) * 2 + dice_exponential(&d->rng, 400);
		}
	}
	open_load(d, chat, (six ? .010 : .012) * d->load, 0);
	open_load(d, embed, .03 * d->load, 1);
}

static void batch96(struct draw *d)
{
	catalogue_sessions(d, s_batch, COUNT(s_batch), .0045, 6, 25);
	uint32_t big = named(d, "big70", 60, 2.5, 4, 1, .15, 40, .6, 3.5, 0);

	for (uint32_t k = 0; k < 4; k++) {
		for (uint32_t i = 0; i < 16; i++) {
			double t = 600 + 5000.0 * k + 0.5 * i;
			if (t >= d->scene->horizon_s)
				continue;
			session(d, t);
			step(d, big, 2, 0);
		}
	}
	open_load(d, big, .0004, 1);
}

static void starve96(struct draw *d)
{
	catalogue(d, s_starve, COUNT(s_starve));
	for (uint32_t m = 0; m < d->scene->models; m++)
		open_load(d, m, d->load * .20 / d->scene->model[m].mean_work_s, m % 2);
	uint32_t big = named(d, "big60", 52, 2, 4, 1, .15, 30, .6, 3.5, 0);
	double t = 300;

	while ((t += dice_exponential(&d->rng, 900)) < d->scene->horizon_s - 1800) {
		session(d, t);
		step(d, big, 1, 0);
	}
}

static const struct workload {
	const char *name;
	void (*fill)(struct draw *d);
	double size_gb, start_gb, walk_gb, most_gb;
	double spike_every_s, spike_gb; /* 0: none */
	double hours;
} workloads[] = {
	{ "mixed64", mixed, 64, 10, .03, 18, 1800, 4, 6 },
	{ "mixed48", mixed, 48, 8, .02, 13, 1800, 3, 6 },
	{ "cat96", cat96, 96, 8, .02, 16, 2400, 4, 6 },
	{ "cat96hot", cat96, 96, 8, .02, 16, 2400, 4, 6 },
	{ "low32", low32, 32, 5, .012, 8, 1800, 2, 6 },
	{ "low24", low24, 24, 4.5, .01, 7, 1800, 1.5, 6 },
	{ "bursty96", bursty96, 96, 8, .02, 16, 0, 0, 6 },
	{ "diurnal96", diurnal96, 96, 8, .02, 16, 0, 0, 6 },
	{ "agent1", agents, 64, 8, .02, 12, 0, 0, 6 },
	{ "agent3", agents, 64, 8, .02, 12, 0, 0, 6 },
	{ "agent6", agents, 64, 8, .02, 12, 0, 0, 6 },
	{ "comfy96", comfy96, 96, 8, .02, 16, 2400, 4, 6 },
	{ "batch96", batch96, 96, 8, .02, 16, 0, 0, 6 },
	{ "starve96", starve96, 96, 8, .02, 14, 0, 0, 6 },
	{ "over96", over96, 96, 8, .02, 16, 0, 0, 3 },
	{ "mixed128", mixed, 128, 14, .05, 40, 1800, 10, 6 },
};

const char *scene_workload(uint32_t index)
{
	return index < COUNT(workloads) ? workloads[index].name : NULL;
}

static void set_machine(struct scene *scene, const struct workload *w, uint64_t seed, double hours)
{
	*scene = (struct scene){
		.seed = seed,
		.physical_gb = w->size_gb,
		.disk_gbps = 3,
		.cached_gbps = 9,
		.horizon_s = 3600 * (hours > 0 ? hours : w->hours),
		.drain_s = 21600,
		.tick_s = 1,
		.stall_s = 10,
		.start_gb = w->start_gb,
		.walk_gb = w->walk_gb,
		.revert = 0.0005,
		.min_gb = 0.7 * w->start_gb,
		.max_gb = w->most_gb,
		.spike_rate = w->spike_every_s > 0 ? 1 / w->spike_every_s : 0,
		.spike_gb = w->spike_gb,
		.spike_mean_s = 300,
		.spike_ramp_gbps = 0.5,
		.rng_seed = 7919 * seed + 13,
	};
	str_copy(scene->workload, sizeof(scene->workload), str_from(w->name));
}

bool scene_draw(struct scene *scene, const char *workload, uint64_t seed, double load, double hours)
{
	for (uint32_t i = 0; i < COUNT(workloads); i++) {
		if (strcmp(workloads[i].name, workload) != 0)
			continue;
		set_machine(scene, &workloads[i], seed, hours);
		struct draw d = { .scene = scene,
			          .rng = dice_seeded(seed ^ str_hash(str_from(workload))),
			          .load = load };
		workloads[i].fill(&d);
		draw_ratios(&d);
		scene_sort(scene);
		return true;
	}
	return false;
}
