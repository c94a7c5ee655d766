#include "engine/ask.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { ANSWER_BYTES = 64 * 1024, READ_BYTES = 4096 };

struct ask {
	uv_poll_t poll;
	int fd;
	bool sent;
	bool only_connects; /* nothing is asked for */
	struct ask_options options;
	char *request;
	struct buf answer;
};

static int connect_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

static int connect_tcp(const struct endpoint *endpoint)
{
	struct sockaddr_storage address;

	endpoint_address(endpoint, &address);
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	socklen_t bytes = address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	                                                : sizeof(struct sockaddr_in);
	if (connect(fd, (struct sockaddr *)&address, bytes) == 0 || errno == EINPROGRESS)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

/*
 * Who connects to a free port of the local range again and again gets that very
 * port as its own one day, and then talks to itself. It must not keep the port.
 */
static bool is_self(int fd)
{
	struct sockaddr_in here = { 0 };
	struct sockaddr_in there = { 0 };
	socklen_t here_bytes = sizeof(here);
	socklen_t there_bytes = sizeof(there);

	if (getsockname(fd, (struct sockaddr *)&here, &here_bytes) < 0 ||
	    getpeername(fd, (struct sockaddr *)&there, &there_bytes) < 0)
		return false;
	if (here.sin_family != AF_INET || here.sin_port != there.sin_port)
		return false;
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return true;
}

static void on_closed(uv_handle_t *handle)
{
	struct ask *ask = handle->data;

	buf_release(&ask->answer);
	free(ask->request);
	free(ask);
}

void ask_cancel(struct ask *ask)
{
	uv_poll_stop(&ask->poll);
	close(ask->fd);
	uv_close((uv_handle_t *)&ask->poll, on_closed);
}

static void finish(struct ask *ask, int status, struct str body)
{
	struct ask_options options = ask->options;

	ask_cancel(ask); /* its memory lives until the loop's next turn: `body` stays valid */
	options.done(options.ctx, status, body);
}

/* "HTTP/1.1 200": the number; 0 where there is not enough yet, -EPROTO where it is no HTTP. */
static int status_of(struct str answer)
{
	struct str rest;

	if (answer.length < 12)
		return memcmp(answer.data, "HTTP/1.", answer.length < 7 ? answer.length : 7) ? -EPROTO : 0;
	str_cut(answer, ' ', &rest);
	if (!str_starts(answer, "HTTP/1.") || !rest.data || rest.length < 3)
		return -EPROTO;
	uint64_t status;
	if (!str_to_u64((struct str){ rest.data, 3 }, &status) || status < 100)
		return -EPROTO;
	return (int)status;
}

/* The body, once all of it is there by its length or `at_end`; false: read on. */
static bool body_of(struct str answer, bool at_end, struct str *out)
{
	const char *head_end = memmem(answer.data, answer.length, "\r\n\r\n", 4);

	if (!head_end)
		return at_end;
	struct str head = { answer.data, (size_t)(head_end - answer.data) };
	struct str line;
	uint64_t wanted = UINT64_MAX;
	*out = (struct str){ head_end + 4, answer.length - head.length - 4 };
	while (head.data) {
		line = str_cut(head, '\n', &head);
		if (line.length > 15 && strncasecmp(line.data, "content-length:", 15) == 0) {
			line.data += 15;
			line.length -= 15;
			if (str_ends(line, "\r"))
				line.length--;
			str_to_u64(str_trim(line), &wanted);
		}
	}
	return at_end || out->length >= wanted;
}

static void on_answer(struct ask *ask)
{
	struct str none = { "", 0 };
	ssize_t length = read(ask->fd, buf_reserve(&ask->answer, READ_BYTES), READ_BYTES);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length < 0) {
		finish(ask, -errno, none);
		return;
	}
	buf_commit(&ask->answer, (size_t)length);
	struct str answer = buf_str(&ask->answer);
	int status = status_of(answer);
	bool at_end = length == 0 || answer.length >= ANSWER_BYTES;
	struct str body = none;
	if (status == 0 && at_end)
		finish(ask, -EPROTO, none);
	else if (status < 0 || (status > 0 && (!ask->options.whole || body_of(answer, at_end, &body))))
		finish(ask, status, body);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct ask *ask = poll->data;
	struct str none = { "", 0 };
	int error = 0;
	socklen_t error_bytes = sizeof(error);
	(void)status;
	(void)events;

	if (ask->sent) {
		on_answer(ask);
		return;
	}
	getsockopt(ask->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
	if (!error && is_self(ask->fd))
		error = ECONNREFUSED;
	if (error || ask->only_connects) {
		finish(ask, -error, none);
		return;
	}
	/* It is small and the socket is new: all of it is taken, or none as the peer is gone. */
	size_t length = strlen(ask->request);
	if (send(ask->fd, ask->request, length, MSG_NOSIGNAL) != (ssize_t)length) {
		finish(ask, -ECONNRESET, none);
		return;
	}
	ask->sent = true;
	uv_poll_start(&ask->poll, UV_READABLE, on_ready);
}

int ask_start(const struct ask_options *options, struct ask **out)
{
	const struct endpoint *endpoint = options->endpoint;
	int fd = endpoint->path[0] ? connect_unix(endpoint->path) : connect_tcp(endpoint);

	if (fd < 0)
		return fd;
	struct ask *ask = xcalloc(1, sizeof(*ask));
	ask->fd = fd;
	/* Its texts are the caller's, and need not outlive this call. */
	ask->options = *options;
	ask->options.endpoint = NULL;
	ask->options.path = ask->options.post = NULL;
	ask->only_connects = !options->path[0];
	char length[80] = "";
	if (options->post)
		snprintf(length, sizeof(length), "Content-Type: application/json\r\nContent-Length: %zu\r\n",
		         strlen(options->post));
	ask->request = xasprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s%s%s%s"
	                         "Connection: close\r\n\r\n%s",
	                         options->post ? "POST" : "GET", options->path,
	                         endpoint->authority ? endpoint->authority : "localhost",
	                         endpoint->key[0] ? "Authorization: Bearer " : "",
	                         endpoint->key, endpoint->key[0] ? "\r\n" : "", length,
	                         options->post ? options->post : "");
	int status = uv_poll_init(options->loop, &ask->poll, fd);
	if (status < 0) {
		close(fd);
		free(ask->request);
		free(ask);
		return status;
	}
	ask->poll.data = ask;
	uv_poll_start(&ask->poll, UV_WRITABLE, on_ready);
	*out = ask;
	return 0;
}
