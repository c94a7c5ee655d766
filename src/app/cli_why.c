#include <stdio.h>
#include <string.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "base/units.h"

/* ---- plan ---- */

/* What the number of bytes stands on. */
static void put_source(const json_t *plan)
{
	const char *source = json_text(plan, "estimate_source");
	long long loads = (long long)json_int(plan, "loads_measured");

	if (strcmp(source, "formula") == 0)
		printf(", by its file's header");
	else if (strcmp(source, "engine") == 0)
		printf(", by its engine's own word");
	else if (strcmp(source, "memo") == 0)
		printf(", as the same launch took before");
	else if (strcmp(source, "declared") == 0)
		printf(", as declared");
	else if (strcmp(source, "learned") == 0 && loads)
		printf(", learned over %lld load%s", loads, loads == 1 ? "" : "s");
	else if (strcmp(source, "learned") == 0)
		printf(", learned from loads like it");
}

/* What can never be loaded takes no time to be ready. */
static void print_load(const json_t *plan)
{
	char text[UNITS_TEXT];
	bool known = strcmp(json_text(plan, "estimate_source"), "none") != 0;

	if (known) {
		printf("  takes %s%s", units_size(text, json_int(plan, "need_bytes")),
		       json_yes(plan, "loaded") ? "" : " once loaded");
		put_source(plan);
		putchar('\n');
	} else {
		printf("  nobody knows what it takes: it is loaded alone once, and measured\n");
	}
	if (json_int(plan, "wait_estimate_ms"))
		printf("  ready in about %s\n",
		       units_duration(text, json_int(plan, "wait_estimate_ms") * US_PER_MS));
}

static void print_plan(const json_t *plan)
{
	char text[UNITS_TEXT];
	const json_t *victim;
	size_t i;

	if (json_text(plan, "fault")[0]) {
		cli_put(json_text(plan, "model"));
		printf(" cannot be loaded: ");
		cli_put(json_text(plan, "fault"));
		putchar('\n');
		return;
	}
	cli_put(json_text(plan, "reason"));
	putchar('\n');
	json_array_foreach(json_object_get(plan, "evict"), i, victim) {
		printf("  would go: ");
		cli_put(json_text(victim, "model"));
		printf(", gives %s\n", units_size(text, json_int(victim, "bytes")));
	}
	if (strcmp(json_text(plan, "fits"), "never") != 0)
		print_load(plan);
}

static int run_plan(const struct cli_args *args)
{
	json_t *root;
	int code = client_get_named(args, "/api/v1/plan?model=", args->operand[0], "", &root);
	if (code != CLI_DONE)
		return code;
	const char *fits = json_text(root, "fits");
	bool fits_somehow = strcmp(fits, "now") == 0 || strcmp(fits, "tight") == 0 ||
	                    strncmp(fits, "after-", 6) == 0;
	bool broken = json_text(root, "fault")[0];
	if (args->json)
		json_print(root);
	else
		print_plan(root);
	if (!args->json)
		json_decref(root);
	return broken ? CLI_FAILED : fits_somehow ? CLI_DONE : CLI_NO_FIT;
}

const struct cli_verb verb_plan = {
	.name = "plan",
	.operands = "MODEL",
	.summary = "would it fit, what would go, and why; loads nothing",
	.help = "Decides as a load of the model would be decided now, on a copy, and says what would\n"
	        "happen: whether it fits, which models would go for it, how long it would take, and what the\n"
	        "size stands on (its file's header, its engine's own word, loads that were measured). Nothing\n"
	        "is loaded. Exit code 4: it does not fit. `cotenant estimate FILE` tells what a file that\n"
	        "is not configured would take.\n\n"
	        "Examples:\n"
	        "  cotenant plan chat\n"
	        "  cotenant plan chat --json | jq '.evict[].model'",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_plan,
};

/* ---- why ---- */

static int run_why(const struct cli_args *args)
{
	json_t *root, *decision;
	char when[JSON_WHEN_BYTES];
	size_t i;

	int code = client_get_named(args, "/api/v1/why/", args->operand[0], "", &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	cli_put(json_text(root, "text"));
	putchar('\n');
	json_array_foreach(json_object_get(root, "decisions"), i, decision) {
		printf("  %12s  ", json_when(when, json_int(decision, "at_ms")));
		cli_put(json_text(decision, "text"));
		putchar('\n');
	}
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_why = {
	.name = "why",
	.operands = "MODEL|REQUEST",
	.summary = "why a model is, or is not, loaded; why a request waits",
	.help = "Says what a model or request is doing now and what it waits for, then the last\n"
	        "decisions about it, newest first, with the numbers they were made by.\n\n"
	        "Examples:\n"
	        "  cotenant why chat\n"
	        "  cotenant why 1f3a90c2-118",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_why,
};
