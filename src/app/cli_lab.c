#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/decision.h"
#include "app/cli.h"
#include "app/cli_calibration.h"
#include "app/cli_json.h"
#include "app/cli_sim.h"
#include "base/alloc.h"
#include "base/units.h"
#include "sim/random.h"
#include "sim/record.h"

static const struct cli_option lab_options[] = {
	{ "seeds", 's', CLI_TEXT, "A-B", "sim: the seeds to run (1-50)" },
	{ "trace", 0, CLI_FLAG, NULL, "sim: each event and action as a line, on stderr" },
	{ "record", 0, CLI_TEXT, "FILE", "sim: a recording of the last seed, for replay" },
	{ "policy", 'p', CLI_TEXT, "NAME", "sim: who decides a workload; all: each in turn, side by side" },
	{ "load", 0, CLI_TEXT, "X", "sim: so many times a workload's load (1)" },
	{ "hours", 0, CLI_TEXT, "H", "sim: how long new work comes" },
	{ "arrivals", 0, CLI_TEXT, "F.csv", "sim: that load instead: t_ms,model,class,service_ms a line" },
	{ "faults", 0, CLI_FLAG, NULL, "sim: with crashes, failing loads, lying samples and more in a workload too" },
	{ "svg", 0, CLI_TEXT, "F.svg", "sim: a picture of all policies side by side" },
	{ "list", 0, CLI_FLAG, NULL, "sim: the workloads there are" },
	{ 0 },
};

/* ---- sim ---- */

/* "7" or "1-50". */
static bool parse_seeds(const char *text, uint64_t *first, uint64_t *last)
{
	struct str rest, start = str_cut(str_from(text), '-', &rest);

	if (!str_to_u64(start, first))
		return false;
	*last = *first;
	return !rest.data || (str_to_u64(rest, last) && *last >= *first);
}

static json_t *run_json(const struct sim_result *r)
{
	json_t *json = json_object();

	json_object_set_new(json, "seed", json_integer((json_int_t)r->seed));
	json_object_set_new(json, "requests", json_integer((json_int_t)r->requests));
	json_object_set_new(json, "finished", json_integer((json_int_t)r->finished));
	json_object_set_new(json, "rejected", json_integer((json_int_t)r->rejected));
	json_object_set_new(json, "left", json_integer((json_int_t)r->left));
	json_object_set_new(json, "cancelled", json_integer((json_int_t)r->cancelled));
	json_object_set_new(json, "invariant_violations", json_integer(r->problem[0] ? 1 : 0));
	json_object_set_new(json, "problem", r->problem[0] ? json_string(r->problem) : json_null());
	json_object_set_new(json, "steps", json_integer((json_int_t)r->steps));
	json_object_set_new(json, "simulated_s", json_real(r->simulated_s));
	json_object_set_new(json, "loads", json_integer((json_int_t)r->counters.loads));
	json_object_set_new(json, "evictions", json_integer((json_int_t)r->counters.evictions));
	json_object_set_new(json, "kernel_kills", json_integer((json_int_t)r->kernel_kills));
	json_object_set_new(json, "hash", json_sprintf("%016llx", (unsigned long long)r->hash));
	return json;
}

static FILE *open_record(const struct cli_args *args, bool last)
{
	const struct cli_value *record = cli_value(args, "record");
	return record->given && last ? fopen(record->text, "we") : NULL;
}

static bool is_interplay(const struct cli_args *args)
{
	return args->operands > 1 && strcmp(args->operand[1], "interplay") == 0;
}

static const char *world_kind(const struct cli_args *args)
{
	return is_interplay(args) ? "interplay" : "random";
}

/* One seed. 0, or the exit code where the recording cannot be written; `result` tells of the rest. */
static int run_seed(const struct cli_args *args, uint64_t seed, bool last, struct sim_result *result)
{
	struct sim_options options = { .seed = seed,
		                       .interplay = is_interplay(args),
		                       .trace = cli_value(args, "trace")->given ? stderr : NULL,
		                       .record = open_record(args, last) };
	int code = CLI_DONE;

	if (last && cli_value(args, "record")->given && !options.record)
		return cli_fail(CLI_FAILED, "cotenant lab sim --record /tmp/record", "%s: %s",
		                cli_value(args, "record")->text, strerror(errno));
	*result = (struct sim_result){ 0 };
	sim_run(&options, result);
	if (options.record && fclose(options.record) != 0)
		code = cli_fail(CLI_FAILED, "df", "the recording could not be written: %s", strerror(errno));
	return code;
}

static int say_broken(const struct cli_args *args, const struct sim_result *result)
{
	char command[80];

	snprintf(command, sizeof(command), "cotenant lab sim %s --seeds %llu --trace", world_kind(args),
	         (unsigned long long)result->seed);
	return cli_fail(CLI_FAILED, command, "seed %llu: %s", (unsigned long long)result->seed,
	                result->problem);
}

static int run_sim(const struct cli_args *args)
{
	const struct cli_value *seeds = cli_value(args, "seeds");
	uint64_t first = 1, last = 50, steps = 0, requests = 0;
	struct sim_result result;
	int code = CLI_DONE;

	bool random = args->operands < 2 || strcmp(args->operand[1], "random") == 0 || is_interplay(args);

	if (cli_value(args, "list")->given)
		return cli_sim_list(args->json);
	if (seeds->given && !parse_seeds(seeds->text, &first, &last))
		return cli_fail(CLI_USAGE, "cotenant lab sim random --seeds 1-50",
		                "lab: --seeds is A-B, such as 1-50, not '%.40s'", seeds->text);
	if (!random)
		return cli_sim_study(args, first, seeds->given ? last : 4);
	json_t *runs = json_array();
	for (uint64_t seed = first; seed <= last && code == CLI_DONE; seed++) {
		code = run_seed(args, seed, seed == last, &result);
		if (code != CLI_DONE)
			break;
		steps += result.steps;
		requests += result.requests;
		json_array_append_new(runs, run_json(&result));
		if (result.problem[0])
			code = say_broken(args, &result);
	}
	if (args->json)
		json_print(json_pack("{s:s, s:s, s:O}", "workload", world_kind(args), "policy", "drawn", "runs", runs));
	else if (code == CLI_DONE)
		printf("seeds %llu-%llu: every invariant held; %llu steps, %llu requests\n",
		       (unsigned long long)first, (unsigned long long)last, (unsigned long long)steps,
		       (unsigned long long)requests);
	json_decref(runs);
	return code;
}

/* ---- replay ---- */

struct replay {
	bool json;
	int64_t wall_offset_us;
	int64_t first_at_us;
	char (*name)[MODEL_NAME_BYTES]; /* by model, as the events told */
	uint32_t names;
};

static const char *replay_name(void *ctx, uint32_t model)
{
	const struct replay *replay = ctx;
	return model < replay->names && replay->name[model][0] ? replay->name[model] : NULL;
}

static void on_event(void *ctx, const struct event *event)
{
	struct replay *replay = ctx;

	if (!replay->first_at_us)
		replay->first_at_us = event->at_us;
	if (event->type == EVENT_WALL)
		replay->wall_offset_us = event->wall.offset_us;
	if (event->type != EVENT_MODEL || event->model.model >= 1 << 20)
		return;
	uint32_t model = event->model.model;
	if (model >= replay->names) {
		replay->name = xrealloc(replay->name, (model + 1) * sizeof(*replay->name));
		memset(replay->name[replay->names], 0, (model + 1 - replay->names) * sizeof(*replay->name));
		replay->names = model + 1;
	}
	const char *name = event->model.spec.name;
	str_copy(replay->name[model], MODEL_NAME_BYTES, (struct str){ name, strnlen(name, MODEL_NAME_BYTES) });
}

/* One line a decision: its JSON, or the time since the start and the sentence. */
static void on_action(void *ctx, const struct action *action)
{
	struct replay *replay = ctx;
	const struct names names = { replay, replay_name };
	struct buf text = BUF_INIT;

	if (action->type != ACTION_RECORD)
		return;
	const struct decision *decision = &action->decision;
	if (replay->json) {
		json_t *json = decision_json(decision, &names, "00000000", replay->wall_offset_us);
		json_dumpf(json, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(json);
		return;
	}
	decision_text(decision, &names, &text);
	printf("%12.3f s  ", (double)(decision->at_us - replay->first_at_us) / 1e6);
	cli_put(buf_cstr(&text));
	putchar('\n');
	buf_release(&text);
}

static void say_summary(const struct replay *replay, const struct replay_result *result)
{
	if (replay->json) {
		json_t *json = json_pack("{s:I, s:I, s:b}", "events", (json_int_t)result->events, "actions",
		                         (json_int_t)result->actions, "cut_short", result->cut_short);
		json_object_set_new(json, "hash", json_sprintf("%016llx", (unsigned long long)result->hash));
		json_dumpf(json, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(json);
		return;
	}
	printf("%llu events, %llu actions, hash %016llx%s\n", (unsigned long long)result->events,
	       (unsigned long long)result->actions, (unsigned long long)result->hash,
	       result->cut_short ? "; the recording ends within an event" : "");
}

static int run_replay(const struct cli_args *args)
{
	struct replay replay = { .json = args->json };
	struct replay_result result = { 0 };
	struct err err;

	if (args->operands < 2)
		return cli_fail(CLI_USAGE, "cotenant lab --help", "lab replay: needs a recording");
	FILE *in = fopen(args->operand[1], "re");
	if (!in)
		return cli_fail(CLI_FAILED, "cotenant serve --record FILE", "%s: %s", args->operand[1],
		                strerror(errno));
	int error = replay_run(in, true, on_event, on_action, &replay, &result, &err);
	fclose(in);
	if (error == 0)
		say_summary(&replay, &result);
	free(replay.name);
	if (error < 0)
		return cli_fail(CLI_FAILED, "cotenant serve --record FILE", "%s: %s", args->operand[1], err.text);
	return CLI_DONE;
}

static int run_lab(const struct cli_args *args)
{
	if (strcmp(args->operand[0], "sim") == 0)
		return run_sim(args);
	if (strcmp(args->operand[0], "replay") == 0)
		return run_replay(args);
	if (strcmp(args->operand[0], "calibration") == 0)
		return run_calibration(args);
	return cli_fail(CLI_USAGE, "cotenant lab --help", "lab: '%.60s' is not sim, replay or calibration",
	                args->operand[0]);
}

const struct cli_verb verb_lab = {
	.name = "lab",
	.operands = "sim [random|interplay|WORKLOAD|FILE] | replay FILE | calibration [FILE]",
	.summary = "the arbiter in a simulated world, a recording again, how good estimates were",
	.help = "sim runs the arbiter in random worlds, one a seed, with faults of every kind, and proves\n"
	        "its invariants after every step; in those of `interplay` conversations, growing contexts, sets,\n"
	        "pins, others' servers and sleep meet as well. With a workload (--list) it plays a day's load\n"
	        "under a policy and tells what the clients felt; with FILE.yaml that of your own machine: its\n"
	        "memory, its models and who asks for them, as doc/simulator.md shows.\n"
	        "replay plays what `cotenant serve --record FILE` wrote and prints every decision again, byte for\n"
	        "byte the same on the same version; with --json one object a line.\n"
	        "calibration tells how good the estimates of the daemon's loads were and whether their bounds\n"
	        "held, over time and for each engine; or of the loads in FILE.\n\n"
	        "Examples:\n"
	        "  cotenant lab sim --seeds 1-200\n"
	        "  cotenant lab sim --seeds 7 --trace\n"
	        "  cotenant lab sim mixed64 --policy lru --seeds 1-4\n"
	        "  cotenant lab sim my-machine.yaml --policy all\n"
	        "  cotenant lab replay record\n"
	        "  cotenant lab calibration",
	.options = lab_options,
	.least = 1,
	.most = 2,
	.reads = true,
	.asks = true,
	.run = run_lab,
};
