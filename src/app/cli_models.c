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
	table_add_count(table, json_int(model, "context"));
	table_add_count(table, json_int(model, "cached_tokens"));
	table_add_count(table, json_int(model, "pid"));
	table_add(table, "%s", json_when(when, json_int(model, "last_used_at_ms")));
	table_add(table, "%s", json_text(model, "reason"));
}

static int run_ps(const struct cli_args *args)
{
	static const char *const columns[] = { "MODEL",    "STATE",    ">SLOTS", ">QUEUE",    ">MEASURED",
		                               ">ESTIMATE", ">CONTEXT", ">TOKENS", ">PID",   "LAST USED", "REASON",
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
	        "what was estimated, how many requests run and wait.\n\n"
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
	static const char *const columns[] = { "MODEL", "ENGINE",   ">FILE", ">LOADED", ">PEAK", "FITS",
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
		int64_t base = json_int(model, "base_bytes"), peak = json_int(model, "peak_bytes");
		/* Not estimate_bytes: where KV follows use that has only what is claimed by now. */
		int64_t busy = base + json_int(model, "slots") * json_int(model, "per_request_bytes");
		table_add_size(&table, base);
		table_add_size(&table, busy > peak ? busy : peak);
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
	.help = "Lists every configured model with the size of its file, what it takes once loaded and\n"
	        "at most (while it loads, or with all its slots busy), and whether its load fits now.\n\n"
	        "Examples:\n"
	        "  cotenant ls\n"
	        "  cotenant ls --json | jq -r '.models[].name'",
	.reads = true,
	.asks = true,
	.run = run_ls,
};

/* ---- show ---- */

/* Whether the number of this name is bytes: by its ending, or because its group holds nothing else. */
static bool is_size(const char *group, const char *key)
{
	size_t length = strlen(key);

	return strcmp(group, "by_pool") == 0 || strcmp(group, "claim_by_pool") == 0 ||
	       (length > 6 && strcmp(key + length - 6, "_bytes") == 0);
}

/* One "name  value" line for each member, groups indented below their name. */
static void print_members(const json_t *object, const char *group, int depth)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		char size[UNITS_TEXT];
		if (json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0))
			continue;
		printf("%*s%-*s ", depth * 2, "", 24 - depth * 2, key);
		if (json_is_object(value)) {
			putchar('\n');
			print_members(value, key, depth + 1);
			continue;
		}
		if (json_is_string(value)) {
			cli_put(json_string_value(value));
		} else if (json_is_integer(value) && is_size(group, key)) {
			fputs(units_size(size, json_integer_value(value)), stdout);
		} else if (json_is_real(value)) {
			printf("%.6g", json_real_value(value));
		} else {
			char *text = json_dumps(value, JSON_ENCODE_ANY);
			cli_put(text ? text : "");
			free(text);
		}
		putchar('\n');
	}
}

static int run_show(const struct cli_args *args)
{
	json_t *root;

	char *path = client_path("/api/v1/models/", args->operand[0], "");
	int code = client_get(args, path, &root);
	free(path);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	print_members(root, "", 0);
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_show = {
	.name = "show",
	.operands = "MODEL",
	.summary = "one model: its settings, its footprint, where each number comes from",
	.help = "Shows all that is known of one model: what it was configured with, what the file says,\n"
	        "what it is expected to take and from which source, and its present state.\n\n"
	        "Examples:\n"
	        "  cotenant show chat\n"
	        "  cotenant show chat --json | jq .estimate",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_show,
};
