#include "app/cli_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/cli_json.h"
#include "base/alloc.h"
#include "base/str.h"
#include "sim/study.h"

enum { RUNS_MAX = 100000, JOBS_MAX = 64 };

struct order {
	const char *workload;
	const char *path; /* of its file; NULL = drawn */
	const char *arrivals; /* of the load instead of its own; NULL = its own */
	const char *policy;
	double load, hours;
	uint64_t first;
	uint32_t runs;
	uint32_t jobs;
};

void cli_sim_list(void)
{
	puts("random");
	for (uint32_t i = 0; scene_workload(i); i++)
		puts(scene_workload(i));
}

static bool policy_exists(const char *name)
{
	for (uint32_t i = 0; study_policy(i); i++)
		if (strcmp(study_policy(i), name) == 0)
			return true;
	return false;
}

/* ---- running ---- */

static bool open_scene(const struct order *order, uint64_t seed, struct scene *scene)
{
	struct err err;

	if (!order->path && !scene_draw(scene, order->workload, seed, order->load, order->hours))
		return false;
	if (order->path && scene_read(scene, order->path, &err) < 0)
		return false;
	if (order->arrivals)
		return scene_arrivals(scene, order->arrivals, &err) == 0;
	if (order->path && order->hours > 0 && 3600 * order->hours < scene->horizon_s)
		scene->horizon_s = 3600 * order->hours;
	return true;
}

/* Every jobs-th run, each result in one write: small enough not to be torn. */
static int work(const struct order *order, uint32_t worker, int out)
{
	for (uint32_t run = worker; run < order->runs; run += order->jobs) {
		struct scene scene;
		struct study_result result;
		bool good = open_scene(order, order->first + run, &scene);

		if (good)
			good = study_run(&scene, order->policy, &result);
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

/* The runs in processes of their own: false where one of them failed. */
static bool run_all(const struct order *order, struct study_result *results)
{
	int ends[2];
	pid_t child[JOBS_MAX];
	uint32_t started = 0;
	bool good = true;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	for (; started < order->jobs; started++) {
		child[started] = fork();
		if (child[started] == 0) {
			close(ends[0]);
			_exit(work(order, started, ends[1]));
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

/* ---- telling ---- */

static json_t *figures_json(const struct study_result *r)
{
	json_t *json = json_object();
	json_t *p95 = json_pack("{s:f, s:f, s:f}", "interactive", r->wait_p95_s[0], "normal",
	                        r->wait_p95_s[1], "batch", r->wait_p95_s[2]);

	json_object_set_new(json, "wait_mean_s", json_real(r->wait_mean_s));
	json_object_set_new(json, "wait_interactive_mean_s", json_real(r->wait_interactive_mean_s));
	json_object_set_new(json, "wait_p95_s", p95);
	json_object_set_new(json, "wait_max_s", json_real(r->wait_max_s));
	json_object_set_new(json, "response_weighted_s", json_real(r->response_weighted_s));
	json_object_set_new(json, "loads_per_hour", json_real(r->loads_per_hour));
	json_object_set_new(json, "oom_per_hour", json_real(r->oom_per_hour));
	json_object_set_new(json, "memory_used_mean", json_real(r->memory_used_mean));
	json_object_set_new(json, "requests", json_integer((json_int_t)r->requests));
	json_object_set_new(json, "finished", json_integer((json_int_t)r->finished));
	json_object_set_new(json, "rejected", json_integer((json_int_t)r->rejected));
	json_object_set_new(json, "unfinished", json_integer((json_int_t)r->unfinished));
	json_object_set_new(json, "hours", json_real(r->hours));
	json_object_set_new(json, "invariant_violations",
	                    json_integer((json_int_t)r->invariant_violations));
	return json;
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
	sum->unfinished += r->unfinished;
	sum->loads += r->loads;
	sum->ooms += r->ooms;
	sum->hours += r->hours;
	sum->invariant_violations += r->invariant_violations;
}

/* Means over the runs; rates over all hours, the longest wait of all, counts as sums. */
static struct study_result mean_of(const struct study_result *results, uint32_t runs)
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

static void tell_json(const struct order *order, const struct study_result *results)
{
	json_t *runs = json_array();
	struct study_result mean = mean_of(results, order->runs);

	for (uint32_t i = 0; i < order->runs; i++) {
		json_t *run = json_pack("{s:I}", "seed", (json_int_t)results[i].seed);
		json_t *figures = figures_json(&results[i]);
		json_object_update(run, figures);
		json_decref(figures);
		json_array_append_new(runs, run);
	}
	json_print(json_pack("{s:s, s:s, s:f, s:o, s:o}", "workload", order->workload, "policy",
	                     order->policy, "load", order->load, "runs", runs, "mean",
	                     figures_json(&mean)));
}

static void tell_row(const char *name, const struct study_result *r)
{
	printf("%-15s %9.2f %9.2f %9.1f %9.2f %8.1f %8.3f %7.2f\n", name, r->wait_mean_s,
	       r->wait_p95_s[0], r->wait_max_s, r->response_weighted_s, r->loads_per_hour,
	       r->oom_per_hour, r->memory_used_mean);
}

static void tell_table(const struct order *order, const struct study_result *results)
{
	struct study_result mean = mean_of(results, order->runs);
	char seed[24];

	printf("%s, %s\n%-15s %9s %9s %9s %9s %8s %8s %7s\n", order->workload, order->policy, "seed",
	       "wait s", "p95 int", "longest", "response", "loads/h", "OOM/h", "memory");
	for (uint32_t i = 0; i < order->runs; i++) {
		snprintf(seed, sizeof(seed), "%llu", (unsigned long long)results[i].seed);
		tell_row(seed, &results[i]);
	}
	tell_row("mean", &mean);
}

/* Every policy over the same seeds, side by side. */
static int draw_picture(const struct order *asked, const char *path)
{
	struct study_result mean[16];
	struct study_result *results = xcalloc(asked->runs, sizeof(*results));
	uint32_t count = 0;
	bool good = true;

	for (; study_policy(count) && count < sizeof(mean) / sizeof(mean[0]) && good; count++) {
		struct order order = *asked;
		order.policy = study_policy(count);
		good = run_all(&order, results);
		mean[count] = mean_of(results, order.runs);
		if (good && count == 0)
			printf("%-15s %9s %9s %9s %9s %8s %8s %7s\n", "", "wait s", "p95 int", "longest",
			       "response", "loads/h", "OOM/h", "memory");
		if (good)
			tell_row(order.policy, &mean[count]);
	}
	free(results);
	if (!good)
		return cli_fail(CLI_FAILED, "cotenant lab sim --list", "lab: a run failed");
	int code = cli_sim_svg(path, asked->workload, mean, count);
	if (code < 0)
		return cli_fail(CLI_FAILED, "df", "%s: %s", path, strerror(-code));
	return CLI_DONE;
}

/* False with the sentence in `err`: the load cannot be played on that machine. */
static bool arrivals_good(const struct order *order, struct err *err)
{
	struct scene scene = { 0 };
	bool good = order->path ? scene_read(&scene, order->path, err) == 0
	                        : scene_draw(&scene, order->workload, order->first, 1, -1);

	good = good && scene_arrivals(&scene, order->arrivals, err) == 0;
	scene_free(&scene);
	return good;
}

/* ---- the verb ---- */

/* A positive decimal, or `otherwise` where it was not given; 0 where it is nonsense. */
static double positive(const struct cli_args *args, const char *name, double otherwise)
{
	const struct cli_value *value = cli_value(args, name);
	char *end;

	if (!value->given)
		return otherwise;
	double number = strtod(value->text, &end);
	return *end == 0 && isfinite(number) && number > 0 && number <= 1000 ? number : 0;
}

int cli_sim_study(const struct cli_args *args, uint64_t first, uint64_t last)
{
	static const char example[] = "cotenant lab sim mixed64 --policy lru --seeds 1-4";
	const struct cli_value *policy = cli_value(args, "policy");
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct order order = {
		.workload = args->operand[1],
		.policy = policy->given ? policy->text : study_policy(0),
		.path = str_ends(str_from(args->operand[1]), ".json") ? args->operand[1] : NULL,
		.load = positive(args, "load", 1),
		.hours = positive(args, "hours", -1),
		.first = first,
		.runs = (uint32_t)(last - first < RUNS_MAX ? last - first + 1 : RUNS_MAX),
		.jobs = processors < 1 ? 1 : processors > JOBS_MAX ? JOBS_MAX : (uint32_t)processors,
	};
	struct scene scene = { 0 };
	struct err err;

	if (order.path && scene_read(&scene, order.path, &err) < 0) {
		scene_free(&scene);
		return cli_fail(CLI_FAILED, "cotenant lab sim --list", "%s", err.text);
	}
	scene_free(&scene);
	if (order.path)
		order.workload = scene.workload;
	bool known = order.path;

	for (uint32_t i = 0; !known && scene_workload(i); i++)
		known = strcmp(scene_workload(i), order.workload) == 0;
	if (!known)
		return cli_fail(CLI_USAGE, "cotenant lab sim --list",
		                "lab: there is no workload '%.60s'", order.workload);
	if (!policy_exists(order.policy))
		return cli_fail(CLI_USAGE, example, "lab: there is no policy '%.40s'", order.policy);
	if (order.load <= 0 || order.hours == 0)
		return cli_fail(CLI_USAGE, example, "lab: --load and --hours are numbers above 0");
	if (cli_value(args, "arrivals")->given)
		order.arrivals = cli_value(args, "arrivals")->text;
	if (order.arrivals && !arrivals_good(&order, &err))
		return cli_fail(CLI_FAILED, "cotenant lab sim mixed64 --arrivals load.csv", "%s", err.text);
	if (order.path)
		order.runs = 1; /* it has its seed */
	if (order.jobs > order.runs)
		order.jobs = order.runs;

	if (cli_value(args, "svg")->given)
		return draw_picture(&order, cli_value(args, "svg")->text);
	struct study_result *results = xcalloc(order.runs, sizeof(*results));
	bool good = run_all(&order, results);
	if (good && args->json)
		tell_json(&order, results);
	else if (good)
		tell_table(&order, results);
	free(results);
	return good ? CLI_DONE : cli_fail(CLI_FAILED, example, "lab: a run failed");
}
