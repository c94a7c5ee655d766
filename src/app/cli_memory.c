#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/memory.h"
#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/patience.h"
#include "app/cli_table.h"
#include "base/alloc.h"
#include "base/units.h"
#include "probe/programs.h"
#include "probe/topology.h"

static const struct cli_option memory_options[] = {
	{ "compact", 0, CLI_FLAG, NULL,
	  "gather free memory into large blocks; idle models leave for it and come back" },
	{ "root", 0, CLI_TEXT, "DIR",
	  "read a recorded machine (DIR/proc, DIR/sys) instead of asking the daemon" },
	{ 0 },
};

/* One reading of the machine, judged by itself. */
static int read_machine(const char *root, json_t **out)
{
	struct topology *topology = xcalloc(1, sizeof(*topology));
	struct programs *programs = xcalloc(1, sizeof(*programs));
	struct err err;
	patience_begin("cotenant memory");
	int code = topology_find(root, topology, &err);

	/* Without even the machine's counters it is said what is not known. */
	if (code == 0 || topology_has_proc(root)) {
		code = 0;
		programs_complete(root, topology, programs);
		*out = memory_json(&(struct memory_input){ .topology = topology,
		                                           .programs = programs,
		                                           .baseline_bytes = -1,
		                                           .limit_bytes = INT64_MAX });
	}
	patience_end();
	free(programs);
	free(topology);
	return code < 0 ? cli_fail(CLI_FAILED, "cotenant memory", "%s", err.text) : CLI_DONE;
}

/* Of two sizes it is not plain what set them. */
static const char *what_of(const json_t *pool, const char *key, const char *what)
{
	if (strcmp(key, "usable_bytes") == 0 && strcmp(json_text(pool, "usable_bound_by"), "reserve") == 0)
		return "advised for models: all that the reserve leaves";
	if (strcmp(key, "usable_bytes") == 0)
		return strcmp(json_text(pool, "usable_bound_by"), "limit") == 0
		               ? "advised for models: 85 % of memory.limit"
		               : "advised for models: 85 % of what the baseline and all caps leave";
	if (strcmp(key, "free_bytes") != 0)
		return what;
	const char *by = json_text(pool, "free_bound_by");
	return strcmp(by, "limit") == 0  ? "the largest need that would be admitted now, under memory.limit"
	       : strcmp(by, "view") == 0 ? "the largest need that would be admitted now, under a cap of the machine"
	                                 : what;
}

static void print_sizes(const json_t *pool)
{
	static const struct {
		const char *key, *label, *what;
	} rows[] = {
		{ "size_bytes", "size", "all there is" },
		{ "capacity_bytes", "capacity", "less the reserve that stays free, within every limit" },
		{ "usable_bytes", "usable", "" },
		{ "unreclaimable_bytes", "in use", "what the kernel could not take back" },
		{ "foreign_bytes", "foreign", "of that, by others than our engines" },
		{ "claimed_bytes", "claimed", "held by our engines" },
		{ "free_bytes", "free", "the largest need that would be admitted now" },
	};
	char size[UNITS_TEXT];

	cli_put(json_text(pool, "name"));
	putchar('\n');
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		printf("  %-10s %10s  %s\n", rows[i].label,
		       units_size(size, json_int(pool, rows[i].key)), what_of(pool, rows[i].key, rows[i].what));
	if (json_int(pool, "claimed_bytes") > json_int(pool, "usable_bytes"))
		puts("  more is claimed than advised: that is admitted while there is room; the rest to usable is kept for\n"
		     "  what nobody foresees, so the next load may have to make others go");
}

/* Nothing is "0 B", and what is not known is no size. */
static void add_size(struct table *table, const json_t *object, const char *key)
{
	char size[UNITS_TEXT];
	bool known = json_is_integer(json_object_get(object, key));

	table_add(table, "%s", known ? units_size(size, json_int(object, key)) : "unknown");
}

/* Every reading of the pool, what it was used as, and why. */
static void print_views(const json_t *pool)
{
	static const char *const columns[] = { "READING", ">BYTES", "USED AS", "WHY", NULL };
	struct buf out = BUF_INIT;
	struct table table;
	const json_t *view;
	size_t i;

	table_begin(&table, columns);
	json_array_foreach(json_object_get(pool, "views"), i, view)
	{
		table_add(&table, "%s", json_text(view, "name"));
		add_size(&table, view, "bytes");
		table_add(&table, "%s", json_text(view, "used_as"));
		table_add(&table, "%s", json_text(view, "why"));
	}
	table_end(&table, &out);
	printf("\n%s\n", buf_cstr(&out));
	buf_release(&out);
}

static void print_runtimes(const json_t *runtimes)
{
	char size[UNITS_TEXT];
	const char *name;
	json_t *runtime;

	json_object_foreach((json_t *)runtimes, name, runtime)
	{
		int64_t bytes = json_int(runtime, "allocatable_bytes");
		bool there = json_array_size(json_object_get(runtime, "devices")) > 0 || strcmp(name, "cpu") == 0;
		if (there && json_is_null(json_object_get(runtime, "allocatable_bytes")))
			printf("what any program could take on %s now is unknown\n", name);
		else if (there)
			printf("any program could take %s on %s now, whatever the limit of models\n", units_size(size, bytes), name);
	}
}

static void print_owners(const json_t *owners)
{
	static const char *const columns[] = { "OWNER", "KIND", ">CLAIM", ">MEASURED", NULL };
	struct buf out = BUF_INIT;
	struct table table;
	const json_t *owner;
	size_t i;

	table_begin(&table, columns);
	json_array_foreach(owners, i, owner)
	{
		if (strcmp(json_text(owner, "kind"), "foreign") == 0 && json_int(owner, "measured_bytes") == 0)
			continue; /* the rest, where all have names */
		table_add(&table, "%s", json_text(owner, "name"));
		table_add(&table, "%s", json_text(owner, "kind"));
		add_size(&table, owner, "claim_bytes");
		add_size(&table, owner, "measured_bytes");
	}
	table_end(&table, &out);
	printf("\n%s", buf_cstr(&out));
	buf_release(&out);
}

static void print_memory(const json_t *memory)
{
	const json_t *pool, *warning;
	size_t i;

	json_array_foreach(json_object_get(memory, "pools"), i, pool)
	{
		print_sizes(pool);
		print_views(pool);
	}
	print_runtimes(json_object_get(memory, "runtimes"));
	print_owners(json_object_get(memory, "owners"));
	json_array_foreach(json_object_get(memory, "warnings"), i, warning)
	{
		printf("\n%s", i == 0 ? "note: " : "      ");
		cli_put(json_text(warning, "message"));
	}
	if (json_array_size(json_object_get(memory, "warnings")))
		putchar('\n');
	if (!json_yes(memory, "daemon"))
		puts("\nno daemon was asked: this is one reading of the machine");
}

static int compact(const struct cli_args *args)
{
	json_t *answer;
	int code = client_command(args, "POST", "/api/v1/memory/compact", NULL, &answer);

	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(answer);
	cli_put(json_text(answer, "report"));
	putchar('\n');
	json_decref(answer);
	return CLI_DONE;
}

static int run_memory(const struct cli_args *args)
{
	if (cli_value(args, "compact")->given)
		return compact(args);
	const struct cli_value *root = cli_value(args, "root");
	json_t *memory;
	int code;

	/* An address that was given is meant; what is only searched for may be absent. */
	if (root->given)
		code = read_machine(root->text, &memory);
	else if (args->url || args->socket || client_reachable(args))
		code = client_get(args, "/api/v1/memory", &memory);
	else
		code = read_machine("", &memory);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(memory);
	print_memory(memory);
	json_decref(memory);
	return CLI_DONE;
}

const struct cli_verb verb_memory = {
	.name = "memory",
	.operands = "",
	.summary = "the ledger: every byte by its owner",
	.help = "Shows how much memory there is, how much of it models may use, who has what, and "
	        "which\n"
	        "cap binds. With the daemon it is its ledger; without one it is a reading of the "
	        "machine.\n\n"
	        "Examples:\n"
	        "  cotenant memory\n"
	        "  cotenant memory --compact          # before a load that needs large blocks; root\n"
	        "  cotenant memory --json | jq '.owners[] | select(.kind == \"instance\")'",
	.options = memory_options,
	.reads = true,
	.asks = true,
	.run = run_memory,
};
