#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "base/units.h"

static void print_table(struct table *table)
{
	struct buf out = BUF_INIT;

	table_end(table, &out);
	fputs(buf_cstr(&out), stdout);
	buf_release(&out);
}

/* ---- ps ---- */

static const struct cli_option ps_options[] = {
	{ "all", 'a', CLI_FLAG, NULL, "unloaded models too" },
	{ 0 },
};

/* Its name, and what makes it unlike others. */
static void add_name(struct table *table, const json_t *model)
{
	bool outside = json_is_false(json_object_get(model, "managed"));

	table_add(table, "%s%s%s", json_text(model, "name"), json_yes(model, "pinned") ? " (pinned)" : "",
	          outside ? " (url)" : "");
}

/* How often its context grew, and what its users waited for that. */
static void add_growths(struct table *table, const json_t *model)
{
	int64_t growths = json_int(model, "growths");
	char took[UNITS_TEXT];

	if (growths == 0)
		table_add(table, "-");
	else
		table_add(table, "%lld in %s", (long long)growths,
		          units_duration(took, json_int(model, "growths_ms") * US_PER_MS));
}

static void add_running_row(struct table *table, const json_t *model)
{
	char when[JSON_WHEN_BYTES];

	add_name(table, model);
	table_add(table, "%s", json_text(model, "state"));
	table_add(table, "%lld/%lld", (long long)json_int(model, "slots_used"),
	          (long long)json_int(model, "slots"));
	table_add_count(table, json_int(model, "queued"));
	table_add_size(table, json_int(model, "measured_bytes"));
	table_add_size(table, json_int(model, "estimate_bytes"));
	table_add(table, "%s", json_text(model, "estimate_source"));
	table_add_count(table, json_int(model, "context"));
	add_growths(table, model);
	table_add_count(table, json_int(model, "cached_tokens"));
	table_add_count(table, json_int(model, "pid"));
	table_add(table, "%s", json_when(when, json_int(model, "last_used_at_ms")));
	table_add(table, "%s", json_text(model, "reason"));
}

static int run_ps(const struct cli_args *args)
{
	static const char *const columns[] = { "MODEL",    "STATE",    ">SLOTS", ">QUEUE",    ">MEASURED",
		                               ">ESTIMATE", "FROM", ">CONTEXT", ">GROWN", ">TOKENS", ">PID",   "LAST USED", "REASON",
		                               NULL };
	struct table table;
	json_t *root, *model;
	size_t i;

	bool all = cli_value(args, "all")->given;
	int code = client_get(args, all ? "/api/v1/models" : "/api/v1/models?loaded=1", &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	table_begin(&table, columns);
	json_array_foreach(json_object_get(root, "models"), i, model)
		add_running_row(&table, model);
	if (table.cells == 0)
		puts(all ? "no models are configured" : "nothing is loaded (cotenant ls shows what could be)");
	print_table(&table);
	json_array_foreach(json_object_get(root, "models"), i, model)
		if (json_text(model, "replaced")[0])
			printf("%s: %s\n", json_text(model, "name"), json_text(model, "replaced"));
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_ps = {
	.name = "ps",
	.operands = "",
	.summary = "models that are loaded, loading or queued",
	.help = "Lists the models that are loaded, loading or waited for: what each takes as measured,\n"
	        "what was estimated, how many requests run and wait. ESTIMATE is what it is reckoned with loaded\n"
	        "and idle, whatever it does now (IDLE in ls, base_bytes in show); what conversations hold is\n"
	        "beside it. FROM tells what it stands on: formula (the file's header), engine (its own word),\n"
	        "memo (the same launch, measured in an earlier life), learned (loads, of it or of others) or\n"
	        "declared. show has the formula's number beside it. GROWN tells how often its context grew by a\n"
	        "restart, and what all of them took.\n\n"
	        "Examples:\n"
	        "  cotenant ps\n"
	        "  cotenant ps -a --json | jq '.models[] | {name, state}'",
	.options = ps_options,
	.reads = true,
	.asks = true,
	.run = run_ps,
};

/* ---- ls ---- */

static int run_ls(const struct cli_args *args)
{
	static const char *const columns[] = { "MODEL", "ENGINE",   ">FILE", ">IDLE", ">FULL", "FITS",
		                               "STATE", "PRIORITY", "ALIASES", NULL };
	struct table table;
	json_t *root, *model, *alias;
	size_t i, k;

	int code = client_get(args, "/api/v1/models", &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	table_begin(&table, columns);
	json_array_foreach(json_object_get(root, "models"), i, model) {
		struct buf aliases = BUF_INIT;
		json_array_foreach(json_object_get(model, "aliases"), k, alias)
			buf_printf(&aliases, "%s%s", k ? " " : "", json_string_value(alias));
		add_name(&table, model);
		table_add(&table, "%s", json_text(model, "engine"));
		table_add_size(&table, json_int(model, "file_bytes"));
		table_add_size(&table, json_int(model, "base_bytes"));
		table_add_size(&table, json_int(model, "full_bytes"));
		table_add(&table, "%s", json_text(model, "fault")[0] ? "broken" : json_text(model, "fits"));
		table_add(&table, "%s", json_text(model, "state"));
		table_add(&table, "%s", json_text(model, "priority"));
		table_add(&table, "%s", buf_cstr(&aliases));
		buf_release(&aliases);
	}
	print_table(&table);
	json_array_foreach(json_object_get(root, "models"), i, model)
		if (json_text(model, "fault")[0])
			printf("%s cannot be loaded: %s\n", json_text(model, "name"), json_text(model, "fault"));
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_ls = {
	.name = "ls",
	.operands = "",
	.summary = "the catalogue: every model, its size, whether it fits",
	.help = "Lists every configured model with the size of its file, what it takes loaded and idle\n"
	        "(IDLE, base_bytes in show), at most (FULL, full_bytes: while it loads, or with all its slots\n"
	        "busy and their contexts full), and whether its load fits now.\n\n"
	        "Examples:\n"
	        "  cotenant ls\n"
	        "  cotenant ls --json | jq -r '.models[].name'",
	.reads = true,
	.asks = true,
	.run = run_ls,
};
