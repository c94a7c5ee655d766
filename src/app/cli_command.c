#include <stdio.h>
#include <stdlib.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/cli_waiting.h"
#include "base/units.h"

static const struct cli_option wait_options[] = {
	{ "no-wait", 0, CLI_FLAG, NULL, "return as soon as the command is taken" },
	{ 0 },
};

/* POST /api/v1/models/MODEL/VERB and say in one line what came of it. */
static int command_model(const struct cli_args *args, const char *body)
{
	char suffix[16], size[UNITS_TEXT], time[UNITS_TEXT];
	struct waiting waiting;
	json_t *root;

	snprintf(suffix, sizeof(suffix), "/%s", args->verb->name);
	char *path = client_path("/api/v1/models/", args->operand[0], suffix);
	waiting_begin(&waiting, args, args->operand[0]);
	struct client_ticker ticker = { WAITING_TICK_MS, waiting_look, waiting_end, &waiting };
	int code = client_wait(args, path, body, &ticker, &root);
	free(path);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	cli_put(json_text(root, "model"));
	printf(": %s", json_text(root, "result"));
	/* What was measured of a load says nothing of what it takes. */
	bool settled = json_is_true(json_object_get(root, "settled"));
	int64_t bytes = json_int(root, settled ? "measured_bytes" : "claim_bytes");
	bool stays = args->verb != &verb_unload && args->verb != &verb_stop;
	if (bytes && stays)
		printf(", %s %s", settled ? "takes" : "claims", units_size(size, bytes));
	if (json_int(root, "took_ms"))
		printf(", took %s", units_duration(time, json_int(root, "took_ms") * US_PER_MS));
	putchar('\n');
	json_decref(root);
	return CLI_DONE;
}

static int run_waiting(const struct cli_args *args)
{
	return command_model(args, cli_value(args, "no-wait")->given ? "{\"wait\": false}" : NULL);
}

static int run_at_once(const struct cli_args *args)
{
	return command_model(args, NULL);
}

const struct cli_verb verb_load = {
	.name = "load",
	.operands = "MODEL",
	.summary = "load a model now, making room as a request would",
	.help = "Loads a model as a request for it would, and returns when it is ready. Where room is needed\n"
	        "those go that are missed least; cotenant plan says which. Exit code 4: it does not fit. If\n"
	        "you leave while it loads, the load goes on.\n\n"
	        "Examples:\n"
	        "  cotenant plan chat     # what would go for it\n"
	        "  cotenant load chat",
	.options = wait_options,
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_waiting,
};

const struct cli_verb verb_unload = {
	.name = "unload",
	.operands = "MODEL",
	.summary = "unload a model when its running requests are done",
	.help = "Unloads a model: it takes no new request, those that run end first (at most for its\n"
	        "drain_timeout), then the engine stops. Returns when its memory was seen to come back.\n"
	        "The next request loads it again.\n\n"
	        "Examples:\n"
	        "  cotenant unload chat",
	.options = wait_options,
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_waiting,
};

const struct cli_verb verb_stop = {
	.name = "stop",
	.operands = "MODEL",
	.summary = "unload a model at once, ending its running requests",
	.help = "Like unload, but running requests are ended with an error instead of waited for.\n\n"
	        "Examples:\n"
	        "  cotenant stop chat",
	.options = wait_options,
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_waiting,
};

const struct cli_verb verb_pin = {
	.name = "pin",
	.operands = "MODEL",
	.summary = "never evict this model, until unpin or the next start",
	.help = "Pins a model: it is never the one that goes to make room. It is not loaded by this.\n"
	        "`pin: true` in the configuration does the same for good.\n\n"
	        "Examples:\n"
	        "  cotenant pin chat && cotenant load chat",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_at_once,
};

const struct cli_verb verb_unpin = {
	.name = "unpin",
	.operands = "MODEL",
	.summary = "let this model be evicted again",
	.help = "Takes a pin off, whether it was set by pin or by the configuration.\n\n"
	        "Examples:\n"
	        "  cotenant unpin chat",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_at_once,
};

static int run_reload(const struct cli_args *args)
{
	json_t *root;

	int code = client_command(args, "POST", "/api/v1/config/reload", NULL, &root);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	cli_put(json_text(root, "report"));
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_reload = {
	.name = "reload",
	.operands = "",
	.summary = "read the configuration again, leaving unchanged models alone",
	.help = "Makes the daemon read its configuration again and prints what changed. If the file has\n"
	        "an error nothing changes. Models that did not change go on running.\n\n"
	        "Examples:\n"
	        "  cotenant check && cotenant reload",
	.reads = true,
	.asks = true,
	.run = run_reload,
};

static int run_cancel(const struct cli_args *args)
{
	json_t *root;

	char *path = client_path("/api/v1/requests/", args->operand[0], "");
	int code = client_command(args, "DELETE", path, NULL, &root);
	free(path);
	if (code != CLI_DONE)
		return code;
	if (args->json)
		return json_print(root);
	printf("%s: cancelled\n", args->operand[0]);
	json_decref(root);
	return CLI_DONE;
}

const struct cli_verb verb_cancel = {
	.name = "cancel",
	.operands = "REQUEST",
	.summary = "end one request, waiting or running",
	.help = "Ends a request by its id, as the X-Cotenant-Request-Id header of its answer, the list\n"
	        "of `cotenant why` or /api/v1/requests names it. Its client gets an error.\n\n"
	        "Examples:\n"
	        "  cotenant cancel 1f3a90c2-118",
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_cancel,
};
