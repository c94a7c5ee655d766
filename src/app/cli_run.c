/*
 * run: one question, its answer as it comes.
 *
 * It is a client like any other: a streamed chat completion over the daemon's
 * socket. While it waits, a second connection looks at the model's state. An
 * interrupt closes the connection, which is how any client cancels.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/cli.h"
#include "app/cli_client.h"
#include "app/cli_json.h"
#include "app/cli_waiting.h"

enum { TEXT_MAX = 16 << 20, LINE_LIMIT = 4 << 20, INTERRUPTED = -1 };

static const struct cli_option run_options[] = {
	{ "system", 's', CLI_TEXT, "TEXT", "what the model is told before your text" },
	{ "max-tokens", 'n', CLI_NUMBER, "N", "end the answer after so many tokens" },
	{ "temperature", 't', CLI_TEXT, "T", "0 = always the likeliest word (else as the model is set)" },
	{ 0 },
};

struct run {
	const struct cli_args *args;
	const char *model;
	struct connection connection;
	struct waiting waiting;
	int signal_fd;
	bool begun;          /* something of the answer was printed */
	bool ends_line;      /* ... and it ended with a line break */
	bool done;           /* the stream said so */
	int code;            /* what an error in the stream came to */
	struct buf answer, thoughts;
	char *finish_reason;
	json_t *usage;
};

/* ---- the question ---- */

static int read_stdin(struct buf *out)
{
	char bytes[16 * 1024];
	ssize_t count;

	while ((count = read(STDIN_FILENO, bytes, sizeof(bytes))) != 0) {
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return cli_fail(CLI_FAILED, "cotenant run --help", "stdin: %s", strerror(errno));
		buf_append(out, bytes, (size_t)count);
		if (buf_length(out) > TEXT_MAX)
			return cli_fail(CLI_FAILED, "cotenant run --help", "the text on stdin is over 16 MiB");
	}
	return CLI_DONE;
}

static int take_text(const struct cli_args *args, struct buf *out)
{
	for (int i = 1; i < args->operands; i++)
		buf_printf(out, "%s%s", i > 1 ? " " : "", args->operand[i]);
	if (args->operands == 1 && !isatty(STDIN_FILENO)) {
		int code = read_stdin(out);
		if (code != CLI_DONE)
			return code;
	}
	if (buf_length(out) == 0) {
		char command[128];
		snprintf(command, sizeof(command), "cotenant run %.60s \"Hello\"", args->operand[0]);
		return cli_fail(CLI_USAGE, command, "run: there is no text to answer");
	}
	return CLI_DONE;
}

static bool add_message(json_t *messages, const char *role, const char *text, size_t length)
{
	json_t *content = json_stringn(text, length);

	if (!content)
		return false;
	json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content));
	return true;
}

/* The request's body; NULL after saying what is wrong. */
static char *make_body(const struct run *run, struct str text)
{
	const struct cli_value *before = cli_value(run->args, "system"),
	                       *tokens = cli_value(run->args, "max-tokens"),
	                       *temperature = cli_value(run->args, "temperature");
	json_t *messages = json_array(), *body;
	char *end = NULL;

	double degrees = temperature->given ? strtod(temperature->text, &end) : 0;
	bool good = !temperature->given || (end != temperature->text && !*end && degrees >= 0 && degrees <= 100);
	if (!good) {
		cli_fail(CLI_USAGE, "cotenant run --help", "run: --temperature '%.40s' is no number from 0",
		         temperature->text);
	} else if ((before->given && !add_message(messages, "system", before->text, strlen(before->text))) ||
	           !add_message(messages, "user", text.data, text.length)) {
		good = false;
		cli_fail(CLI_USAGE, "cotenant run --help", "run: the text is not UTF-8");
	}
	if (!good) {
		json_decref(messages);
		return NULL;
	}
	body = json_pack("{s:s, s:b, s:{s:b}, s:o}", "model", run->model, "stream", 1, "stream_options",
	                 "include_usage", 1, "messages", messages);
	if (!body) {
		cli_fail(CLI_USAGE, "cotenant ls", "run: the model's name is not UTF-8");
		return NULL;
	}
	if (tokens->given)
		json_object_set_new(body, "max_tokens", json_integer(tokens->number));
	if (temperature->given)
		json_object_set_new(body, "temperature", json_real(degrees));
	char *out = json_dumps(body, JSON_COMPACT);
	json_decref(body);
	return out;
}

/* ---- models that answer otherwise ---- */

/* What to ask of a model that does not chat, and where; NULL where it may. */
static const char *other_way(const json_t *model)
{
	const char *engine = json_text(model, "engine");
	const json_t *arguments = json_object_get(json_object_get(model, "configured"), "args");
	const char *flags = "";
	size_t i;
	const json_t *argument;

	if (strcmp(engine, "whisper-server") == 0)
		return "/v1/audio/transcriptions -F model=%s -F file=@speech.wav";
	if (strcmp(engine, "sd-server") == 0 || strcmp(engine, "comfyui") == 0)
		return "/v1/images/generations -d '{\"model\": \"%s\", \"prompt\": \"a boat\"}'";
	json_array_foreach(arguments, i, argument) {
		flags = json_string_value(argument);
		if (flags && (strcmp(flags, "--embeddings") == 0 || strcmp(flags, "--embedding") == 0 ||
		              strcmp(flags, "--rerank") == 0 || strcmp(flags, "--reranking") == 0))
			return "/v1/embeddings -d '{\"model\": \"%s\", \"input\": \"Hello\"}'";
	}
	const char *family = json_text(json_object_get(model, "estimate"), "architecture");
	if (strstr(family, "bert"))
		return "/v1/embeddings -d '{\"model\": \"%s\", \"input\": \"Hello\"}'";
	return NULL;
}

/* Whether the model may be asked at all; what cannot be told is left to the daemon. */
static int check_kind(const struct run *run)
{
	char command[600], curl[300];

	char *path = client_path("/api/v1/models/", run->model, "");
	json_t *model = client_peek(run->args, path);
	free(path);
	const char *way = other_way(model);
	int code = CLI_DONE;
	if (way) {
		const char *hole = strstr(way, "%s");
		client_curl(run->args, curl, sizeof(curl));
		snprintf(command, sizeof(command), "%s%.*s%.60s%s", curl, (int)(hole - way), way, run->model, hole + 2);
		code = cli_fail(CLI_FAILED, command, "%s does not chat: it is %s", run->model,
		                strstr(way, "audio")    ? "a speech model"
		                : strstr(way, "images") ? "an image model"
		                                        : "an embedding model");
	}
	json_decref(model);
	return code;
}

/* ---- the answer ---- */

/* What a model says goes to a terminal: no control bytes but line breaks and tabs. */
static void put_answer(struct run *run, const char *text)
{
	if (!*text)
		return;
	waiting_end(&run->waiting);
	if (!run->args->json) {
		cli_put(text);
		fflush(stdout);
	}
	run->begun = true;
	run->ends_line = text[strlen(text) - 1] == '\n';
	buf_printf(&run->answer, "%s", text);
}

static void end_line(struct run *run)
{
	waiting_end(&run->waiting);
	if (run->begun && !run->ends_line && !run->args->json)
		putchar('\n');
	run->ends_line = true;
	fflush(stdout);
}

static void take_event(struct run *run, const char *data)
{
	json_t *event = json_loads(data, 0, NULL);
	const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
	const json_t *delta = json_object_get(choice, "delta");
	const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
	json_t *usage = json_object_get(event, "usage");

	if (json_object_get(event, "error")) {
		struct client_reply reply = { .status = 502, .body = BUF_INIT };
		buf_printf(&reply.body, "%s", data);
		end_line(run);
		run->code = client_refused(run->args, &reply);
		buf_release(&reply.body);
	}
	buf_printf(&run->thoughts, "%s", json_text(delta, "reasoning_content"));
	put_answer(run, json_text(delta, "content"));
	if (reason) {
		free(run->finish_reason);
		run->finish_reason = strdup(reason);
	}
	if (json_is_object(usage)) {
		json_decref(run->usage);
		run->usage = json_incref(usage);
	}
	json_decref(event);
}

static void take_line(struct run *run, const char *line)
{
	if (line[0] == ':') {
		/* A sign of life: the exact place in the queue stands there. */
		snprintf(run->waiting.note, sizeof(run->waiting.note), "%s",
		         strstr(line, "place ") ? strstr(line, "place ") : "");
	} else if (strcmp(line, "data: [DONE]") == 0) {
		run->done = true;
	} else if (strncmp(line, "data: ", 6) == 0) {
		take_event(run, line + 6);
	}
}

static void take_lines(struct run *run)
{
	struct str text = buf_str(&run->connection.body);
	char *end;

	while (text.length && (end = memchr(text.data, '\n', text.length))) {
		size_t length = (size_t)(end - text.data);
		*end = '\0';
		if (length && end[-1] == '\r')
			end[-1] = '\0';
		take_line(run, text.data);
		buf_consume(&run->connection.body, length + 1);
		text = buf_str(&run->connection.body);
	}
}

/* Until something can be read. CLI_DONE, or INTERRUPTED. */
static int wait_for_more(struct run *run)
{
	struct pollfd wait[] = { { .fd = run->connection.fd, .events = POLLIN },
		                 { .fd = run->signal_fd, .events = POLLIN } };

	for (;;) {
		int ready = poll(wait, 2, run->begun ? -1 : WAITING_TICK_MS);
		if (wait[1].revents)
			return INTERRUPTED;
		if (ready > 0)
			return CLI_DONE;
		if (ready == 0)
			waiting_look(&run->waiting);
	}
}

static int receive_answer(struct run *run)
{
	struct connection *connection = &run->connection;
	struct err err;
	int more = 1;

	while (more > 0 && run->code == CLI_DONE) {
		if (wait_for_more(run) == INTERRUPTED)
			return INTERRUPTED;
		more = connection_receive(connection, CLIENT_PATIENT, &err);
		if (connection->reply.status == 200)
			take_lines(run);
		if (buf_length(&connection->body) > LINE_LIMIT) {
			end_line(run);
			return client_lost("a line over 4 MiB");
		}
	}
	end_line(run);
	if (run->code != CLI_DONE)
		return run->code;
	if (more < 0)
		return client_lost(err.text);
	if (connection->reply.status != 200) {
		struct client_reply reply = { connection->reply.status, connection->body };
		return client_refused(run->args, &reply);
	}
	return run->done ? CLI_DONE : client_lost("it ends before it says so");
}

static void print_json(struct run *run)
{
	json_t *root = json_object();
	const char *id = run->connection.reply.request_id;

	json_object_set_new(root, "model", json_string(run->model));
	json_object_set_new(root, "request", *id ? json_string(id) : json_null());
	json_object_set_new(root, "content", json_string(buf_cstr(&run->answer)));
	json_object_set_new(root, "reasoning", buf_length(&run->thoughts)
	                                               ? json_string(buf_cstr(&run->thoughts))
	                                               : json_null());
	json_object_set_new(root, "finish_reason",
	                    run->finish_reason ? json_string(run->finish_reason) : json_null());
	json_object_set_new(root, "usage", run->usage ? json_incref(run->usage) : json_null());
	json_print(root);
}

/* The daemon sees the connection close and cancels; the shell sees what ended us. */
static void die_interrupted(struct run *run)
{
	struct signalfd_siginfo info = { .ssi_signo = SIGINT };
	sigset_t signals;

	if (read(run->signal_fd, &info, sizeof(info)) < 0)
		info.ssi_signo = SIGINT;
	end_line(run);
	connection_close(&run->connection);
	fputs("cotenant: cancelled\n", stderr);
	signal((int)info.ssi_signo, SIG_DFL);
	raise((int)info.ssi_signo);
	sigemptyset(&signals);
	sigaddset(&signals, (int)info.ssi_signo);
	sigprocmask(SIG_UNBLOCK, &signals, NULL); /* here it arrives */
}

static int ask_model(struct run *run, const char *body)
{
	sigset_t signals;

	int code = client_open(run->args, &run->connection);
	if (code != CLI_DONE)
		return code;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
	waiting_begin(&run->waiting, run->args, run->model);
	if (connection_send(&run->connection, "POST", "/v1/chat/completions", body) < 0)
		code = client_lost("the request could not be sent");
	else
		code = receive_answer(run);
	if (code == INTERRUPTED)
		die_interrupted(run);
	if (code == CLI_DONE && run->args->json)
		print_json(run);
	close(run->signal_fd);
	return code;
}

static int run_run(const struct cli_args *args)
{
	struct run run = { .args = args, .model = args->operand[0], .connection = CONNECTION_NONE,
		           .code = CLI_DONE };
	struct buf text = BUF_INIT;

	int code = take_text(args, &text);
	char *body = code == CLI_DONE ? make_body(&run, buf_str(&text)) : NULL;
	if (code == CLI_DONE && !body)
		code = CLI_USAGE;
	if (code == CLI_DONE)
		code = check_kind(&run);
	if (code == CLI_DONE)
		code = ask_model(&run, body);
	free(body);
	free(run.finish_reason);
	json_decref(run.usage);
	connection_close(&run.connection);
	buf_release(&text);
	buf_release(&run.answer);
	buf_release(&run.thoughts);
	return code;
}

const struct cli_verb verb_run = {
	.name = "run",
	.operands = "MODEL [TEXT]",
	.summary = "ask a model and read its answer as it comes",
	.help = "Asks a chat model and prints the answer as it is made. Without TEXT the question is read\n"
	        "from stdin. The model is loaded if it is not, as for any request; what is waited for is\n"
	        "told on stderr. Ctrl-C cancels. With --json: one object at the end, with the token counts.\n"
	        "Exit code 4: the model does not fit.\n\n"
	        "Examples:\n"
	        "  cotenant run chat \"Why is the sky blue?\"\n"
	        "  git diff | cotenant run coder --system \"Review this change.\"\n"
	        "  cotenant run chat -n 100 --json Hello | jq -r .content",
	.options = run_options,
	.least = 1,
	.most = CLI_OPERANDS_MAX,
	.reads = true,
	.asks = true,
	.run = run_run,
};
