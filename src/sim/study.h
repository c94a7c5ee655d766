#ifndef SIM_STUDY_H
#define SIM_STUDY_H

#include "sim/stage.h"

/*
 * study - one scene played by one policy, and what its clients felt.
 *
 * The earlier policies stand here as the study defines them; they see estimates
 * and measured memory and know nothing of the arbiter. `cotenant` is the arbiter
 * itself, driven event by event; `clairvoyant` knows the future (clairvoyant.h).
 */
struct study_model {
	double wait_mean_s, response_mean_s;
	uint64_t requests, loads;
};

struct study_result {
	uint64_t seed;
	double wait_mean_s;
	double wait_interactive_mean_s;
	double wait_p95_s[SCENE_CLASSES];
	double wait_max_s;
	double response_weighted_s;
	double loads_per_hour;
	double oom_per_hour;
	double memory_used_mean; /* of the machine's memory */
	uint64_t requests, finished, rejected, left, unfinished;
	uint64_t loads, ooms;
	double hours;
	uint32_t invariant_violations;
	double overdue_max_s, overdue_bound_s; /* liveness.h */
	uint64_t faults[FAULT_KINDS];
	uint32_t models; /* but for reservations, whose rows are empty */
	struct study_model model[SCENE_MODELS_MAX];
};

/* The policies' names by index; NULL at the end. */
const char *study_policy(uint32_t index);

/* False where there is no such policy. */
bool study_run(const struct scene *scene, const char *policy, struct study_result *out);

/* What was felt so far, by a stage that has ended. */
void study_measure(const struct stage *stage, struct study_result *out);

/* The arbiter as a player; stage_run() between. `check`: arbiter_check() after every step. */
struct driven *driven_new(const struct scene *scene, uint32_t policy, bool check);
struct stage_player driven_player(struct driven *driven);
/* What it ordered though no policy may. */
uint32_t driven_violations(const struct driven *driven);
void driven_free(struct driven *driven);

/* ---- players; `ctx` is what study.c keeps for them ---- */
enum earlier { EARLIER_V1, EARLIER_THRESHOLD, EARLIER_HYSTERESIS };

struct earlier_state {
	enum earlier which;
	double pressure[20]; /* of the last ticks, oldest first */
	uint32_t ticks;
	bool open;
};

void earlier_hear(void *ctx, struct stage *stage, enum stage_news news, uint32_t index);
void threshold_decide(void *ctx, struct stage *stage);
void cost_benefit_decide(void *ctx, struct stage *stage);
void lru_decide(void *ctx, struct stage *stage);
void one_at_a_time_decide(void *ctx, struct stage *stage);

#endif
