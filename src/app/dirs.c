#include "app/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char socket_name[] = "cotenant.sock";

/* printf into a path; false where it does not fit. */
__attribute__((format(printf, 3, 4))) static bool join(char *out, size_t out_bytes,
                                                       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int length = vsnprintf(out, out_bytes, format, args);
	va_end(args);
	return length >= 0 && (size_t)length < out_bytes;
}

/* An environment variable that is set and not empty. systemd gives lists with ':'; the first
 * counts. */
static const char *variable(const char *name, int *length)
{
	const char *value = getenv(name);

	if (!value || !*value)
		return NULL;
	*length = (int)strcspn(value, ":");
	return value;
}

bool dirs_state(char *out, size_t out_bytes)
{
	int length;
	const char *given = variable("STATE_DIRECTORY", &length);
	const char *home = getenv("HOME");

	if (given)
		return join(out, out_bytes, "%.*s", length, given);
	if (home && *home)
		return join(out, out_bytes, "%s/.local/state/cotenant", home);
	return join(out, out_bytes, "/var/lib/cotenant");
}

bool dirs_runtime(char *out, size_t out_bytes)
{
	int length;
	const char *given = variable("RUNTIME_DIRECTORY", &length);

	if (given)
		return join(out, out_bytes, "%.*s", length, given);
	if (geteuid() == 0)
		return join(out, out_bytes, "/run/cotenant");
	given = variable("XDG_RUNTIME_DIR", &length);
	if (given)
		return join(out, out_bytes, "%.*s/cotenant", length, given);
	return dirs_state(out, out_bytes);
}

int dirs_make(const char *path, struct err *err)
{
	char part[DIR_PATH_MAX];

	if (!join(part, sizeof(part), "%s", path))
		return err_set(err, -ENAMETOOLONG, "folder %.60s...: the path is too long", path);
	for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return err_set(err, -errno, "folder %s: %s", part, strerror(errno));
		*slash = '/';
	}
	if (mkdir(part, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "folder %s: %s", part, strerror(errno));
	return 0;
}

int dirs_check_private(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_set(err, -errno, "folder %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "%s is not a folder", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(err, -EPERM, "folder %s belongs to user %u, not to us", path,
		               st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
		               "folder %s may be written by others; try: chmod go-w %s", path,
		               path);
	return 0;
}

int dirs_hold(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	/* The descriptor stays open: it is the lock. */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	int code = errno;
	close(fd);
	if (code != EWOULDBLOCK)
		return 0;
	return err_set(err, -EBUSY,
	               "state folder %s: another daemon keeps its history and its conversations there; try: "
	               "another one as STATE_DIRECTORY",
	               path);
}

int dirs_let_in(const char *path, const char *group, struct err *err)
{
	struct stat st;
	const struct group *found = getgrnam(group);

	if (!found)
		return err_set(err, -ENOENT, "socket.group: there is no group '%.100s'", group);
	if (stat(path, &st) < 0 || st.st_uid != geteuid())
		return 0;
	if (chown(path, (uid_t)-1, found->gr_gid) < 0 || chmod(path, 0750) < 0)
		return err_set(err, -errno, "folder %s cannot be given to group '%.100s': %s", path,
		               group, strerror(errno));
	return 0;
}

static bool is_socket(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

bool dirs_find_socket(const char *given, char *out, size_t out_bytes)
{
	char state[DIR_PATH_MAX];
	int length;
	const char *value, *named = getenv("COTENANT_SOCKET");

	if (!given && named && *named)
		given = named;
	if (given)
		return join(out, out_bytes, "%s", given) && is_socket(out);
	value = variable("RUNTIME_DIRECTORY", &length);
	if (value && join(out, out_bytes, "%.*s/%s", length, value, socket_name) && is_socket(out))
		return true;
	value = variable("XDG_RUNTIME_DIR", &length);
	if (value && join(out, out_bytes, "%.*s/cotenant/%s", length, value, socket_name) &&
	    is_socket(out))
		return true;
	if (join(out, out_bytes, "/run/cotenant/%s", socket_name) && is_socket(out))
		return true;
	if (dirs_state(state, sizeof(state)) && join(out, out_bytes, "%s/%s", state, socket_name) &&
	    is_socket(out))
		return true;
	if (dirs_runtime(state, sizeof(state)))
		join(out, out_bytes, "%s/%s", state, socket_name);
	return false;
}
