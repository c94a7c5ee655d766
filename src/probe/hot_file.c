#include "probe/hot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/lines.h"
#include "probe/machine.h"

/* cachestat(2), Linux 6.5: newer than the C library's headers on Debian 12; one number on all machines. */
enum { CACHESTAT = 451 };

struct cache_range {
	uint64_t start;
	uint64_t length;
};

struct cache_counts {
	uint64_t cached_pages;
	uint64_t dirty_pages;
	uint64_t writeback_pages;
	uint64_t evicted_pages;
	uint64_t recently_evicted_pages;
};

static bool is_known(const struct hot_files *files, const struct hot_file *file)
{
	for (uint32_t i = 0; i < files->count; i++) {
		const struct hot_file *other = &files->file[i];
		bool same_inode = file->fd >= 0 && other->fd >= 0 && file->device == other->device &&
		                  file->inode == other->inode;
		if (same_inode || strcmp(file->path, other->path) == 0)
			return true;
	}
	return false;
}

static void add_file(struct hot_files *files, const char *path)
{
	struct stat stat;
	struct hot_file *file = &files->file[files->count];

	*file = (struct hot_file){ .path = path, .fd = -1 };
	file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (file->fd >= 0 && (fstat(file->fd, &stat) < 0 || !S_ISREG(stat.st_mode))) {
		close(file->fd);
		file->fd = -1;
	}
	if (file->fd >= 0) {
		file->device = stat.st_dev;
		file->inode = stat.st_ino;
	}
	if (is_known(files, file)) {
		if (file->fd >= 0)
			close(file->fd);
		return;
	}
	files->count++;
}

void hot_files_open(struct hot_files *files, const struct sample *sample)
{
	memset(files, 0, sizeof *files);
	files->file = xcalloc(HOT_FILES_MOST, sizeof *files->file);
	for (uint32_t i = 0; i < sample->owners; i++) {
		for (uint32_t j = 0; j < SAMPLE_FILES_MAX && sample->owner[i].files[j]; j++) {
			files->wanted[i] = true;
			add_file(files, sample->owner[i].files[j]);
		}
	}
}

/* One line of /proc/PID/maps: "start-end rights offset major:minor inode   path". */
struct mapping {
	uint64_t length;
	uint64_t offset;
	uint64_t device;
	uint64_t inode;
	struct str path;
};

static bool take_hex(struct str *text, char end, uint64_t *out)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < text->length && i < 17; i++) {
		char c = text->data[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0)
			break;
		value = value << 4 | (uint64_t)digit;
	}
	if (i == 0 || i > 16 || i >= text->length || text->data[i] != end)
		return false;
	*text = (struct str){ text->data + i + 1, text->length - i - 1 };
	*out = value;
	return true;
}

static bool parse_mapping(struct str line, struct mapping *out)
{
	uint64_t start, end, major, minor;
	int64_t inode;
	struct str rest;

	if (!take_hex(&line, '-', &start) || !take_hex(&line, ' ', &end))
		return false;
	str_cut(line, ' ', &rest); /* rights */
	if (!rest.data || !take_hex(&rest, ' ', &out->offset) || !take_hex(&rest, ':', &major) ||
	    !take_hex(&rest, ' ', &minor) || !lines_number(rest, &inode, &rest))
		return false;
	if (end <= start || out->offset > INT64_MAX || end - start > INT64_MAX)
		return false;
	out->length = end - start;
	out->device = makedev((unsigned)major, (unsigned)minor);
	out->inode = (uint64_t)inode;
	out->path = str_trim(rest);
	return true;
}

/* By inode; where that cannot be told (a recording, a file system with devices of its own) by path. */
static bool is_mapping_of(const struct mapping *mapping, const struct hot_file *file)
{
	bool same_path = str_is(mapping->path, file->path);
	if (file->fd < 0)
		return same_path;
	return mapping->inode == file->inode && (same_path || mapping->device == file->device);
}

static void note_mapping(struct hot_file *file, const struct mapping *mapping, uint32_t owner,
                         int64_t resident_bytes)
{
	uint64_t end = mapping->offset + mapping->length;

	if (file->end == file->start) {
		file->start = mapping->offset;
		file->end = end;
		file->owner = owner;
	}
	if (mapping->offset < file->start)
		file->start = mapping->offset;
	if (end > file->end)
		file->end = end;
	if (resident_bytes > file->resident_most)
		file->resident_most = resident_bytes;
}

void hot_files_look(struct hot_files *files, const char *root, pid_t pid, uint32_t owner,
                    int64_t resident_bytes)
{
	char name[64];
	struct lines lines;
	struct str line;
	struct mapping mapping;

	snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
	if (!files->wanted[owner] || lines_open(&lines, root, name) < 0)
		return;
	while (lines_next(&lines, &line)) {
		if (!parse_mapping(line, &mapping) || mapping.inode == 0)
			continue;
		for (uint32_t i = 0; i < files->count; i++)
			if (is_mapping_of(&mapping, &files->file[i]))
				note_mapping(&files->file[i], &mapping, owner, resident_bytes);
	}
	lines_close(&lines);
}

/* Cached bytes of the mapped part; where the kernel does not tell, at most what was resident. */
static int64_t resident_bytes(const struct hot_file *file, const char *root)
{
	uint64_t length = file->end - file->start;
	struct cache_range range = { file->start, length };
	struct cache_counts counts = { 0 };

	if (root[0] == '\0' && file->fd >= 0 &&
	    syscall(CACHESTAT, file->fd, &range, &counts, 0) == 0)
		return (int64_t)counts.cached_pages * machine_page_bytes(root);
	return (uint64_t)file->resident_most < length ? file->resident_most : (int64_t)length;
}

void hot_files_close(struct hot_files *files, const char *root, struct sample *sample)
{
	for (uint32_t i = 0; i < files->count; i++) {
		struct hot_file *file = &files->file[i];
		if (file->end > file->start) {
			int64_t bytes = resident_bytes(file, root);
			sample->owner[file->owner].hot_file_bytes += bytes;
			sample->hot_file_bytes += bytes;
		}
		if (file->fd >= 0)
			close(file->fd);
	}
	free(files->file);
	files->file = NULL;
	files->count = 0;
}
