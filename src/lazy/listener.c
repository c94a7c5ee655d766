#include "lazy/listener.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lazy/ranges.h"

enum { STACK_BYTES = 256 << 10, BACKLOG = 4, PATIENCE_S = 2 };

static struct {
	int fd;
	uint64_t discards;
	struct listener_facts (*facts)(void);
} listener;

static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return false;
	return peer.uid == geteuid() || peer.uid == 0;
}

/* The request's first line is all that matters; what comes after it is read off with it. */
static bool read_head(int fd, char *head, size_t size)
{
	size_t length = 0;

	while (length + 1 < size) {
		ssize_t got = recv(fd, head + length, size - 1 - length, 0);
		if (got <= 0)
			return false;
		length += (size_t)got;
		head[length] = '\0';
		if (strstr(head, "\r\n\r\n"))
			return true;
	}
	return false;
}

static void reply(int fd, const char *status, const char *body)
{
	char text[768];
	int length = snprintf(text, sizeof(text),
	                      "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
	                      "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
	                      status, strlen(body), body);

	if (length > 0 && (size_t)length < sizeof(text))
		(void)!send(fd, text, (size_t)length, MSG_NOSIGNAL);
}

static void tell_use(int fd, const char *status)
{
	struct listener_facts facts = listener.facts();
	struct ranges_use use = ranges_use();
	char body[400];

	snprintf(body, sizeof(body),
	         "{\"library\": \"cotenant-lazy\", \"reached\": %s, \"buffers\": %" PRIu32 ", "
	         "\"reserved_bytes\": %" PRIu64 ", \"resident_bytes\": %" PRIu64 ", "
	         "\"left_out_bytes\": %" PRIu64 ", \"plain_clears\": %" PRIu64 ", "
	         "\"discards\": %" PRIu64 "}\n",
	         facts.reached ? "true" : "false", use.count, use.reserved_bytes,
	         use.resident_bytes, use.reserved_bytes - use.resident_bytes, facts.plain_clears,
	         listener.discards);
	reply(fd, status, body);
}

static void answer(int fd)
{
	struct timeval patience = { .tv_sec = PATIENCE_S };
	char head[1024];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!may_ask(fd) || !read_head(fd, head, sizeof(head)))
		return;
	if (strncmp(head, "GET / ", 6) == 0) {
		tell_use(fd, "200 OK");
	} else if (strncmp(head, "POST /discard ", 14) == 0) {
		bool all = ranges_discard();
		listener.discards++;
		tell_use(fd, all ? "200 OK" : "500 Internal Server Error");
	} else {
		reply(fd, "404 Not Found", "{\"error\": \"GET / or POST /discard\"}\n");
	}
}

/* What still comes (a body) is read off, so that the answer is not lost with the connection. */
static void hang_up(int fd)
{
	char rest[1024];

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 64 && recv(fd, rest, sizeof(rest), 0) > 0; i++)
		;
	close(fd);
}

static void *serve(void *unused)
{
	for (;;) {
		int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0) {
			sleep(1); /* the engine has no descriptor left, say */
			continue;
		}
		answer(fd);
		hang_up(fd);
	}
	return unused;
}

static bool start_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int code = pthread_create(&thread, &attributes, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return code == 0;
}

bool listener_start(const char *path, struct listener_facts (*facts)(void))
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, path, strlen(path));
	listener.facts = facts;
	listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener.fd < 0)
		return false;
	if (bind(listener.fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    chmod(path, S_IRUSR | S_IWUSR) == 0 && listen(listener.fd, BACKLOG) == 0 &&
	    start_thread())
		return true;
	close(listener.fd);
	return false;
}
