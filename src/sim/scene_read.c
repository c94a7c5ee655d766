/* A world file of the scheduling study. Nothing in it is trusted beyond its type and its bounds. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "sim/scene.h"

enum { STEP_FIELDS = 6, SESSIONS_MAX = 1 << 20 };

static double number(const json_t *from, const char *key, double otherwise)
{
	const json_t *value = json_object_get(from, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

static void text(const json_t *from, const char *key, char *to)
{
	const char *value = json_string_value(json_object_get(from, key));

	if (value)
		str_copy(to, SCENE_NAME_BYTES, str_from(value));
}

static void read_machine(struct scene *scene, const json_t *machine)
{
	scene->physical_gb = number(machine, "physical_gb", 0);
	scene->disk_gbps = number(machine, "disk_gbps", 3);
	scene->cached_gbps = number(machine, "cached_gbps", 9);
	scene->horizon_s = number(machine, "horizon_s", 21600);
	scene->drain_s = number(machine, "drain_s", 21600);
	scene->tick_s = number(machine, "tick_s", 1);
	scene->stall_s = number(machine, "stall_s", 10);
}

static void read_background(struct scene *scene, const json_t *background)
{
	scene->start_gb = number(background, "start_gb", 0);
	scene->walk_gb = number(background, "walk_gb", 0);
	scene->revert = number(background, "revert", 0.0005);
	scene->min_gb = number(background, "min_gb", 0.7 * scene->start_gb);
	scene->max_gb = number(background, "max_gb", scene->physical_gb);
	scene->spike_rate = number(background, "spike_rate_per_s", 0);
	scene->spike_gb = number(background, "spike_gb", 0);
	scene->spike_mean_s = number(background, "spike_mean_s", 300);
	scene->spike_ramp_gbps = number(background, "spike_ramp_gbps", 0.5);
	scene->rng_seed = (uint64_t)json_integer_value(json_object_get(background, "rng_seed"));
}

static bool read_model(struct scene_model *model, const json_t *from)
{
	text(from, "name", model->name);
	model->base_gb = number(from, "base_gb", -1);
	model->kv_gb = number(from, "kv_gb", 0);
	double slots = number(from, "slots", 1);
	model->slots = slots >= 1 && slots <= 65536 ? (uint32_t)slots : 0;
	model->estimate_gb = number(from, "estimate_gb",
	                            model->base_gb + model->slots * model->kv_gb);
	model->bandwidth = number(from, "bandwidth", 1);
	model->batch_beta = number(from, "batch_beta", 0.15);
	model->mean_work_s = number(from, "mean_work_s", 10);
	model->work_sigma = number(from, "work_sigma", 0);
	model->file_gb = number(from, "file_gb", model->base_gb);
	model->startup_s = number(from, "startup_s", 2);
	model->fluct_sd_gb = number(from, "fluct_sd_gb", 0);
	model->ratio = number(from, "ratio", 1);
	model->pinned = json_is_true(json_object_get(from, "pinned"));
	model->external = json_is_true(json_object_get(from, "external"));
	return model->base_gb >= 0 && model->slots > 0 && model->ratio >= 0 && model->file_gb >= 0;
}

static bool read_step(struct scene *scene, const json_t *from)
{
	double value[STEP_FIELDS];

	for (size_t i = 0; i < STEP_FIELDS; i++) {
		const json_t *field = json_array_get(from, i);
		if (!json_is_number(field) && i < STEP_FIELDS - 1)
			return false;
		value[i] = field ? json_number_value(field) : value[4];
	}
	struct scene_step step = {
		.weight = value[2], .think_s = value[3], .work_s = value[4], .hint_s = value[5],
	};
	if (value[0] < 0 || value[0] >= scene->models || value[1] < 0 ||
	    value[1] >= SCENE_CLASSES || step.work_s < 0 || step.think_s < 0)
		return false;
	step.model = (uint32_t)value[0];
	step.class = (uint32_t)value[1];
	scene_add_step(scene, &step);
	return true;
}

static bool read_sessions(struct scene *scene, const json_t *sessions)
{
	const json_t *session, *step;
	size_t i, j;

	if (json_array_size(sessions) > SESSIONS_MAX)
		return false;
	json_array_foreach(sessions, i, session) {
		const json_t *steps = json_array_get(session, 1);
		scene_add_session(scene, json_number_value(json_array_get(session, 0)));
		if (json_array_size(steps) == 0)
			return false;
		json_array_foreach(steps, j, step)
			if (!read_step(scene, step))
				return false;
	}
	scene_sort(scene);
	return true;
}

static bool read_scene(struct scene *scene, const json_t *root)
{
	const json_t *models = json_object_get(root, "models"), *model;
	size_t i;

	text(root, "workload", scene->workload);
	scene->seed = (uint64_t)json_integer_value(json_object_get(root, "seed"));
	read_machine(scene, json_object_get(root, "machine"));
	read_background(scene, json_object_get(root, "background"));
	if (scene->physical_gb <= 0 || scene->disk_gbps <= 0 || scene->cached_gbps <= 0 ||
	    scene->tick_s <= 0 || json_array_size(models) > SCENE_MODELS_MAX)
		return false;
	json_array_foreach(models, i, model)
		if (!read_model(&scene->model[scene->models++], model))
			return false;
	return read_sessions(scene, json_object_get(root, "sessions"));
}

int scene_read(struct scene *scene, const char *path, struct err *err)
{
	json_error_t at;
	json_t *root = json_load_file(path, 0, &at);

	*scene = (struct scene){ 0 };
	if (!root)
		return err_set(err, -EBADMSG, "%s:%d:%d: %s", path, at.line, at.column, at.text);
	bool good = read_scene(scene, root);
	json_decref(root);
	if (!good)
		return err_set(err, -EBADMSG, "%s: not a scheduling world", path);
	return 0;
}
