#include "probe/page_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* As the kernel lays them out (linux/mman.h of 6.5). */
struct range {
	uint64_t offset, length;
};
struct counts {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

enum { WINDOW = 1 << 26 };

static int64_t by_cachestat(int fd, int64_t offset, int64_t length, int64_t page)
{
	struct range range = { (uint64_t)offset, (uint64_t)length };
	struct counts counts;

	if (syscall(SYS_cachestat, fd, &range, &counts, 0) < 0)
		return -errno;
	return (int64_t)counts.cached * page;
}

static int64_t window_by_mincore(int fd, int64_t offset, size_t length, int64_t page, unsigned char *pages)
{
	void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
	int64_t cached = 0;

	if (map == MAP_FAILED)
		return -errno;
	int code = mincore(map, length, pages) < 0 ? -errno : 0;
	munmap(map, length);
	if (code < 0)
		return code;
	for (size_t i = 0; i < (length + (size_t)page - 1) / (size_t)page; i++)
		cached += pages[i] & 1 ? page : 0;
	return cached;
}

static int64_t by_mincore(int fd, int64_t offset, int64_t length, int64_t page)
{
	unsigned char *pages = xmalloc(WINDOW / (size_t)page + 1);
	int64_t cached = 0, end = offset + length;

	offset -= offset % page;
	while (offset < end && cached >= 0) {
		int64_t part = end - offset < WINDOW ? end - offset : WINDOW;
		int64_t found = window_by_mincore(fd, offset, (size_t)part, page, pages);
		cached = found < 0 ? found : cached + found;
		offset += part;
	}
	free(pages);
	return cached;
}

int64_t page_cache_bytes(int fd, int64_t offset, int64_t length)
{
	int64_t page = sysconf(_SC_PAGESIZE);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (offset >= st.st_size)
		return 0;
	if (length > st.st_size - offset)
		length = st.st_size - offset;
	int64_t cached = by_cachestat(fd, offset, length, page);
	if (cached < 0)
		cached = by_mincore(fd, offset, length, page);
	return cached > length ? length : cached; /* the last page is not full */
}
