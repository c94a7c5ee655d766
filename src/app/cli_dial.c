#include "app/cli_dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/dirs.h"
#include "base/str.h"

enum { DIAL_TIMEOUT_MS = 5000 };

static const char default_port[] = "8778";

static int bad_url(const char *url, const char *what, struct err *err)
{
	return err_set(err, -EINVAL, "--url '%.100s': %s", url, what);
}

/* [http://]name[:port][/prefix], the name in brackets where it is an IPv6 address. */
static int parse_url(const char *url, struct dial_target *target, struct err *err)
{
	struct str text = str_from(url), prefix, name, port = { NULL, 0 };

	if (str_starts(text, "https://") && !strchr(url, '@'))
		return bad_url(url, "https is not spoken here; use http:// or the socket", err);
	if (strchr(url, '@')) /* perhaps a password: it is not shown again */
		return err_set(err, -EINVAL, "--url: a name or password before an '@' is not sent; give a key by "
		                             "COTENANT_KEY, and http://HOST:PORT alone");
	if (strpbrk(url, "\r\n \t?#"))
		return bad_url(url, "that is no plain http address", err);
	if (str_starts(text, "http://"))
		text = (struct str){ text.data + 7, text.length - 7 };
	struct str authority = str_cut(text, '/', &prefix);
	if (!str_cut_port(authority, &name, &port))
		return bad_url(url, "a '[' without its ']'", err);
	if (port.length == 0)
		port = str_from(default_port);
	uint64_t number;
	if (!str_to_u64(port, &number) || number == 0 || number > 65535)
		return bad_url(url, "the port is no number from 1 to 65535", err);
	while (prefix.length && prefix.data[prefix.length - 1] == '/')
		prefix.length--;
	if (name.length == 0 || !str_copy(target->name, sizeof(target->name), name) ||
	    !str_copy(target->port, sizeof(target->port), port) ||
	    !str_copy(target->host, sizeof(target->host), authority) ||
	    (size_t)snprintf(target->prefix, sizeof(target->prefix), "%s%.*s",
	                     prefix.length ? "/" : "", (int)prefix.length,
	                     prefix.length ? prefix.data : "") >= sizeof(target->prefix))
		return bad_url(url, "no host, or too long", err);
	return 0;
}

int dial_resolve(const char *socket, const char *url, struct dial_target *target, struct err *err)
{
	*target = (struct dial_target){ 0 };
	if (url)
		return parse_url(url, target, err);
	if (socket && !*socket)
		return err_set(err, -EINVAL, "--socket is empty: it is the path of a daemon's socket");
	str_copy(target->host, sizeof(target->host), STR("localhost"));
	char path[DIR_PATH_MAX];
	dirs_find_socket(socket, path, sizeof(path));
	if (!str_copy(target->path, sizeof(target->path), str_from(path)))
		return err_set(err, -EINVAL, "socket %.80s...: the path is over 107 bytes", path);
	return 0;
}

static int dial_unix(const struct dial_target *target, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	str_copy(address.sun_path, sizeof(address.sun_path), str_from(target->path));
	if (connect(fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) == 0)
		return fd;
	int error = errno;
	close(fd);
	return err_set(err, -error, "%s: %s", target->path,
	               error == ENOENT ? "no such socket" : strerror(error));
}

/* A connected descriptor, blocking again, or a negative errno. */
static int dial_address(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error = 0;
	socklen_t error_bytes = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, address->ai_addr, address->ai_addrlen) < 0) {
		struct pollfd wait = { .fd = fd, .events = POLLOUT };
		error = errno;
		if (error == EINPROGRESS) {
			int ready = poll(&wait, 1, DIAL_TIMEOUT_MS);
			error = ready == 0 ? ETIMEDOUT : 0;
			if (ready > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) < 0)
				error = errno;
		}
	}
	if (error == 0 && fcntl(fd, F_SETFL, 0) < 0)
		error = errno;
	if (error == 0)
		return fd;
	close(fd);
	return -error;
}

static int dial_tcp(const struct dial_target *target, struct err *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int fd = -EADDRNOTAVAIL;

	int failure = getaddrinfo(target->name, target->port, &hints, &found);
	if (failure)
		return err_set(err, -ENOENT, "%s: %s", target->host, gai_strerror(failure));
	for (const struct addrinfo *address = found; address && fd < 0; address = address->ai_next)
		fd = dial_address(address);
	freeaddrinfo(found);
	if (fd < 0)
		return err_set(err, fd, "%s port %s: %s", target->name, target->port, strerror(-fd));
	return fd;
}

int dial(const struct dial_target *target, struct err *err)
{
	return target->path[0] ? dial_unix(target, err) : dial_tcp(target, err);
}
