#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * scene - a machine, its models and the load of one simulated day, as data.
 *
 * A scene is read from a file (a world of the scheduling study, JSON) or drawn
 * from a workload's name and a seed. It says nothing about who decides: every
 * policy plays the same scene, and the random numbers that move the background
 * and the fluctuations do not depend on what is decided.
 *
 * Seconds, GB (10^9 bytes), GB/s. Classes: 0 interactive, 1 normal, 2 batch.
 * What is drawn is rounded as the files are, so that a scene and its file are one.
 */
enum { SCENE_CLASSES = 3, SCENE_MODELS_MAX = 64, SCENE_NAME_BYTES = 32 };

struct scene_model {
	char name[SCENE_NAME_BYTES];
	double base_gb;     /* estimated: loaded and idle */
	double kv_gb;       /* estimated: each running request */
	uint32_t slots;
	double estimate_gb; /* base + slots * kv: all that the earlier policies know */
	double bandwidth;   /* weight in the interference between models */
	double batch_beta;  /* slow-down inside the model */
	double mean_work_s;
	double work_sigma;
	double file_gb;
	double startup_s;
	double fluct_sd_gb;
	double ratio;       /* true over estimated; no policy sees it */
	bool pinned;
	bool external;      /* a reservation of another program */
};

struct scene_step {
	uint32_t model;
	uint32_t class;
	double weight;
	double think_s; /* after the step before it; unused in the first */
	double work_s;  /* alone on the machine */
	double hint_s;  /* what a policy is told */
};

struct scene_session {
	double start_s;
	uint32_t first; /* of its steps */
	uint32_t count;
};

struct scene {
	char workload[SCENE_NAME_BYTES];
	uint64_t seed;
	double physical_gb;
	double limit_gb; /* memory.limit; 0 = none */
	double disk_gbps, cached_gbps;
	double horizon_s, drain_s, tick_s, stall_s;
	double start_gb, walk_gb, revert, min_gb, max_gb;
	double spike_rate, spike_gb, spike_mean_s, spike_ramp_gbps;
	uint64_t rng_seed;
	double faults_until_s; /* 0: nothing goes wrong (faults.h) */
	uint32_t models;
	struct scene_model model[SCENE_MODELS_MAX];
	struct scene_session *session;
	uint32_t sessions, sessions_room;
	struct scene_step *step;
	uint32_t steps, steps_room;
};

/* 0, or a negative errno with the sentence in `err`. scene_free() in either case. */
int scene_read(struct scene *scene, const char *path, struct err *err);

/*
 * The load of a file in place of the scene's own: lines of t_ms,model,class,service_ms, the model one
 * of the scene's, the class interactive, normal or batch. 0, or a negative errno with the line in `err`.
 */
int scene_arrivals(struct scene *scene, const char *path, struct err *err);

/* The generator's own worlds: false where there is no such workload. hours 0 = the workload's own. */
bool scene_draw(struct scene *scene, const char *workload, uint64_t seed, double load, double hours);
/* The workloads' names by index; NULL at the end. */
const char *scene_workload(uint32_t index);

void scene_free(struct scene *scene);

/* Building one: a session begins, and gets its steps one after the other. */
void scene_add_session(struct scene *scene, double start_s);
void scene_add_step(struct scene *scene, const struct scene_step *step);
/* Sessions by start; equal starts stay in order. */
void scene_sort(struct scene *scene);

#endif
