#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"

/* A line that does not end is shown in pieces of this size. */
enum { LINE_PIECE = 64 * 1024 };

static const struct cli_option logs_options[] = {
	{ "follow", 'f', CLI_FLAG, NULL, "go on with what comes, until interrupted" },
	{ "lines", 'n', CLI_NUMBER, "N", "begin with the last N lines (else with all that is kept)" },
	{ 0 },
};

static void print_line(const char *model, struct str text)
{
	/* An engine may print any bytes: those that are no text are left out of the JSON. */
	json_t *line = json_stringn(text.data, text.length);
	json_t *root = json_pack("{s:s, s:o}", "model", model, "line", line ? line : json_string(""));

	json_dumpf(root, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(root);
}

/* For --json: whole lines, each an object. */
static void print_lines(const char *model, struct buf *body)
{
	for (;;) {
		struct str text = buf_str(body);
		const char *end = text.length ? memchr(text.data, '\n', text.length) : NULL;
		if (!end && text.length < LINE_PIECE)
			return;
		size_t length = end ? (size_t)(end - text.data) : text.length;
		print_line(model, (struct str){ text.data, length });
		buf_consume(body, end ? length + 1 : length);
	}
}

static int follow(const struct cli_args *args, const char *path)
{
	struct connection connection;
	struct err err;
	int more = 1;

	int code = client_open(args, &connection);
	if (code == CLI_DONE && connection_send(&connection, "GET", path, NULL) < 0)
		code = client_lost("the request could not be sent");
	while (code == CLI_DONE && more > 0 && !ferror(stdout)) {
		more = connection_receive(&connection, CLIENT_PATIENT, &err);
		if (connection.reply.status != 200)
			continue;
		if (args->json) {
			print_lines(args->operand[0], &connection.body);
		} else {
			cli_put_str(buf_str(&connection.body));
			buf_consume(&connection.body, buf_length(&connection.body));
		}
		fflush(stdout);
	}
	if (code == CLI_DONE && more < 0) {
		code = client_lost(err.text);
	} else if (code == CLI_DONE && connection.reply.status != 200) {
		struct client_reply reply = { connection.reply.status, connection.body };
		code = client_refused(args, &reply);
	}
	connection_close(&connection);
	return code;
}

static int print_kept(const struct cli_args *args, const char *path)
{
	struct client_reply reply;
	int code = client_ask(args, "GET", path, NULL, CLIENT_QUICK_MS, &reply);

	if (code != CLI_DONE)
		return code;
	if (reply.status == 200)
		cli_put_str(buf_str(&reply.body));
	else
		code = client_refused(args, &reply);
	if (code == CLI_DONE && args->json)
		putchar('\n');
	else if (code == CLI_DONE && buf_length(&reply.body) == 0)
		fprintf(stderr, "cotenant: no engine of %s has printed anything since the daemon started\n  try: cotenant why %s\n",
		        args->operand[0], args->operand[0]);
	buf_release(&reply.body);
	return code;
}

static int run_logs(const struct cli_args *args)
{
	const struct cli_value *lines = cli_value(args, "lines");
	bool follows = cli_value(args, "follow")->given;
	char suffix[64], count[32] = "";

	if (lines->given)
		snprintf(count, sizeof(count), "&lines=%lld", (long long)lines->number);
	snprintf(suffix, sizeof(suffix), "/logs?%s%s", follows ? "follow=1" : args->json ? "json=1" : "", count);
	char *path = client_path("/api/v1/models/", args->operand[0], suffix);
	int code = follows ? follow(args, path) : print_kept(args, path);
	free(path);
	return code;
}

const struct cli_verb verb_logs = {
	.name = "logs",
	.operands = "MODEL",
	.summary = "what a model's engine prints",
	.help = "Prints the last lines (at most 64 KiB) that the model's engine printed, also after it\n"
	        "ended; with -f what comes then, over loads and unloads. Keys and tokens are shown as\n"
	        "[redacted]. More is in the state folder: logs/MODEL.log and MODEL.log.1, 4 MiB each.\n"
	        "With -f --json one object a line.\n\n"
	        "Examples:\n"
	        "  cotenant logs chat -n 20\n"
	        "  cotenant logs chat -f",
	.options = logs_options,
	.least = 1,
	.most = 1,
	.reads = true,
	.asks = true,
	.run = run_logs,
};
