#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/estimate_json.h"
#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_estimate_args.h"
#include "app/cli_estimate_table.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "app/hf_config.h"
#include "base/alloc.h"
#include "base/units.h"
#include "estimate/estimate.h"
#include "probe/topology.h"

static const struct cli_option estimate_options[] = {
	{ "context", 'c', CLI_NUMBER, "N", "the engine's -c, over all slots (else: what it was trained for)" },
	{ "slots", 0, CLI_NUMBER, "N", "requests at once, the engine's -np" },
	{ "batch", 0, CLI_NUMBER, "N", "the engine's -b (2048)" },
	{ "ubatch", 0, CLI_NUMBER, "N", "the engine's -ub (512)" },
	{ "outputs", 0, CLI_NUMBER, "N", "rows of logits (one a sequence; 0: the whole batch)" },
	{ "kv-type-k", 0, CLI_TEXT, "T", "f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl" },
	{ "kv-type-v", 0, CLI_TEXT, "T", "likewise" },
	{ "flash-attn", 0, CLI_TEXT, "on|off|auto", "as the engine takes it (auto)" },
	{ "unified-kv", 0, CLI_TEXT, "on|off", "one cache for all slots" },
	{ "gpu-layers", 0, CLI_TEXT, "all|N", "layers on the device (0)" },
	{ "cpu-experts", 0, CLI_TEXT, "all|N", "layers whose experts stay on the CPU (0)" },
	{ "swa-full", 0, CLI_TEXT, "on|off", "layers with a window keep every token too (off)" },
	{ "repack", 0, CLI_TEXT, "on|off", "matrices in the processor's own form (on)" },
	{ "rollbacks", 0, CLI_NUMBER, "N", "snapshots of recurrent state for speculative decoding (0)" },
	{ "engine-build", 0, CLI_NUMBER, "N", "rules of an older llama.cpp, such as 6900" },
	{ "kv", 0, CLI_TEXT, "plain|lazy", "lazy: the cache costs what the conversations fill" },
	{ "mmproj", 0, CLI_TEXT, "FILE", "a projector beside the model" },
	{ "lora", 0, CLI_TEXT, "FILE", "an adapter beside it" },
	{ "draft", 0, CLI_TEXT, "FILE", "a draft model beside it, with the same context" },
	{ "engine", 0, CLI_TEXT, "PROGRAM", "ask this llama-server what it will take; nothing is loaded" },
	{ "root", 0, CLI_TEXT, "DIR", "a recorded machine to say whether it fits, instead of this one" },
	{ "explain", 0, CLI_FLAG, NULL, "say what each number is made of" },
	{ 0 },
};

/* ---- for people ---- */

enum { CONTEXT_USUAL = 4096 };

static void print_line(const char *what, int64_t bytes, const char *why)
{
	char size[UNITS_TEXT];
	printf("  %-22s %10s  %s\n", what, units_size(size, bytes), why);
}

static void print_parts(const struct estimate *e)
{
	static const char *const columns[] = { "PART", ">DEVICE", ">HOST", "WHAT IT IS", NULL };
	static const char *const names[] = { "weights", "kv", "recurrent", "compute", "overhead", "total" };
	static const char *const texts[] = { "the tensors of the file",
		                             "keys and values of the conversations, at full context",
		                             "state of recurrent layers",
		                             "scratch buffers of one evaluation",
		                             "program, libraries, allocator",
		                             "" };
	const int64_t device[] = { e->device.weights_bytes, e->device.kv_bytes, e->device.recurrent_bytes,
		                   e->device.compute_bytes, e->device.overhead_bytes, e->device.total_bytes };
	const int64_t host[] = { e->host.weights_bytes, e->host.kv_bytes, e->host.recurrent_bytes,
		                 e->host.compute_bytes, e->host.overhead_bytes, e->host.total_bytes };
	struct buf out = BUF_INIT;
	struct table table;

	table_begin(&table, columns);
	for (int i = 0; i < 6; i++) {
		table_add(&table, "%s", names[i]);
		table_add_size(&table, device[i]);
		table_add_size(&table, host[i]);
		table_add(&table, "%s", texts[i]);
	}
	table_end(&table, &out);
	printf("\n%s", buf_cstr(&out));
	buf_release(&out);
}

/* A launch by cotenant with so large a context. */
struct told {
	int64_t context; /* over all slots; 0: the model has none */
	struct estimate estimate;
};

static const char *fits_text(const struct machine_room *room, const struct estimate *e)
{
	const char *fits = room->known ? machine_fits(room, e) : "";

	return !*fits                        ? ""
	       : strcmp(fits, "now") == 0   ? ": it fits now"
	       : strcmp(fits, "never") == 0 ? ": it can never fit here"
	                                    : ": it fits when others make room";
}

static void print_head(const char *path, const struct estimate *e)
{
	char size[UNITS_TEXT];
	bool large = e->parameters >= 1000000000;

	cli_put(path);
	printf(": ");
	cli_put(e->architecture);
	printf(" ");
	cli_put(e->quantisation);
	printf(", %.3g %s parameters, %lld layers", (double)e->parameters / (large ? 1e9 : 1e6),
	       large ? "billion" : "million", (long long)e->layers);
	if (e->trained_context > 0)
		printf(", trained for %lld tokens", (long long)e->trained_context);
	printf(", file %s\n", units_size(size, e->file_bytes));
}

/* One context, full. `at_rest`: the one that "at rest" was said of. */
static void print_full(const struct told *told, bool at_rest, const struct machine_room *room)
{
	const struct estimate *e = &told->estimate;
	char what[32], why[160], base[UNITS_TEXT];
	const char *state = told->context == 0                    ? "at work"
	                    : told->context == e->trained_context ? "its whole context, full"
	                                                          : "full";

	snprintf(what, sizeof(what), told->context > 0 ? "%lld tokens" : "all slots busy", (long long)told->context);
	if (at_rest)
		snprintf(why, sizeof(why), "%s%s", state, fits_text(room, e));
	else
		snprintf(why, sizeof(why), "%s; %s at rest%s", state, units_size(base, e->base_bytes), fits_text(room, e));
	print_line(what, machine_most(e), why);
}

/* What it takes where it begins, then what it may come to. */
static void print_told(const struct told *first, const struct told *last, const struct machine_room *room)
{
	const struct estimate *e = &last->estimate;
	char why[96] = "loaded and idle, started by cotenant";

	if (first->context > 0)
		snprintf(why, sizeof(why), "loaded and idle, started by cotenant for %lld tokens", (long long)first->context);
	print_line("at rest", first->estimate.base_bytes, why);
	print_full(first, true, room);
	if (last != first)
		print_full(last, false, room);
	print_line("peak of the load", e->peak_bytes, "what a load claims");
	print_line("at most (99 %)", e->upper_bytes, "bound of all of these");
	print_line("uncertainty", e->sigma_bytes, "one standard deviation, which the ledger uses");
	printf("  source %s%s, confidence %.0f %%", estimate_source_name(e->source),
	       e->source == ESTIMATE_ENGINE ? " (its own word)" : "", e->confidence * 100);
	if (e->flags[0]) {
		printf("; ");
		cli_put(e->flags);
	}
	putchar('\n');
}

/* Where it lies, if not all on the host. */
static void print_placing(const struct estimate *e)
{
	char device[UNITS_TEXT], host[UNITS_TEXT];

	if (e->device.total_bytes > 0)
		printf("  %22s %10s  of it on the GPU, %s beside it\n", "", units_size(device, e->device.total_bytes),
		       units_size(host, e->base_bytes - e->device.total_bytes));
	if (e->host_layers > 0)
		printf("                                     %lld of %lld layers are on the GPU, as many as fit there; the CPU\n"
		       "                                     computes the others (-ngl %lld)\n",
		       (long long)(e->layers + 1 - e->host_layers), (long long)e->layers + 1,
		       (long long)(e->layers + 1 - e->host_layers));
}

static void print_by_itself(const struct estimate *plain)
{
	char cache[UNITS_TEXT], why[128] = "idle, started without our flags";

	if (plain->cache_limit_bytes > 0)
		snprintf(why, sizeof(why), "idle, started without our flags, and a prompt cache of up to %s",
		         units_size(cache, plain->cache_limit_bytes));
	print_line("by the engine itself", plain->base_bytes, why);
	printf("                                     (weights mapped as well, the whole context's cache at once)\n");
}

/* How far the loads on this machine were from their estimates; nothing where no daemon runs. */
static void print_experience(const struct cli_args *args)
{
	json_t *json = client_reachable(args) ? client_peek(args, "/api/v1/calibration") : NULL;

	if (json && json_int(json, "loads") > 0)
		printf("\n  %lld loads here: the bound at %.0f %% held for %.1f %%, the estimate was off by %.2f %%\n"
		       "  in the median; cotenant lab calibration tells it over time\n",
		       (long long)json_int(json, "loads"), 100 * json_real_of(json, "target"),
		       100 * json_real_of(json, "coverage"), 100 * json_real_of(json, "error_median"));
	json_decref(json);
}

/* ---- the machine it is for ---- */

/* What could be loaded on that machine now, if nothing of ours were there. */
static int read_machine(const char *root, struct machine_room *out, struct err *err)
{
	struct topology *topology = xcalloc(1, sizeof(*topology));
	int error = topology_find(root, topology, err);

	if (error == 0) {
		uint32_t pool = topology_default_pool(topology);
		*out = (struct machine_room){
			.known = true,
			.free_bytes = topology_free(topology, pool),
			.capacity_bytes = topology_capacity(topology, pool),
			.has_devices = topology->devices > 0,
			.runs_cuda = topology_runs_cuda(topology),
			.own_memory = pool != 0,
			.host_free_bytes = topology_free(topology, 0),
			.host_capacity_bytes = topology_capacity(topology, 0),
		};
	}
	free(topology);
	return error;
}

static void print_free(const struct machine_room *room)
{
	char size[UNITS_TEXT];

	if (room->known)
		printf("  %s free on the machine\n", units_size(size, room->free_bytes));
}

/* As a person would serve it elsewhere: what vLLM takes is what it is told to take. */
static void print_vllm(int64_t token_bytes)
{
	char size[UNITS_TEXT];

	printf("  vLLM holds conversations in what --gpu-memory-utilization leaves beside the weights: %s a token,\n"
	       "  %lld tokens a GiB, by config.json\n", units_size(size, token_bytes), (long long)((INT64_C(1) << 30) / token_bytes));
}

static json_t *launched_json(const struct estimate *e)
{
	json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "source", estimate_source_name(e->source), "base_bytes", (json_int_t)e->base_bytes, "steady_bytes",
	                 (json_int_t)e->steady_bytes, "peak_bytes", (json_int_t)e->peak_bytes, "upper_bytes",
	                 (json_int_t)e->upper_bytes, "sigma_bytes", (json_int_t)e->sigma_bytes);
	estimate_add_checkpoints(json, e);
	estimate_add_placing(json, e);
	return json;
}

/* Without --context most conversations are far from the whole one: what it takes for a usual one comes first. */
static void say_text(const struct cli_args *args, const char *path, const struct estimate_params *params,
                     const struct machine_room *room, const struct estimate *plain, const struct estimate *launched)
{
	struct told last = { params->context > 0 ? params->context : launched->trained_context, *launched };
	struct told first = { CONTEXT_USUAL, *launched };
	struct estimate_params usual = *params;
	struct err err;

	usual.context = CONTEXT_USUAL;
	bool both = params->context == 0 && launched->trained_context > CONTEXT_USUAL &&
	            estimate_launched(args, path, &usual, room, &first.estimate, &err) == 0;
	print_head(path, plain);
	print_told(both ? &first : &last, &last, room);
	print_placing(launched);
	if (launched->base_bytes != plain->base_bytes)
		print_by_itself(plain);
	print_free(room);
}

static int say_file(const struct cli_args *args, const struct estimate_params *params,
                    const struct machine_room *room)
{
	const char *path = args->operand[0];
	struct estimate plain, launched;
	struct err err;

	if (estimate_plain(args, path, params, &plain, &err) < 0 ||
	    estimate_launched(args, path, params, room, &launched, &err) < 0)
		return cli_fail(CLI_FAILED, "cotenant estimate --help", "%s", err.text);
	if (cli_value(args, "engine")->given && estimate_ask_engine(args, path, params, room, &launched, &err) < 0)
		return cli_fail(CLI_FAILED, "cotenant estimate --help", "%s", err.text);
	bool table = !cli_value(args, "context")->given;
	int64_t token_bytes = plain.kv_bytes_per_token == 0 && plain.layers == 0 ? hf_config_token_bytes(path) : 0;
	if (args->json) {
		json_t *json = estimate_json(&plain);
		json_object_set_new(json, "launched", launched_json(&launched));
		json_object_set_new(json, "fits",
		                    room->known ? json_string(machine_fits(room, &launched)) : json_null());
		json_object_set_new(json, "free_bytes", json_integer(room->free_bytes));
		if (token_bytes > 0)
			json_object_set_new(json, "vllm", json_pack("{s:I}", "kv_bytes_per_token", (json_int_t)token_bytes));
		if (table)
			json_object_set_new(json, "table", table_json(args, path, params, room));
		return json_print(json);
	}
	say_text(args, path, params, room, &plain, &launched);
	if (token_bytes > 0)
		print_vllm(token_bytes);
	if (cli_value(args, "explain")->given) {
		print_parts(&plain);
		print_experience(args);
	}
	if (table)
		table_print(args, path, params, room);
	return CLI_DONE;
}

static int run_estimate(const struct cli_args *args)
{
	const struct cli_value *root = cli_value(args, "root");
	struct machine_room room = { 0 };
	struct estimate_params params;
	struct stat st;
	struct err err;

	int code = estimate_args(args, &params);
	if (code != CLI_DONE)
		return code;
	if (read_machine(root->given ? root->text : "", &room, &err) < 0 && root->given)
		return cli_fail(CLI_FAILED, "cotenant estimate --help", "--root %s: %s", root->text, err.text);
	params.device_there = cli_value(args, "gpu-layers")->given && room.has_devices;
	if (stat(args->operand[0], &st) == 0 && S_ISDIR(st.st_mode))
		return estimate_folder(args, args->operand[0], &params, &room);
	return say_file(args, &params, &room);
}

const struct cli_verb verb_estimate = {
	.name = "estimate",
	.operands = "FILE|DIR",
	.summary = "what a model file will take, from its header; needs no daemon",
	.help = "Reads the header of a model's file and tells what an engine will take with it: weights, KV\n"
	        "cache, compute buffers: at rest, with a usual context full and with its whole one, as cotenant\n"
	        "starts it, then what the engine would take by itself, which is what --json has at its top\n"
	        "(\"launched\" is by cotenant). Without --context, a table tells which contexts and KV types fit\n"
	        "this machine; of a folder, each model in it. A file that is still being fetched will do. Nothing\n"
	        "is loaded.\n\n"
	        "Examples:\n"
	        "  cotenant estimate model.gguf\n"
	        "  cotenant estimate ~/models\n"
	        "  cotenant estimate model.gguf -c 32768 --slots 2 --kv-type-k q8_0 --kv-type-v q8_0 --explain\n"
	        "  cotenant estimate model.gguf --json | jq .peak_bytes",
	.options = estimate_options,
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_estimate,
};
