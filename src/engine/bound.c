#include "engine/bound.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64 };

void bounds_remove_stale(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	long pid, number;
	int end;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		end = 0;
		if (sscanf(entry->d_name, "cotenant-%ld-%ld%n", &pid, &number, &end) < 2 || entry->d_name[end] != '\0')
			continue;
		if (pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

void bounds_find(struct bounds *bounds, const struct cgroup_mounts *mounts)
{
	bounds->mounts = *mounts;
	bounds->refused = cgroup_find_room("", mounts, bounds->folder);
	if (!bounds->refused)
		bounds_remove_stale(bounds->folder);
}

static int write_text(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int code = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return code;
}

int bound_raise(const char *group, int64_t high_bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, high_bytes);
	return write_text(group, "memory.high", text);
}

int bound_make(const struct bounds *bounds, uint64_t number, int64_t high_bytes, char out[BOUND_PATH_MAX],
               struct err *err)
{
	int length = snprintf(out, BOUND_PATH_MAX, "%s/cotenant-%d-%" PRIu64, bounds->folder, (int)getpid(), number);

	if (length < 0 || length >= BOUND_PATH_MAX) {
		out[0] = '\0';
		return err_set(err, -ENAMETOOLONG, "the path of its control group is too long");
	}
	/* Does nothing where it is so already. */
	int code = write_text(bounds->folder, "cgroup.subtree_control", "+memory");
	if (code == 0 && mkdir(out, 0755) < 0)
		code = -errno;
	if (code == 0) {
		code = bound_raise(out, high_bytes);
		if (code < 0)
			rmdir(out);
	}
	if (code == 0)
		return 0;
	err_set(err, code, "%s: %s", out, strerror(-code));
	out[0] = '\0';
	return code;
}

bool bound_holds(const struct bounds *bounds, const char *group, pid_t pid)
{
	pid_t members[MEMBERS_MAX];
	const char *below = group + strlen(bounds->mounts.v2);
	uint32_t count = cgroup_read_processes("", &bounds->mounts, below, members, MEMBERS_MAX);

	for (uint32_t i = 0; i < count; i++)
		if (members[i] == pid)
			return true;
	return false;
}

void bound_remove(const char *group)
{
	rmdir(group);
}
