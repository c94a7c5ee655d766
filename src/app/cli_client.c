#include "app/cli_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/cli_dial.h"
#include "app/cli_reply.h"
#include "base/alloc.h"

enum { ANSWER_MAX = 64 << 20, LINE_MAX_BYTES = 1 << 20 };

struct connection {
	int fd;
	struct dial_target target;
	struct reply reply;
	struct buf body;
};

static const char start_command[] = "cotenant serve -f cotenant.yaml";

static int open_connection(const struct cli_args *args, struct connection *connection)
{
	struct err err;

	*connection = (struct connection){ .fd = -1, .reply = REPLY_INIT };
	if (args->socket && args->url)
		return cli_fail(CLI_USAGE, "cotenant ps --url http://127.0.0.1:8778",
		                "--socket and --url exclude each other");
	if (dial_resolve(args->socket, args->url, &connection->target, &err) < 0)
		return cli_fail(CLI_USAGE, "cotenant ps --url http://127.0.0.1:8778", "%s", err.text);
	connection->fd = dial(&connection->target, &err);
	if (connection->fd < 0)
		return cli_fail(CLI_NO_DAEMON, start_command, "no daemon answers: %s", err.text);
	return CLI_DONE;
}

static void close_connection(struct connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	reply_release(&connection->reply);
	buf_release(&connection->body);
}

static int lost(const char *what)
{
	return cli_fail(CLI_FAILED, "cotenant ps", "the daemon's answer was lost: %s", what);
}

static int send_all(int fd, struct str bytes)
{
	while (bytes.length) {
		ssize_t sent = send(fd, bytes.data, bytes.length, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return -errno;
		bytes.data += sent;
		bytes.length -= (size_t)sent;
	}
	return 0;
}

static int send_request(struct connection *connection, const char *method, const char *path,
                        const char *body)
{
	const struct dial_target *target = &connection->target;
	const char *key = target->path[0] ? NULL : getenv("COTENANT_KEY");
	struct buf request = BUF_INIT;

	buf_printf(&request, "%s %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: */*\r\n",
	           method, target->prefix, path, target->host);
	if (key && *key && !strpbrk(key, "\r\n"))
		buf_printf(&request, "Authorization: Bearer %s\r\n", key);
	if (body)
		buf_printf(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
		           strlen(body));
	else if (strcmp(method, "GET") != 0)
		buf_printf(&request, "Content-Length: 0\r\n");
	buf_printf(&request, "\r\n%s", body ? body : "");
	int error = send_all(connection->fd, buf_str(&request));
	buf_release(&request);
	/* A daemon that refuses early has answered already: read it before complaining. */
	return error == -EPIPE || error == -ECONNRESET ? 0 : error;
}

/* Read once. 1 = something was taken, 0 = the answer is over, negative errno (err says). */
static int receive(struct connection *connection, int timeout_ms, struct err *err)
{
	char bytes[16 * 1024];
	struct pollfd wait = { .fd = connection->fd, .events = POLLIN };

	int ready = poll(&wait, 1, timeout_ms == CLIENT_PATIENT ? -1 : timeout_ms);
	if (ready < 0 && errno == EINTR)
		return 1;
	if (ready == 0)
		return err_set(err, -ETIMEDOUT, "nothing came for %d s", timeout_ms / 1000);
	ssize_t count = read(connection->fd, bytes, sizeof(bytes));
	if (count < 0)
		return errno == EINTR ? 1 : err_set(err, -errno, "%s", strerror(errno));
	if (count == 0)
		return reply_close(&connection->reply, err);
	int error = reply_feed(&connection->reply, bytes, (size_t)count, &connection->body, err);
	if (error < 0)
		return error;
	return connection->reply.state != REPLY_DONE;
}

int client_ask(const struct cli_args *args, const char *method, const char *path, const char *body,
               int timeout_ms, struct client_reply *reply)
{
	struct connection connection;
	struct err err;
	int more = 1;

	int code = open_connection(args, &connection);
	if (code != CLI_DONE)
		return code;
	if (send_request(&connection, method, path, body) < 0)
		code = lost("the request could not be sent");
	while (code == CLI_DONE && (more = receive(&connection, timeout_ms, &err)) > 0)
		if (buf_length(&connection.body) > ANSWER_MAX)
			code = lost("it is over 64 MiB");
	if (code == CLI_DONE && more < 0)
		code = lost(err.text);
	*reply = (struct client_reply){ connection.reply.status, BUF_INIT };
	if (code == CLI_DONE) {
		reply->body = connection.body;
		connection.body = BUF_INIT;
	}
	close_connection(&connection);
	return code;
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

static const char *command_for(int status, const char *code)
{
	if (status == 507 || strcmp(code, "no_room") == 0)
		return "cotenant memory";
	if (status == 404)
		return "cotenant ls";
	if (status == 401 || status == 403)
		return "COTENANT_KEY=... cotenant ps --url http://127.0.0.1:8778";
	return "cotenant events";
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
	const char *hint = message ? strstr(message, try) : NULL;
	const char *command = hint ? hint + sizeof(try) - 1 : command_for(reply->status, code);
	if (message)
		cli_fail(exit_code, command, "%.*s", (int)(hint ? hint - message : (long)strlen(message)),
		         message);
	else
		cli_fail(exit_code, command, "the daemon answered with status %d", reply->status);
	json_decref(root);
	return exit_code;
}

int client_command(const struct cli_args *args, const char *method, const char *path,
                   const char *body, json_t **out)
{
	struct client_reply reply;
	json_error_t problem;
	int timeout_ms = strcmp(method, "GET") == 0 ? CLIENT_QUICK_MS : CLIENT_PATIENT;

	*out = NULL;
	int code = client_ask(args, method, path, body, timeout_ms, &reply);
	if (code != CLI_DONE)
		return code;
	if (reply.status / 100 != 2) {
		code = client_refused(args, &reply);
	} else {
		struct str text = buf_str(&reply.body);
		*out = json_loadb(text.data, text.length, 0, &problem);
		if (!*out)
			code = cli_fail(CLI_FAILED, "cotenant --version",
			                "the daemon's answer is no JSON: %s", problem.text);
	}
	buf_release(&reply.body);
	return code;
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

	int code = open_connection(args, &connection);
	if (code != CLI_DONE)
		return code;
	if (send_request(&connection, "GET", path, NULL) < 0)
		code = lost("the request could not be sent");
	while (code == CLI_DONE && more > 0) {
		more = receive(&connection, CLIENT_PATIENT, &err);
		if (connection.reply.status == 200 && !hand_out_lines(&connection.body, line, ctx))
			more = 0;
		if (buf_length(&connection.body) > LINE_MAX_BYTES)
			code = lost("a line over 1 MiB");
	}
	if (code == CLI_DONE && more < 0) {
		code = lost(err.text);
	} else if (code == CLI_DONE && connection.reply.status != 200) {
		struct client_reply reply = { connection.reply.status, connection.body };
		code = client_refused(args, &reply);
	}
	close_connection(&connection);
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
