#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "base/alloc.h"
#include "base/units.h"

/* ---- events ---- */

static const struct cli_option events_options[] = {
	{ "model", 'm', CLI_TEXT, "MODEL", "only what concerns this model" },
	{ 0 },
};

/* "14:03:09" of a Unix time, in local time. */
static const char *clock_text(char out[16], int64_t at_ms)
{
	time_t seconds = (time_t)(at_ms / 1000);
	struct tm local;

	if (!localtime_r(&seconds, &local) || strftime(out, 16, "%H:%M:%S", &local) == 0)
		snprintf(out, 16, "--:--:--");
	return out;
}

/* One line of the event stream: its data lines hold one decision each. */
static bool print_event(void *ctx, const char *line)
{
	const struct cli_args *args = ctx;
	char clock[16];

	if (strncmp(line, "data: ", 6) != 0)
		return true;
	json_t *decision = json_loads(line + 6, 0, NULL);
	if (args->json) {
		if (decision)
			puts(line + 6);
	} else if (json_object_get(decision, "text")) {
		printf("%s  ", clock_text(clock, json_int(decision, "at_ms")));
		cli_put(json_text(decision, "text"));
		putchar('\n');
	}
	json_decref(decision);
	return fflush(stdout) == 0;
}

static int run_events(const struct cli_args *args)
{
	const char *model = cli_value(args, "model")->text;
	char *path = model ? client_path("/api/v1/events?model=", model, "") : xstrdup("/api/v1/events");

	int code = client_follow(args, path, print_event, (void *)args);
	free(path);
	return code;
}

const struct cli_verb verb_events = {
	.name = "events",
	.operands = "",
	.summary = "follow the decisions as they are made",
	.help = "Prints each decision as it is made, with its reason and numbers, until interrupted.\n"
	        "With --json one object a line.\n\n"
	        "Examples:\n"
	        "  cotenant events\n"
	        "  cotenant events --json | jq 'select(.kind == \"evict\")'",
	.options = events_options,
	.reads = true,
	.asks = true,
	.run = run_events,
};

/* ---- history ---- */

static const struct cli_option history_options[] = {
	{ "kind", 'k', CLI_TEXT, "KIND", "decisions (default), requests or observations" },
	{ "since", 's', CLI_DURATION, "TIME", "no further back than this: 2h, 3d" },
	{ "limit", 'n', CLI_NUMBER, "N", "the last so many (50; at most 1000)" },
	{ 0 },
};

static void print_past_decisions(const json_t *rows)
{
	char when[JSON_WHEN_BYTES];
	const json_t *row;

	for (size_t i = json_array_size(rows); i > 0; i--) {
		row = json_array_get(rows, i - 1);
		printf("%14s  ", json_when(when, json_int(row, "at_ms")));
		cli_put(json_text(row, "text"));
		putchar('\n');
	}
}

static void print_past_requests(const json_t *rows)
{
	static const char *const columns[] = { "WHEN",   "REQUEST",   "MODEL",       "OUTCOME", ">STATUS",
		                               ">WAIT",  ">LOAD", ">FIRST BYTE", ">TOTAL",  "PATH", NULL };
	static const char *const times[] = { "wait_ms", "load_ms", "first_byte_ms", "total_ms" };
	struct buf out = BUF_INIT;
	struct table table;
	char text[JSON_WHEN_BYTES];

	table_begin(&table, columns);
	for (size_t i = json_array_size(rows); i > 0; i--) {
		const json_t *row = json_array_get(rows, i - 1);
		table_add(&table, "%s", json_when(text, json_int(row, "arrived_at_ms")));
		table_add(&table, "%s", json_text(row, "id"));
		table_add(&table, "%s", json_text(row, "model"));
		table_add(&table, "%s", json_text(row, "outcome"));
		table_add_count(&table, json_int(row, "status"));
		for (size_t k = 0; k < 4; k++)
			table_add_ms(&table, json_int(row, times[k]));
		table_add(&table, "%s", json_text(row, "path"));
	}
	table_end(&table, &out);
	fputs(buf_cstr(&out), stdout);
	buf_release(&out);
}

static void print_past_observations(const json_t *rows)
{
	static const char *const columns[] = { "WHEN",  "MODEL", ">ESTIMATE", ">MEASURED", ">PEAK",
		                               ">LOAD", NULL };
	struct buf out = BUF_INIT;
	struct table table;
	char text[JSON_WHEN_BYTES];

	table_begin(&table, columns);
	for (size_t i = json_array_size(rows); i > 0; i--) {
		const json_t *row = json_array_get(rows, i - 1);
		table_add(&table, "%s", json_when(text, json_int(row, "at_ms")));
		table_add(&table, "%s", json_text(row, "model"));
		table_add_size(&table, json_int(row, "estimate_bytes"));
		table_add_size(&table, json_int(row, "measured_base_bytes"));
		table_add_size(&table, json_int(row, "measured_peak_bytes"));
		table_add_ms(&table, json_int(row, "load_ms"));
	}
	table_end(&table, &out);
	fputs(buf_cstr(&out), stdout);
	buf_release(&out);
}

static int run_history(const struct cli_args *args)
{
	const struct cli_value *kind = cli_value(args, "kind"), *since = cli_value(args, "since"),
	                       *limit = cli_value(args, "limit");
	const char *rows_kind = kind->given ? kind->text : "decisions";
	char suffix[96], since_text[48] = "";
	struct timespec now;
	json_t *root;

	if (strcmp(rows_kind, "decisions") != 0 && strcmp(rows_kind, "requests") != 0 &&
	    strcmp(rows_kind, "observations") != 0)
		return cli_fail(CLI_USAGE, "cotenant history --kind requests",
		                "history: --kind is decisions, requests or observations, not '%.60s'",
		                rows_kind);
	clock_gettime(CLOCK_REALTIME, &now);
	if (since->given)
		snprintf(since_text, sizeof(since_text), "&since=%lld",
		         (long long)now.tv_sec * 1000 - since->number / US_PER_MS);
	snprintf(suffix, sizeof(suffix), "&kind=%s&limit=%lld%s", rows_kind,
	         (long long)(limit->given ? limit->number : 50), since_text);
	int code = client_get_named(args, "/api/v1/history?model=", args->operands ? args->operand[0] : "", suffix,
	                            &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	const json_t *rows = json_object_get(root, rows_kind);
	if (json_array_size(rows) == 0)
		printf("no %s yet\n", rows_kind);
	else if (rows_kind[0] == 'd')
		print_past_decisions(rows);
	else if (rows_kind[0] == 'r')
		print_past_requests(rows);
	else
		print_past_observations(rows);
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_history = {
	.name = "history",
	.operands = "[MODEL]",
	.summary = "past decisions, requests, and what loads really took",
	.help = "Prints what happened, kept over restarts: decisions in words; requests with what each\n"
	        "waited; observations, what a load really took beside what was estimated. The newest stands\n"
	        "at the end; with --json it comes first.\n\n"
	        "Examples:\n"
	        "  cotenant history --since 2h\n"
	        "  cotenant history chat --kind requests -n 20\n"
	        "  cotenant history --kind observations --json",
	.options = history_options,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_history,
};
