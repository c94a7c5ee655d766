#include "app/cli_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int connection_open(const struct cli_args *args, struct connection *connection, struct err *err)
{
	*connection = CONNECTION_NONE;
	if (args->socket && args->url) {
		err_set(err, -EINVAL, "--socket and --url exclude each other");
		return CLI_USAGE;
	}
	if (dial_resolve(args->socket, args->url, &connection->target, err) < 0)
		return CLI_USAGE;
	connection->fd = dial(&connection->target, err);
	return connection->fd < 0 ? CLI_NO_DAEMON : CLI_DONE;
}

void connection_close(struct connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	reply_release(&connection->reply);
	buf_release(&connection->body);
	*connection = CONNECTION_NONE;
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

int connection_send(struct connection *connection, const char *method, const char *path,
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

int connection_receive(struct connection *connection, int timeout_ms, struct err *err)
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
