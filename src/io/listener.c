/*
 * Pausing uses what the loop does anyway: a connection that is not taken in the
 * callback stays taken inside the loop (one descriptor) and stops the watching
 * of the listening socket until somebody takes it.
 */
#include "io/listener.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <uv.h>

#include "base/alloc.h"

enum { BACKLOG = 1024, GROUPS_MAX = 1024 };

struct listener {
	struct reactor *reactor;
	struct listener_events events;
	char *path;       /* NULL: TCP */
	int lock_fd;
	bool paused;
	bool waiting;     /* a connection was left in the loop */
	union {
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
};

static bool is_loopback(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);

	if (getpeername(fd, (struct sockaddr *)&address, &bytes) < 0)
		return false;
	if (address.ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)&address;
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	}
	if (address.ss_family != AF_INET6)
		return false;
	const struct sockaddr_in6 *v6 = (const void *)&address;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return v6->sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* A unix peer whose credentials cannot be read is nobody: uid_t -1 owns nothing. */
static struct peer peer_of(const struct listener *listener, int fd)
{
	struct peer peer = { .unix_socket = listener->path != NULL, .uid = (uid_t)-1 };
	struct ucred credentials;
	socklen_t bytes = sizeof(credentials);

	if (!peer.unix_socket) {
		peer.loopback = is_loopback(fd);
		return peer;
	}
	peer.loopback = true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0) {
		peer.uid = credentials.uid;
		peer.pid = credentials.pid;
	}
	return peer;
}

bool peer_in_group(const struct stream *stream, gid_t group)
{
	struct ucred credentials;
	socklen_t bytes = sizeof(credentials);
	gid_t groups[GROUPS_MAX];
	int fd = stream_fd(stream);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
	    credentials.gid == group)
		return true;
	bytes = sizeof(groups);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) < 0)
		return false;
	for (size_t i = 0; i < bytes / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

static void take(struct listener *listener)
{
	struct stream *stream =
		stream_accept(listener->reactor, &listener->socket.stream, listener->path != NULL);
	if (!stream)
		return;
	struct peer peer = peer_of(listener, stream_fd(stream));
	listener->events.on_connection(listener->events.ctx, stream, &peer);
}

static void on_waiting(uv_stream_t *handle, int status)
{
	struct listener *listener = handle->data;

	if (status < 0)
		return; /* no descriptor was free: the loop dropped the connection itself */
	if (listener->paused)
		listener->waiting = true;
	else
		take(listener);
}

void listener_pause(struct listener *listener)
{
	listener->paused = true;
}

void listener_resume(struct listener *listener)
{
	listener->paused = false;
	if (!listener->waiting)
		return;
	listener->waiting = false;
	take(listener);
}

static void on_closed(uv_handle_t *handle)
{
	struct listener *listener = handle->data;
	free(listener->path);
	free(listener);
}

void listener_close(struct listener *listener)
{
	if (!listener)
		return;
	uv_close((uv_handle_t *)&listener->socket.stream, on_closed); /* removes the file, too */
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	listener->lock_fd = -1;
}

static struct listener *listener_new(struct reactor *reactor, const struct listener_events *events)
{
	struct listener *listener = xcalloc(1, sizeof(*listener));

	listener->reactor = reactor;
	listener->events = *events;
	listener->lock_fd = -1;
	return listener;
}

struct listener *listener_tcp(struct reactor *reactor, const char *host, uint16_t port,
                              const struct listener_events *events, struct err *err)
{
	struct sockaddr_storage address = { 0 };

	if (uv_ip4_addr(host, port, (struct sockaddr_in *)&address) < 0 &&
	    uv_ip6_addr(host, port, (struct sockaddr_in6 *)&address) < 0) {
		err_set(err, -EINVAL, "listen address '%s' is not an IPv4 or IPv6 address", host);
		return NULL;
	}
	struct listener *listener = listener_new(reactor, events);
	uv_tcp_init(reactor->loop, &listener->socket.tcp);
	listener->socket.stream.data = listener;
	int error = uv_tcp_bind(&listener->socket.tcp, (const struct sockaddr *)&address, 0);
	if (error == 0)
		error = uv_listen(&listener->socket.stream, BACKLOG, on_waiting);
	if (error < 0) {
		err_set(err, error, "listen on %s port %u: %s", host, port, uv_strerror(error));
		listener_close(listener);
		return NULL;
	}
	return listener;
}

/* The descriptor of the locked file, or a negative errno. */
static int lock_for(const char *path, struct err *err)
{
	char *name = xasprintf("%s.lock", path);
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int result = fd;

	if (fd < 0) {
		result = err_set(err, -errno, "lock file '%s': %s%s", name, strerror(errno),
		                 errno == ENOENT ? "; make its folder first (mkdir -p)" : "");
	} else if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		result = err_set(err, -EADDRINUSE, "socket '%s' is in use by another process", path);
		close(fd);
	}
	free(name);
	return result;
}

/* What a dead daemon left is in the way; anything but a socket is somebody's, and stays. */
static int remove_old_socket(const char *path, struct err *err)
{
	struct stat old;

	if (lstat(path, &old) < 0)
		return errno == ENOENT ? 0 : err_set(err, -errno, "socket '%s': %s", path, strerror(errno));
	if (!S_ISSOCK(old.st_mode))
		return err_set(err, -EEXIST, "socket '%s': something else is there; name another path",
		               path);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "old socket '%s': %s", path, strerror(errno));
	return 0;
}

static int open_socket_file(struct listener *listener, mode_t mode, gid_t group, struct err *err)
{
	const char *path = listener->path;
	int code = remove_old_socket(path, err);

	if (code < 0)
		return code;
	/* Nobody may connect before the mode is right. */
	mode_t before = umask(0777);
	int error = uv_pipe_bind(&listener->socket.pipe, path);
	umask(before);
	if (error < 0)
		return err_set(err, error, "socket '%s': %s", path, uv_strerror(error));
	if (group != (gid_t)-1 && chown(path, (uid_t)-1, group) < 0)
		return err_set(err, -errno, "socket '%s': group %u: %s", path, group,
		               strerror(errno));
	if (chmod(path, mode) < 0)
		return err_set(err, -errno, "socket '%s': mode: %s", path, strerror(errno));
	error = uv_listen(&listener->socket.stream, BACKLOG, on_waiting);
	if (error < 0)
		return err_set(err, error, "listen on '%s': %s", path, uv_strerror(error));
	return 0;
}

struct listener *listener_unix(struct reactor *reactor, const char *path, mode_t mode, gid_t group,
                               const struct listener_events *events, struct err *err)
{
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		err_set(err, -ENAMETOOLONG, "socket path '%s' is too long", path);
		return NULL;
	}
	int lock_fd = lock_for(path, err);
	if (lock_fd < 0)
		return NULL;

	struct listener *listener = listener_new(reactor, events);
	listener->lock_fd = lock_fd;
	listener->path = xstrdup(path);
	uv_pipe_init(reactor->loop, &listener->socket.pipe, 0);
	listener->socket.stream.data = listener;
	if (open_socket_file(listener, mode, group, err) < 0) {
		listener_close(listener);
		return NULL;
	}
	return listener;
}

uint16_t listener_port(const struct listener *listener)
{
	struct sockaddr_storage address;
	int bytes = sizeof(address);

	if (listener->path ||
	    uv_tcp_getsockname(&listener->socket.tcp, (struct sockaddr *)&address, &bytes) < 0)
		return 0;
	return ntohs(((const struct sockaddr_in *)&address)->sin_port); /* the same place in both families */
}
