/* The runs of an order, in processes of their own. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/cli_sim.h"
#include "sim/faults.h"

enum { JOBS_MAX = 64 };

int sim_scene(const struct sim_order *order, uint64_t seed, struct scene *scene, struct err *err)
{
	int code = 0;

	*scene = (struct scene){ 0 };
	if (order->sketch)
		sketch_draw(order->sketch, seed, order->load, order->hours, scene);
	else if (order->path)
		code = scene_read(scene, order->path, err);
	else if (!scene_draw(scene, order->workload, seed, order->load, order->hours))
		code = err_set(err, -ENOENT, "there is no workload '%.60s'", order->workload);
	if (code == 0 && order->arrivals)
		code = scene_arrivals(scene, order->arrivals, err);
	else if (order->path && order->hours > 0 && 3600 * order->hours < scene->horizon_s)
		scene->horizon_s = 3600 * order->hours;
	if (code == 0 && order->faults)
		faults_scene(scene);
	return code;
}

/* Every jobs-th run, each result in one write: small enough not to be torn. */
static int work(const struct sim_order *order, const char *policy, uint32_t worker, int out)
{
	_Static_assert(sizeof(struct study_result) <= 4096, "a pipe takes so much at once");

	for (uint32_t run = worker; run < order->runs; run += order->jobs) {
		struct scene scene;
		struct study_result result;
		struct err err;
		bool good = sim_scene(order, order->first + run, &scene, &err) == 0;

		if (good)
			good = study_run(&scene, policy, &result);
		scene_free(&scene);
		if (!good || write(out, &result, sizeof(result)) != (ssize_t)sizeof(result))
			return CLI_FAILED;
	}
	return CLI_DONE;
}

static int by_seed(const void *x, const void *y)
{
	const struct study_result *a = x, *b = y;

	return a->seed < b->seed ? -1 : a->seed > b->seed;
}

static uint32_t gather(int in, struct study_result *results, uint32_t room)
{
	uint32_t count = 0;

	while (count < room) {
		ssize_t got = read(in, &results[count], sizeof(results[count]));
		if (got < 0 && errno == EINTR)
			continue;
		if (got != (ssize_t)sizeof(results[count]))
			break;
		count++;
	}
	qsort(results, count, sizeof(*results), by_seed);
	return count;
}

bool sim_runs(const struct sim_order *order, const char *policy, struct study_result *results)
{
	int ends[2];
	pid_t child[JOBS_MAX];
	uint32_t started = 0, jobs = order->jobs < JOBS_MAX ? order->jobs : JOBS_MAX;
	bool good = true;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	for (; started < jobs; started++) {
		child[started] = fork();
		if (child[started] == 0) {
			close(ends[0]);
			_exit(work(order, policy, started, ends[1]));
		}
		if (child[started] < 0)
			break;
	}
	close(ends[1]);
	good = started == order->jobs && gather(ends[0], results, order->runs) == order->runs;
	close(ends[0]);
	for (uint32_t i = 0; i < started; i++) {
		int status;
		good &= waitpid(child[i], &status, 0) == child[i] && status == 0;
	}
	return good;
}

/* ---- means ---- */

static void add_models(struct study_result *sum, const struct study_result *r)
{
	sum->models = r->models;
	for (uint32_t m = 0; m < r->models; m++) {
		struct study_model *to = &sum->model[m];
		const struct study_model *from = &r->model[m];
		uint64_t all = to->requests + from->requests;
		double share = all ? (double)from->requests / (double)all : 0;
		to->wait_mean_s += share * (from->wait_mean_s - to->wait_mean_s);
		to->response_mean_s += share * (from->response_mean_s - to->response_mean_s);
		to->requests = all;
		to->loads += from->loads;
	}
}

static void add(struct study_result *sum, const struct study_result *r, double share)
{
	sum->wait_mean_s += share * r->wait_mean_s;
	sum->wait_interactive_mean_s += share * r->wait_interactive_mean_s;
	for (uint32_t class = 0; class < SCENE_CLASSES; class++)
		sum->wait_p95_s[class] += share * r->wait_p95_s[class];
	sum->wait_max_s = fmax(sum->wait_max_s, r->wait_max_s);
	sum->response_weighted_s += share * r->response_weighted_s;
	sum->memory_used_mean += share * r->memory_used_mean;
	sum->requests += r->requests;
	sum->finished += r->finished;
	sum->rejected += r->rejected;
	sum->left += r->left;
	sum->unfinished += r->unfinished;
	sum->loads += r->loads;
	sum->ooms += r->ooms;
	sum->hours += r->hours;
	sum->invariant_violations += r->invariant_violations;
	sum->overdue_max_s = fmax(sum->overdue_max_s, r->overdue_max_s);
	sum->overdue_bound_s = fmax(sum->overdue_bound_s, r->overdue_bound_s);
	for (uint32_t kind = 0; kind < FAULT_KINDS; kind++)
		sum->faults[kind] += r->faults[kind];
	add_models(sum, r);
}

struct study_result sim_mean(const struct study_result *results, uint32_t runs)
{
	struct study_result mean = { 0 };

	for (uint32_t i = 0; i < runs; i++)
		add(&mean, &results[i], 1.0 / runs);
	if (mean.hours > 0) {
		mean.loads_per_hour = (double)mean.loads / mean.hours;
		mean.oom_per_hour = (double)mean.ooms / mean.hours;
	}
	return mean;
}
