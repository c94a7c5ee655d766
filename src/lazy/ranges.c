#include "lazy/ranges.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct range {
	uintptr_t buffer; /* where the engine's buffer begins */
	uintptr_t from, to; /* the whole pages in it */
	bool own;           /* so large that it has a mapping of its own */
};

/* One engine, one registry: the library has nobody to hand it in. */
static struct {
	pthread_mutex_t lock;
	uint32_t count;
	struct range range[RANGES_MAX];
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uintptr_t page_bytes(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* A child may be forked while another thread holds the lock, and that thread is not in it. */
static void before_fork(void)
{
	pthread_mutex_lock(&registry.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&registry.lock);
}

void ranges_begin(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- what the kernel says of a range ---- */

/* /proc/self/maps by lines; one that is longer than `line` is cut, its beginning is what matters. */
struct maps {
	int fd;
	size_t have, at;
	char block[4096];
	char line[256];
};

static bool next_byte(struct maps *maps, char *out)
{
	if (maps->at == maps->have) {
		ssize_t got = read(maps->fd, maps->block, sizeof(maps->block));
		if (got <= 0)
			return false;
		maps->have = (size_t)got;
		maps->at = 0;
	}
	*out = maps->block[maps->at++];
	return true;
}

static bool next_line(struct maps *maps)
{
	size_t length = 0;
	char c;

	while (next_byte(maps, &c)) {
		if (c == '\n') {
			maps->line[length] = '\0';
			return true;
		}
		if (length + 1 < sizeof(maps->line))
			maps->line[length++] = c;
	}
	return false;
}

static uintptr_t take_hex(const char **text)
{
	uintptr_t value = 0;

	for (;; (*text)++) {
		char c = **text;
		uintptr_t digit;
		if (c >= '0' && c <= '9')
			digit = (uintptr_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (uintptr_t)(c - 'a' + 10);
		else
			return value;
		value = value << 4 | digit;
	}
}

/* "7f12a000-7f13a000 rw-p 00000000 00:00 0"; other lines of smaps begin with a word and a colon. */
static bool is_mapping(const char *line, uintptr_t *from, uintptr_t *to, bool *anonymous)
{
	*from = take_hex(&line);
	if (*line++ != '-')
		return false;
	*to = take_hex(&line);
	*anonymous = strncmp(line, " rw-p 00000000 00:00 0", 22) == 0 &&
	             (line[22] == '\0' || line[22] == ' ');
	return *to > *from;
}

/* Of a mapping's last line in smaps: our mark is there. */
static bool is_marked(const char *line)
{
	return strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd");
}

/* Private, anonymous, writable, without a gap; and, where asked for, with our mark all over. */
static bool is_private(uintptr_t from, uintptr_t to, bool marked)
{
	const char *list = marked ? "/proc/self/smaps" : "/proc/self/maps";
	struct maps maps = { .fd = open(list, O_RDONLY | O_CLOEXEC) };
	uintptr_t start = 0, end = 0, known = from;
	bool anonymous = false;

	if (maps.fd < 0)
		return false;
	while (known < to && next_line(&maps)) {
		bool begins = is_mapping(maps.line, &start, &end, &anonymous);
		if (!begins && (!marked || !is_marked(maps.line)))
			continue;
		if (end <= from || start >= to)
			continue;
		if (!anonymous || start > known)
			break;
		if (!marked || !begins)
			known = end;
	}
	close(maps.fd);
	return known >= to;
}

/*
 * Bits of a page in /proc/self/pagemap: present and mapped by nobody else, or
 * swapped out. The kernel's shared page of zeros, which reading brings, is neither.
 */
static uint64_t resident_pages(int fd, uintptr_t from, uintptr_t to)
{
	const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;
	const uint64_t exclusive = UINT64_C(1) << 56;
	uint64_t block[1024];
	uint64_t page = from / page_bytes(), end = to / page_bytes();
	uint64_t count = 0;

	while (page < end) {
		uint64_t wanted = end - page < 1024 ? end - page : 1024;
		ssize_t got = pread(fd, block, wanted * 8, (off_t)(page * 8));
		if (got < 8)
			return count + (end - page); /* cannot tell: as if all were there */
		uint64_t pages = (uint64_t)got / 8;
		for (uint64_t i = 0; i < pages; i++)
			count += block[i] & swapped || (block[i] & present && block[i] & exclusive);
		page += pages;
	}
	return count;
}

/* ---- the registry ---- */

static void note(const struct range *range)
{
	uint32_t at = 0;

	pthread_mutex_lock(&registry.lock);
	while (at < registry.count && registry.range[at].buffer != range->buffer)
		at++;
	if (at < RANGES_MAX) {
		registry.range[at] = *range;
		registry.count += at == registry.count;
	}
	pthread_mutex_unlock(&registry.lock);
}

bool ranges_take(void *at, size_t bytes)
{
	uintptr_t page = page_bytes(), buffer = (uintptr_t)at;
	struct range range = {
		.buffer = buffer,
		.from = (buffer + page - 1) & ~(page - 1),
		.to = (buffer + bytes) & ~(page - 1),
	};

	if (bytes < RANGE_LEAST_BYTES || !is_private(range.from, range.to, false))
		return false;
	size_t length = range.to - range.from;
	range.own = length > RANGE_OWN_BYTES;
	madvise((void *)range.from, length, MADV_NOHUGEPAGE);
	if (madvise((void *)range.from, length, MADV_DONTDUMP) < 0 ||
	    madvise((void *)range.from, length, MADV_DONTNEED) < 0)
		return false;
	memset(at, 0, range.from - buffer);
	memset((void *)range.to, 0, buffer + bytes - range.to);
	note(&range);
	return true;
}

void ranges_forget(const void *at)
{
	pthread_mutex_lock(&registry.lock);
	for (uint32_t i = 0; i < registry.count; i++) {
		if (registry.range[i].buffer != (uintptr_t)at)
			continue;
		registry.range[i] = registry.range[--registry.count];
		break;
	}
	pthread_mutex_unlock(&registry.lock);
}

bool ranges_discard(void)
{
	bool all = true;

	/* The lock is what keeps a buffer from being freed meanwhile. */
	pthread_mutex_lock(&registry.lock);
	for (uint32_t i = 0; i < registry.count;) {
		const struct range *range = &registry.range[i];
		if (!range->own) {
			i++;
			continue;
		}
		if (!is_private(range->from, range->to, true)) {
			registry.range[i] = registry.range[--registry.count];
			all = false;
			continue;
		}
		if (madvise((void *)range->from, range->to - range->from, MADV_DONTNEED) < 0)
			all = false;
		i++;
	}
	pthread_mutex_unlock(&registry.lock);
	return all;
}

struct ranges_use ranges_use(void)
{
	struct ranges_use use = { 0 };
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	pthread_mutex_lock(&registry.lock);
	use.count = registry.count;
	for (uint32_t i = 0; i < registry.count; i++) {
		const struct range *range = &registry.range[i];
		use.reserved_bytes += range->to - range->from;
		use.resident_bytes += resident_pages(fd, range->from, range->to) * page_bytes();
	}
	pthread_mutex_unlock(&registry.lock);
	if (fd >= 0)
		close(fd);
	return use;
}
