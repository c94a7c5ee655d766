/*
 * shifted_clock - preloaded, it lets the machine seem to have slept: CLOCK_BOOTTIME is ahead
 * by as many seconds as the file named in SHIFTED_CLOCK says.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *out)
{
	char text[32] = { 0 };
	const char *path = getenv("SHIFTED_CLOCK");
	int result = (int)syscall(SYS_clock_gettime, clock, out);
	int fd = result == 0 && clock == CLOCK_BOOTTIME && path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return result;
	if (read(fd, text, sizeof(text) - 1) > 0)
		out->tv_sec += strtol(text, NULL, 10);
	close(fd);
	return result;
}
