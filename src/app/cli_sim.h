#ifndef APP_CLI_SIM_H
#define APP_CLI_SIM_H

#include "app/cli.h"
#include "sim/sketch.h"
#include "sim/study.h"

/*
 * cli_sim - `lab sim WORKLOAD|FILE`: a policy under a day's load, several seeds at once.
 *
 * cli_sim.c reads the order, cli_sim_runs.c carries it out in processes of its
 * own, cli_sim_tell.c and cli_sim_svg.c say what came of it.
 */
struct sim_order {
	const char *workload;
	const char *file;     /* where it was read from; NULL = drawn */
	const char *path;     /* of a world of the study (JSON); NULL = none */
	struct sketch *sketch; /* NULL = none; the workload is drawn where there is neither */
	const char *arrivals; /* of the load instead of its own; NULL = its own */
	const char *policy;   /* NULL = each in turn */
	double load, hours;   /* hours < 0: its own */
	bool faults;
	uint64_t first;
	uint32_t runs;
	uint32_t jobs;
};

int cli_sim_study(const struct cli_args *args, uint64_t first, uint64_t last);
/* The workloads there are, one a line; CLI_DONE. */
int cli_sim_list(bool json);

/* The scene of one seed. 0, or a negative errno with the sentence. scene_free() in either case. */
int sim_scene(const struct sim_order *order, uint64_t seed, struct scene *scene, struct err *err);
/* All seeds, by seed: false where a run failed. */
bool sim_runs(const struct sim_order *order, const char *policy, struct study_result *results);
/* Means over the runs; rates over all hours, the longest wait of all, counts as sums. */
struct study_result sim_mean(const struct study_result *results, uint32_t runs);

/* One policy: each seed, the mean and, of a sketch, each model. `scene` is that of the first seed. */
void sim_tell(const struct sim_order *order, const struct scene *scene, const struct study_result *results,
              bool json);
/* Every policy's mean, in study_policy's order. */
enum { SIM_POLICIES_MAX = 16 };
void sim_tell_policies(const struct sim_order *order, const struct study_result *means, uint32_t count, bool json);
/* The same as a picture. 0 or a negative errno. */
int cli_sim_svg(const char *path, const char *title, const struct study_result *results, uint32_t count);

#endif
