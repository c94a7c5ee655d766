/*
 * grower - another program whose memory grows.
 *
 *   grower MIB_PER_S [--pages]
 *
 * Reads sizes in MiB on standard input, one a line; grows to each at the given speed, then
 * prints it. Its memory is a file of its own that nobody has mapped, as a driver's buffers
 * are: in no process's RSS, so the OOM killer would not choose it. --pages: ordinary pages.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB (INT64_C(1) << 20)

enum { MIB_MOST = 1 << 16 };

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct memory {
	int fd; /* -1: ordinary pages */
	char *pages;
};

static int take(const struct memory *memory, int64_t from, int64_t to)
{
	if (memory->fd < 0) {
		memset(memory->pages + from, 1, (size_t)(to - from));
		return 0;
	}
	return fallocate(memory->fd, 0, from, to - from);
}

/* A little each few milliseconds; what was lost while others ran is caught up. */
static int grow(const struct memory *memory, int64_t *have, int64_t target, double bytes_per_s)
{
	double began_s = now_s();
	int64_t from = *have;

	while (*have < target) {
		int64_t due = from + (int64_t)((now_s() - began_s) * bytes_per_s) / MIB * MIB;
		due = due < target ? due : target;
		if (due > *have && take(memory, *have, due) < 0)
			return -1;
		*have = due > *have ? due : *have;
		nanosleep(&(struct timespec){ .tv_nsec = 4000000 }, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct memory memory = { .fd = -1 };
	int64_t have = 0;
	char line[64];

	if (argc < 2)
		return 2;
	if (argc > 2 && strcmp(argv[2], "--pages") == 0)
		memory.pages = mmap(NULL, (size_t)MIB_MOST * MIB, PROT_READ | PROT_WRITE,
		                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else
		memory.fd = memfd_create("grower", MFD_CLOEXEC);
	if (memory.pages == MAP_FAILED || (!memory.pages && memory.fd < 0))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		long mib = strtol(line, NULL, 10);
		if (mib < 0 || mib > MIB_MOST)
			return 2;
		if (grow(&memory, &have, mib * MIB, strtod(argv[1], NULL) * (double)MIB) < 0) {
			perror("grower");
			return 1;
		}
		printf("%ld\n", mib);
		fflush(stdout);
	}
	return 0;
}
