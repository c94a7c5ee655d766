#include "app/cli_sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli_json.h"
#include "base/alloc.h"
#include "base/str.h"

enum { RUNS_MAX = 100000, JOBS_MAX = 64 };

static const char example[] = "cotenant lab sim mixed64 --policy lru --seeds 1-4";

int cli_sim_list(bool json)
{
	json_t *names = json_pack("[s, s]", "random", "interplay"), *name;
	size_t i;

	for (uint32_t k = 0; scene_workload(k); k++)
		json_array_append_new(names, json_string(scene_workload(k)));
	if (json)
		return json_print(json_pack("{s:o}", "workloads", names));
	json_array_foreach(names, i, name)
		puts(json_string_value(name));
	json_decref(names);
	return CLI_DONE;
}

static bool policy_exists(const char *name)
{
	for (uint32_t i = 0; study_policy(i); i++)
		if (strcmp(study_policy(i), name) == 0)
			return true;
	return false;
}

static bool workload_exists(const char *name)
{
	for (uint32_t i = 0; scene_workload(i); i++)
		if (strcmp(scene_workload(i), name) == 0)
			return true;
	return false;
}

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

/* ---- carrying it out ---- */

static int say_broken(const struct sim_order *order, uint64_t seed, const char *what)
{
	const char *world = order->file ? order->file : order->workload;
	char command[400];

	snprintf(command, sizeof(command), "cotenant lab sim %.300s --seeds %llu%s", world,
	         (unsigned long long)seed, order->faults ? " --faults" : "");
	return cli_fail(CLI_FAILED, command, "%.60s, seed %llu: %s", order->workload, (unsigned long long)seed, what);
}

/* Runs that ended before their end have no result. */
static uint64_t missing_seed(const struct sim_order *order, const struct study_result *results)
{
	uint32_t found = 0;

	for (uint64_t seed = order->first;; seed++, found = 0) {
		for (uint32_t i = 0; i < order->runs; i++)
			found += results[i].seed == seed && results[i].hours > 0;
		if (!found)
			return seed;
	}
}

static int run_one(const struct sim_order *order, const struct scene *scene, bool json)
{
	struct study_result *results = xcalloc(order->runs, sizeof(*results));
	int code = CLI_DONE;

	if (sim_runs(order, order->policy, results))
		sim_tell(order, scene, results, json);
	else
		code = say_broken(order, missing_seed(order, results), "the run did not come to its end");
	for (uint32_t i = 0; i < order->runs && code == CLI_DONE; i++)
		if (results[i].unfinished && results[i].invariant_violations)
			code = say_broken(order, results[i].seed, "some requests never had an end");
		else if (results[i].invariant_violations)
			code = say_broken(order, results[i].seed,
			                  "a rule was broken, or somebody waited beyond the bound");
	free(results);
	return code;
}

/* Every policy over the same seeds, side by side. */
static int run_policies(const struct sim_order *order, const char *picture, bool json)
{
	struct study_result *means = xcalloc(SIM_POLICIES_MAX, sizeof(*means));
	struct study_result *results = xcalloc(order->runs, sizeof(*results));
	uint32_t count = 0;
	bool good = true;
	int code = CLI_DONE;

	for (; study_policy(count) && count < SIM_POLICIES_MAX && good; count++) {
		good = sim_runs(order, study_policy(count), results);
		means[count] = sim_mean(results, order->runs);
	}
	if (good)
		sim_tell_policies(order, means, count, json);
	else
		code = cli_fail(CLI_FAILED, example, "lab: a run failed");
	int error = good && picture ? cli_sim_svg(picture, order->workload, means, count) : 0;
	if (error < 0)
		code = cli_fail(CLI_FAILED, "df", "%s: %s", picture, strerror(-error));
	free(results);
	free(means);
	return code;
}

/* ---- reading the order ---- */

/* A machine of one's own; false where it cannot be used: said. */
static bool take_sketch(const char *path, struct sim_order *order)
{
	struct buf told = BUF_INIT;

	order->sketch = sketch_read(path, &told);
	if (!order->sketch) {
		fputs(buf_cstr(&told), stderr);
		cli_fail(CLI_FAILED, "cotenant lab sim --help", "%.200s cannot be played as it is", path);
	}
	buf_release(&told);
	if (order->sketch)
		order->workload = order->sketch->title;
	return order->sketch;
}

/* What is to be played: a file by its ending, else a workload's name. False where there is none: said. */
static bool take_world(const char *name, struct sim_order *order, int *code)
{
	struct str text = str_from(name);

	order->workload = name;
	order->file = str_ends(text, ".json") || str_ends(text, ".yaml") || str_ends(text, ".yml") ? name : NULL;
	*code = CLI_FAILED;
	if (str_ends(text, ".yaml") || str_ends(text, ".yml"))
		return take_sketch(name, order);
	if (str_ends(text, ".json")) {
		order->path = name;
		return true;
	}
	if (workload_exists(name))
		return true;
	*code = cli_fail(CLI_USAGE, "cotenant lab sim --list",
	                 "lab: there is no workload '%.60s'; a file to play ends in .yaml or .json", name);
	return false;
}

static bool take_options(const struct cli_args *args, struct sim_order *order, int *code)
{
	const struct cli_value *policy = cli_value(args, "policy");

	order->policy = policy->given ? policy->text : study_policy(0);
	order->load = positive(args, "load", 1);
	order->hours = positive(args, "hours", -1);
	order->faults = cli_value(args, "faults")->given;
	if (cli_value(args, "arrivals")->given)
		order->arrivals = cli_value(args, "arrivals")->text;
	if (strcmp(order->policy, "all") == 0 || cli_value(args, "svg")->given)
		order->policy = NULL;
	*code = CLI_USAGE;
	if (order->policy && !policy_exists(order->policy)) {
		cli_fail(CLI_USAGE, "cotenant lab sim mixed64 --policy all", "lab: there is no policy '%.40s'",
		         order->policy);
		return false;
	}
	if (order->load > 0 && order->hours != 0)
		return true;
	cli_fail(CLI_USAGE, example, "lab: --load and --hours are numbers above 0, and 1000 at most");
	return false;
}

/* False where nothing would ever happen in it, or too much: said. */
static bool worth_playing(const struct sim_order *order)
{
	if (!order->sketch || order->arrivals)
		return true;
	if (!sketch_asked(order->sketch)) {
		cli_fail(CLI_FAILED, "cotenant lab sim FILE.yaml --arrivals load.csv",
		         "nobody asks for anything: no model has `requests`");
		return false;
	}
	if (sketch_requests(order->sketch, order->load, order->hours) > SKETCH_REQUESTS_MAX) {
		cli_fail(CLI_FAILED, "cotenant lab sim FILE.yaml --hours 1",
		         "that would be more than a million requests");
		return false;
	}
	return true;
}

static int play(struct sim_order *order, const struct cli_args *args)
{
	const struct cli_value *picture = cli_value(args, "svg");
	struct scene scene;
	struct err err;
	int code;

	if (!worth_playing(order))
		return CLI_FAILED;
	if (sim_scene(order, order->first, &scene, &err) < 0) {
		scene_free(&scene);
		return cli_fail(CLI_FAILED, "cotenant lab sim --list", "%s", err.text);
	}
	if (order->path) {
		order->workload = scene.workload;
		order->runs = 1; /* it has its seed */
	}
	if (order->jobs > order->runs)
		order->jobs = order->runs;
	if (order->policy)
		code = run_one(order, &scene, args->json);
	else
		code = run_policies(order, picture->given ? picture->text : NULL, args->json);
	scene_free(&scene);
	return code;
}

int cli_sim_study(const struct cli_args *args, uint64_t first, uint64_t last)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct sim_order order = {
		.first = first,
		.runs = (uint32_t)(last - first < RUNS_MAX ? last - first + 1 : RUNS_MAX),
		.jobs = processors < 1 ? 1 : processors > JOBS_MAX ? JOBS_MAX : (uint32_t)processors,
	};
	int code = CLI_USAGE;

	if (take_options(args, &order, &code) && take_world(args->operand[1], &order, &code))
		code = play(&order, args);
	sketch_free(order.sketch);
	return code;
}
