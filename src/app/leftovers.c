/*
 * A process is held by its pidfd while it is looked at, so that the signal can
 * reach nobody else: a number may be used again, what the descriptor means may not.
 */
#include "app/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "io/keeper_proc.h"

enum { ID_DIGITS = 16, ROUNDS_MAX = 3, END_MS = 1000 };

static bool read_id(const char *path, char out[ID_DIGITS + 1])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return false;
	ssize_t length = read(fd, out, ID_DIGITS);
	close(fd);
	out[length > 0 ? length : 0] = '\0';
	return length == ID_DIGITS && strspn(out, "0123456789abcdef") == ID_DIGITS;
}

static bool make_id(const char *path, char out[ID_DIGITS + 1])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return false;
	snprintf(out, ID_DIGITS + 1, "%016" PRIx64, random);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	bool good = write(fd, out, ID_DIGITS) == ID_DIGITS;
	return close(fd) == 0 && good;
}

bool leftovers_mark(const char *state_dir, const char *runtime_dir, char out[LEFTOVERS_MARK])
{
	char path[LEFTOVERS_MARK], id[ID_DIGITS + 1];

	out[0] = '\0';
	if ((size_t)snprintf(path, sizeof(path), "%s/owner", state_dir) >= sizeof(path) ||
	    (!read_id(path, id) && !make_id(path, id)))
		return false;
	if ((size_t)snprintf(out, LEFTOVERS_MARK, "COTENANT_OWNER=%s:%s", id, runtime_dir) < LEFTOVERS_MARK)
		return true;
	out[0] = '\0';
	return false;
}

static void read_command(pid_t pid, char *out, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, out, bytes - 1);
	if (fd >= 0)
		close(fd);
	length = length > 0 ? length : 0;
	out[length] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

static bool is_of_our_user(pid_t pid)
{
	struct stat status;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &status) == 0 && status.st_uid == geteuid();
}

static bool end_marked(pid_t pid, const char *mark, void (*told)(pid_t pid, const char *command))
{
	char command[32];
	bool ended = false;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return false;
	/* What is read now is of the process that the descriptor means, or that one is gone and nobody is hit. */
	if (is_of_our_user(pid) && keeper_environ_has(pid, mark)) {
		read_command(pid, command, sizeof(command));
		struct pollfd end = { .fd = fd, .events = POLLIN };
		ended = syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
		if (ended)
			poll(&end, 1, END_MS);
	}
	close(fd);
	if (ended)
		told(pid, command);
	return ended;
}

static uint32_t end_each(const char *mark, void (*told)(pid_t pid, const char *command))
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	uint32_t count = 0;

	while (dir && (entry = readdir(dir))) {
		uint64_t pid;
		if (str_to_u64(str_from(entry->d_name), &pid) && pid > 1 && (pid_t)pid != getpid())
			count += end_marked((pid_t)pid, mark, told);
	}
	if (dir)
		closedir(dir);
	return count;
}

uint32_t leftovers_end(const char *mark, void (*told)(pid_t pid, const char *command))
{
	uint32_t all = 0, found = 1;

	/* One may have had a child while we looked. */
	for (int round = 0; *mark && found && round < ROUNDS_MAX; round++)
		all += found = end_each(mark, told);
	return all;
}
