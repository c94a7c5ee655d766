#include "app/remedy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "probe/cgroup.h"
#include "probe/lines.h"
#include "probe/machine.h"
#include "probe/mapping.h"
#include "probe/meminfo.h"
#include "probe/zones.h"

#define GIB (INT64_C(1) << 30)

static const int64_t floor_most = 8 * GIB; /* MemFree during a load on a machine of 128 GiB */
static const int64_t beside = 2 * GIB;     /* what loads take beside their claim while they load */

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

const char *remedy_step_name(enum remedy_step step)
{
	static const char *const names[REMEDY_STEPS] = { "files", "maps", "group", "cache", "compact" };

	return step < REMEDY_STEPS ? names[step] : "none";
}

/* ---- what is needed ---- */

/* A sixteenth of the machine: 8 GiB of 128. */
static int64_t least_free(const struct remedy_memory *m)
{
	return smaller(floor_most, m->total / 16);
}

static bool has_free(const struct remedy_facts *facts)
{
	const struct remedy_memory *m = &facts->now;

	return !facts->nvidia_unified ||
	       m->free >= smaller(larger(facts->coming_bytes + beside, least_free(m)), m->available);
}

static bool has_blocks(const struct remedy_facts *facts)
{
	const struct remedy_memory *m = &facts->now;

	if (m->large < 0)
		return true;
	if (facts->nvidia_unified)
		return m->large >= smaller(facts->coming_bytes, floor_most) / 2;
	/* Others fall back to small pages: only a machine that has next to no block is slow. */
	return m->large >= GIB || m->available < facts->coming_bytes + 4 * GIB;
}

/* A cache that is small already has nothing to give. */
static bool is_cache_large(const struct remedy_memory *m)
{
	return m->cached > least_free(m) / 2 || m->kept > GIB;
}

enum remedy_step remedy_next(const struct remedy_facts *facts, enum remedy_step from)
{
	bool blocks = has_blocks(facts);

	if (facts->coming_bytes <= 0 || (blocks && has_free(facts)))
		return REMEDY_STEPS;
	if (from <= REMEDY_CACHE && is_cache_large(&facts->now))
		return from;
	return blocks || facts->amd_serves || from > REMEDY_COMPACT ? REMEDY_STEPS : REMEDY_COMPACT;
}

/* ---- the steps ---- */

static void miss(struct remedy *remedy, const char *what, int code)
{
	size_t at = strlen(remedy->missing);

	snprintf(remedy->missing + at, sizeof(remedy->missing) - at, "%s%s: %s", at ? ", " : "", what, strerror(-code));
}

bool remedy_write(const char *root, const char *name, const char *text, char *missing, uint32_t missing_bytes)
{
	char path[PATH_MAX];
	size_t at = strlen(missing), length = strlen(text);

	snprintf(path, sizeof(path), "%s%s", root, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	bool done = fd >= 0 && write(fd, text, length) == (ssize_t)length;
	int error = errno;

	if (fd >= 0)
		close(fd);
	if (!done)
		snprintf(missing + at, missing_bytes - at, "%s%s: %s", at ? ", " : "", name, strerror(error));
	return done;
}

static bool drop_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	bool done = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
	close(fd);
	return done;
}

static bool drop_files(struct remedy *remedy)
{
	bool any = false;

	for (uint32_t i = 0; i < remedy->files; i++)
		any |= drop_file(remedy->file[i]);
	return any;
}

/* The kernel takes at most so much in one call, a whole number of pages. */
static const uint64_t piece_bytes = 0x7ffff000 / 65536 * 65536;

static int page_out_range(int pidfd, uint64_t from, uint64_t to)
{
	for (; from < to; from += piece_bytes) {
		struct iovec range = { (void *)(uintptr_t)from, (size_t)(to - from < piece_bytes ? to - from : piece_bytes) };
		if (syscall(SYS_process_madvise, pidfd, &range, 1UL, MADV_PAGEOUT, 0U) < 0)
			return -errno;
	}
	return 0;
}

static int page_out(const struct remedy_map *map)
{
	char name[64];
	struct stat file;
	struct lines lines;
	struct str line;
	struct mapping mapping;
	int code = 0;

	if (stat(map->path, &file) < 0)
		return -errno;
	int pidfd = (int)syscall(SYS_pidfd_open, map->pid, 0);
	if (pidfd < 0)
		return -errno;
	/* Never below another root: a process of this machine is meant. */
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)map->pid);
	int opened = lines_open(&lines, "", name);
	while (opened == 0 && code == 0 && lines_next(&lines, &line))
		if (mapping_parse(line, &mapping) && mapping_is_of(&mapping, file.st_dev, file.st_ino, map->path))
			code = page_out_range(pidfd, mapping.from, mapping.to);
	if (opened == 0)
		lines_close(&lines);
	close(pidfd);
	return opened < 0 ? opened : code;
}

/* What is no longer mapped then can be dropped like any other file. */
static bool drop_maps(struct remedy *remedy)
{
	bool any = false;
	int refused = 0;

	for (uint32_t i = 0; i < remedy->maps; i++) {
		int code = page_out(&remedy->map[i]);
		any |= code == 0;
		refused = code == -EPERM || code == -EACCES ? code : refused;
		if (code == 0)
			drop_file(remedy->map[i].path);
	}
	if (refused < 0)
		miss(remedy, "what engines map", refused);
	return any;
}

static bool reclaim_group(struct remedy *remedy)
{
	struct cgroup_mounts mounts;
	char folder[PATH_MAX], name[PATH_MAX + 16], text[64], unsaid[256] = "";

	cgroup_find_mounts(remedy->root, &mounts);
	if (cgroup_find_room(remedy->root, &mounts, folder))
		return false;
	/* Nothing may be swapped for it: that would be engines' own memory. Kernels that cannot promise it refuse. */
	snprintf(name, sizeof(name), "%s/memory.reclaim", folder);
	snprintf(text, sizeof(text), "%" PRId64 " swappiness=0", larger(remedy->facts.now.cached, 1));
	return remedy_write("", name, text, unsaid, sizeof(unsaid));
}

static bool drop_cache(struct remedy *remedy)
{
	/* 1 = page cache, 2 = what is kept in slabs and by drivers. */
	const char *what = remedy->facts.now.kept > GIB ? "3" : "1";

	return remedy_write(remedy->root, "/proc/sys/vm/drop_caches", what, remedy->missing, sizeof(remedy->missing));
}

static bool compact(struct remedy *remedy)
{
	return remedy_write(remedy->root, "/proc/sys/vm/compact_memory", "1", remedy->missing, sizeof(remedy->missing));
}

struct remedy_memory remedy_memory_of(const struct meminfo *m, int64_t large_bytes)
{
	return (struct remedy_memory){
		.total = m->total,
		.free = m->free,
		.available = m->available,
		.cached = meminfo_lru_file(m),
		.kept = m->gpu_reclaim > 0 ? m->gpu_reclaim : 0,
		.large = large_bytes,
	};
}

static void look(struct remedy *remedy)
{
	struct meminfo m;
	struct err err;

	if (meminfo_read(NULL, remedy->root, &m, &err) < 0)
		return; /* what was read before still stands */
	remedy->facts.now =
	        remedy_memory_of(&m, zones_free_2m_bytes(NULL, remedy->root, machine_page_bytes(remedy->root), NULL, NULL));
}

void remedy_run(struct remedy *remedy)
{
	static bool (*const take[REMEDY_STEPS])(struct remedy *) = { drop_files, drop_maps, reclaim_group, drop_cache,
		                                                     compact };
	enum remedy_step step = REMEDY_FILES;

	remedy->taken = 0;
	remedy->missing[0] = '\0';
	look(remedy);
	while ((step = remedy_next(&remedy->facts, step)) != REMEDY_STEPS) {
		if (take[step](remedy))
			remedy->taken |= 1u << step;
		look(remedy);
		step++;
	}
}
