/*
 * blocked_file - preloaded, it lets one file give no answer: while the file named in BLOCKED_BY is there, who reads
 * the one named in BLOCKED_FILE waits.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { LOOK_US = 20000 };

static int is_blocked(int fd)
{
	const char *file = getenv("BLOCKED_FILE"), *by = getenv("BLOCKED_BY");
	char link[32], target[256];

	if (!file || !by)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return 0;
	target[length] = '\0';
	return strcmp(target, file) == 0 && access(by, F_OK) == 0;
}

static void wait_for(int fd)
{
	while (is_blocked(fd))
		usleep(LOOK_US);
}

ssize_t read(int fd, void *out, size_t bytes)
{
	static ssize_t (*next)(int, void *, size_t);

	if (!next)
		memcpy(&next, &(void *){ dlsym(RTLD_NEXT, "read") }, sizeof(void *));
	wait_for(fd);
	return next(fd, out, bytes);
}

/* As the daemon is built, this is pread64. */
ssize_t pread(int fd, void *out, size_t bytes, off_t at)
{
	static ssize_t (*next)(int, void *, size_t, off_t);

	if (!next)
		memcpy(&next, &(void *){ dlsym(RTLD_NEXT, "pread64") }, sizeof(void *));
	wait_for(fd);
	return next(fd, out, bytes, at);
}
