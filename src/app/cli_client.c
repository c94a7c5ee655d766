#include "app/cli_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli_json.h"
#include "base/alloc.h"
#include "conf/conf.h"

enum { ANSWER_MAX = 64 << 20, LINE_MAX_BYTES = 1 << 20, PEEK_MS = 2000 };

/* How to start a daemon from here: with the file that there is, or first how to write one. */
static int no_daemon(const char *why)
{
	char command[300];
	char *path = conf_find(NULL);

	if (path)
		snprintf(command, sizeof(command), "cotenant serve -f %.200s", path);
	int code = cli_fail(CLI_NO_DAEMON, path ? command : "cotenant serve --help", "no daemon answers: %s", why);
	free(path);
	return code;
}

int client_open(const struct cli_args *args, struct connection *connection)
{
	struct err err;
	int code = connection_open(args, connection, &err);

	if (code == CLI_USAGE)
		return cli_fail(code, "cotenant ps --url http://127.0.0.1:8778", "%s", err.text);
	if (code != CLI_DONE)
		return no_daemon(err.text);
	return code;
}

int client_lost(const char *what)
{
	return cli_fail(CLI_FAILED, "cotenant ps", "the daemon's answer was lost: %s", what);
}

static void tick_until_readable(const struct client_ticker *ticker, int fd)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	while (poll(&wait, 1, ticker->every_ms) == 0)
		ticker->tick(ticker->ctx);
}

static int ask(const struct cli_args *args, const char *method, const char *path, const char *body,
               int timeout_ms, const struct client_ticker *ticker, struct client_reply *reply)
{
	struct connection connection;
	struct err err;
	int more = 1;

	int code = client_open(args, &connection);
	if (code != CLI_DONE)
		return code;
	if (connection_send(&connection, method, path, body) < 0)
		code = client_lost("the request could not be sent");
	while (code == CLI_DONE && more > 0) {
		if (ticker)
			tick_until_readable(ticker, connection.fd);
		more = connection_receive(&connection, timeout_ms, &err);
		if (buf_length(&connection.body) > ANSWER_MAX)
			code = client_lost("it is over 64 MiB");
	}
	if (ticker)
		ticker->done(ticker->ctx);
	if (code == CLI_DONE && more < 0)
		code = client_lost(err.text);
	*reply = (struct client_reply){ connection.reply.status, BUF_INIT };
	if (code == CLI_DONE) {
		reply->body = connection.body;
		connection.body = BUF_INIT;
	}
	connection_close(&connection);
	return code;
}

int client_ask(const struct cli_args *args, const char *method, const char *path, const char *body,
               int timeout_ms, struct client_reply *reply)
{
	return ask(args, method, path, body, timeout_ms, NULL, reply);
}

bool client_reachable(const struct cli_args *args)
{
	struct dial_target target;
	struct err err;

	if (dial_resolve(args->socket, args->url, &target, &err) < 0)
		return false;
	int fd = dial(&target, &err);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int exit_of(int status, const char *code)
{
	if (status == 507 || strcmp(code, "no_room") == 0)
		return CLI_NO_FIT;
	return CLI_FAILED;
}

void client_curl(const struct cli_args *args, char *out, size_t out_bytes)
{
	struct dial_target target;
	struct err err;
	json_t *health = client_peek(args, "/healthz");
	const char *url = args->url ? args->url : json_text(health, "url");

	if (*url)
		snprintf(out, out_bytes, "curl %.200s", url);
	else if (dial_resolve(args->socket, NULL, &target, &err) == 0)
		snprintf(out, out_bytes, "curl --unix-socket %s http://localhost", target.path);
	else
		str_copy(out, out_bytes, STR("curl http://localhost"));
	json_decref(health);
}

/* Who is refused for who he is comes again with a key, or as the daemon's own user. */
static void write_admission(const struct cli_args *args, char *out, size_t out_bytes)
{
	const char *operand = args->operands ? args->operand[0] : "";

	if (args->url)
		snprintf(out, out_bytes, "COTENANT_KEY=... cotenant %s%s%.60s --url %.200s", args->verb->name,
		         *operand ? " " : "", operand, args->url);
	else
		snprintf(out, out_bytes, "sudo cotenant %s%s%.60s", args->verb->name, *operand ? " " : "", operand);
}

/* The verb that tells why a model's engine did not do it; NULL: the model is not the cause. */
static const char *verb_for(const char *code)
{
	static const char *const causes[][2] = {
		{ "load_failed", "show" },   { "backing_off", "show" },   { "unreachable", "show" },
		{ "engine_died", "logs" },   { "start_timeout", "logs" }, { "out_of_memory", "logs" },
		{ "not_loaded", "load" },
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (strcmp(code, causes[i][0]) == 0)
			return causes[i][1];
	return NULL;
}

static void write_command(const struct cli_args *args, int status, const char *code, char *out, size_t out_bytes)
{
	const char *verb = args->operands ? verb_for(code) : NULL;

	if (verb)
		snprintf(out, out_bytes, "cotenant %s %.200s", verb, args->operand[0]);
	else if (status == 507 || strcmp(code, "no_room") == 0)
		snprintf(out, out_bytes, "cotenant memory");
	else
		snprintf(out, out_bytes, status == 404 ? "cotenant ls" : "cotenant events");
}

int client_refused(const struct cli_args *args, const struct client_reply *reply)
{
	static const char try[] = "; try: "; /* the daemon's own hint, at the end of its message */
	struct str body = buf_str(&reply->body);
	json_t *root = json_loadb(body.data, body.length, 0, NULL);
	json_t *error = json_object_get(root, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *code = json_string_value(json_object_get(error, "code"));

	if (!code)
		code = "";
	if (args->json && error) {
		json_dumpf(root, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	int exit_code = exit_of(reply->status, code);
	/* A report on the configuration has a hint in each line, and its own behind all of them. */
	bool report = strcmp(code, "bad_configuration") == 0 || strcmp(code, "restart_needed") == 0;
	const char *hint = message ? strstr(message, try) : NULL;
	for (const char *next = hint; report && next; next = strstr(next + 1, try))
		hint = next;
	char own[400];
	if (reply->status == 401 || reply->status == 403)
		write_admission(args, own, sizeof(own));
	else
		write_command(args, reply->status, code, own, sizeof(own));
	const char *command = hint ? hint + sizeof(try) - 1 : own;
	if (message)
		cli_fail(exit_code, command, "%.*s", (int)(hint ? hint - message : (long)strlen(message)),
		         message);
	else
		cli_fail(exit_code, command, "the daemon answered with status %d", reply->status);
	json_decref(root);
	return exit_code;
}

/* The JSON of a good answer; what a bad one says is said. Releases the answer. */
static int take_json(const struct cli_args *args, struct client_reply *reply, json_t **out)
{
	json_error_t problem;
	int code = CLI_DONE;

	if (reply->status / 100 != 2) {
		code = client_refused(args, reply);
	} else {
		struct str text = buf_str(&reply->body);
		*out = json_loadb(text.data, text.length, 0, &problem);
		if (!*out)
			code = cli_fail(CLI_FAILED, "cotenant --version",
			                "the daemon's answer is no JSON: %s", problem.text);
	}
	buf_release(&reply->body);
	return code;
}

int client_command(const struct cli_args *args, const char *method, const char *path,
                   const char *body, json_t **out)
{
	struct client_reply reply;
	int timeout_ms = strcmp(method, "GET") == 0 ? CLIENT_QUICK_MS : CLIENT_PATIENT;

	*out = NULL;
	int code = client_ask(args, method, path, body, timeout_ms, &reply);
	return code == CLI_DONE ? take_json(args, &reply, out) : code;
}

int client_wait(const struct cli_args *args, const char *path, const char *body,
                const struct client_ticker *ticker, json_t **out)
{
	struct client_reply reply;

	*out = NULL;
	int code = ask(args, "POST", path, body, CLIENT_PATIENT, ticker, &reply);
	return code == CLI_DONE ? take_json(args, &reply, out) : code;
}

json_t *client_peek(const struct cli_args *args, const char *path)
{
	struct connection connection;
	struct err err;
	int more = -1;
	json_t *root = NULL;

	if (connection_open(args, &connection, &err) == CLI_DONE &&
	    connection_send(&connection, "GET", path, NULL) == 0)
		do {
			more = connection_receive(&connection, PEEK_MS, &err);
		} while (more > 0 && buf_length(&connection.body) <= ANSWER_MAX);
	if (more == 0 && connection.reply.status == 200) {
		struct str text = buf_str(&connection.body);
		root = json_loadb(text.data, text.length, 0, NULL);
	}
	connection_close(&connection);
	return root;
}

int client_get(const struct cli_args *args, const char *path, json_t **out)
{
	return client_command(args, "GET", path, NULL, out);
}

/* Hand out the whole lines of the body so far; false where the follower has enough. */
static bool hand_out_lines(struct buf *body, bool (*line)(void *ctx, const char *text), void *ctx)
{
	bool more = true;

	while (more) {
		struct str text = buf_str(body);
		char *end = text.length ? memchr(text.data, '\n', text.length) : NULL;
		if (!end)
			break;
		size_t length = (size_t)(end - text.data);
		*end = '\0';
		if (length && end[-1] == '\r')
			end[-1] = '\0';
		more = line(ctx, text.data);
		buf_consume(body, length + 1);
	}
	return more;
}

int client_follow(const struct cli_args *args, const char *path,
                  bool (*line)(void *ctx, const char *text), void *ctx)
{
	struct connection connection;
	struct err err;
	int more = 1;

	int code = client_open(args, &connection);
	if (code != CLI_DONE)
		return code;
	if (connection_send(&connection, "GET", path, NULL) < 0)
		code = client_lost("the request could not be sent");
	while (code == CLI_DONE && more > 0) {
		more = connection_receive(&connection, CLIENT_PATIENT, &err);
		if (connection.reply.status == 200 && !hand_out_lines(&connection.body, line, ctx))
			more = 0;
		if (buf_length(&connection.body) > LINE_MAX_BYTES)
			code = client_lost("a line over 1 MiB");
	}
	if (code == CLI_DONE && more < 0) {
		code = cli_fail(CLI_FAILED, "cotenant ps", "the daemon went away: %s", err.text);
	} else if (code == CLI_DONE && connection.reply.status != 200) {
		struct client_reply reply = { connection.reply.status, connection.body };
		code = client_refused(args, &reply);
	}
	connection_close(&connection);
	return code;
}

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '_' || c == '.' || c == '~';
}

char *client_path(const char *prefix, const char *name, const char *suffix)
{
	struct buf path = BUF_INIT;

	buf_printf(&path, "%s", prefix);
	for (; *name; name++) {
		if (is_plain(*name))
			buf_append_char(&path, *name);
		else
			buf_printf(&path, "%%%02X", (unsigned char)*name);
	}
	buf_printf(&path, "%s", suffix);
	char *text = xstrdup(buf_cstr(&path));
	buf_release(&path);
	return text;
}

int client_get_named(const struct cli_args *args, const char *prefix, const char *name, const char *suffix,
                     json_t **out)
{
	char *path = client_path(prefix, name, suffix);
	int code = client_get(args, path, out);

	free(path);
	return code;
}
