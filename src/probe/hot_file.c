#include "probe/hot_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/alloc.h"
#include "probe/lines.h"

static void add_file(struct hot_files *files, const char *path)
{
	uint64_t key = str_hash(str_from(path));

	for (uint32_t i = 0; i < files->count; i++)
		if (files->file[i].key == key)
			return;
	files->file[files->count] = (struct hot_file){ .path = path, .key = key, .first = files->count };
	files->count++;
}

void hot_files_open(struct hot_files *files, const struct sample *sample)
{
	memset(files, 0, sizeof *files);
	files->file = xmalloc(HOT_FILES_MOST * sizeof *files->file);
	for (uint32_t i = 0; i < sample->owners; i++) {
		for (uint32_t j = 0; j < SAMPLE_FILES_MAX && sample->owner[i].files[j]; j++) {
			files->wanted[i] = true;
			add_file(files, sample->owner[i].files[j]);
		}
	}
}

static void identify(struct hot_file *file, const char *root)
{
	struct stat stat_of;

	if (root[0] != '\0' || stat(file->path, &stat_of) < 0)
		return;
	file->identified = true;
	file->device = stat_of.st_dev;
	file->inode = stat_of.st_ino;
}

static bool is_same(const struct hot_file *a, const struct hot_file *b)
{
	return a->identified && b->identified && a->device == b->device && a->inode == b->inode;
}

/* Once: a file has many names. */
static void compare(struct hot_files *files, const char *root)
{
	for (uint32_t i = 0; i < files->count && !files->compared; i++) {
		identify(&files->file[i], root);
		for (uint32_t j = 0; j < i && files->file[i].first == i; j++)
			if (is_same(&files->file[i], &files->file[j]))
				files->file[i].first = j;
	}
	files->compared = true;
}

/* Of an address space; sums of all lines of a file cannot overflow. */
#define LENGTH_MOST (UINT64_C(1) << 48)

/* One line of /proc/PID/maps: "start-end rights offset major:minor inode   path". */
struct mapping {
	uint64_t length;
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
	uint64_t start, end, offset, major, minor;
	int64_t inode;
	struct str rest;

	if (!take_hex(&line, '-', &start) || !take_hex(&line, ' ', &end))
		return false;
	str_cut(line, ' ', &rest); /* rights */
	if (!rest.data || !take_hex(&rest, ' ', &offset) || !take_hex(&rest, ':', &major) ||
	    !take_hex(&rest, ' ', &minor) || !lines_number(rest, &inode, &rest))
		return false;
	if (end <= start || end - start > LENGTH_MOST)
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
	if (!file->identified)
		return same_path;
	return mapping->inode == file->inode && (same_path || mapping->device == file->device);
}

/* What is resident of all the files, by the share each has of what is mapped. */
static void share_out(struct hot_files *files, uint32_t owner, int64_t resident_bytes)
{
	double mapped = 0;
	for (uint32_t i = 0; i < files->count; i++)
		mapped += (double)files->file[i].mapped_bytes;
	double part = mapped > (double)resident_bytes ? (double)resident_bytes / mapped : 1;
	for (uint32_t i = 0; i < files->count; i++) {
		struct hot_file *file = &files->file[i];
		if (file->mapped_bytes == 0)
			continue;
		int64_t bytes = (int64_t)(part * (double)file->mapped_bytes);
		if (bytes > file->resident_bytes)
			file->resident_bytes = bytes;
		if (!file->owned)
			file->owner = owner;
		file->owned = true;
		file->mapped_bytes = 0;
	}
}

/* What of the files is mapped now: noted with each. */
static struct hot_maps maps_of(const struct hot_files *files)
{
	struct hot_maps maps = { MAPS_NONE, 0, 0 };

	for (uint32_t i = 0; i < files->count; i++) {
		const struct hot_file *file = &files->file[i];
		if (file->mapped_bytes == 0)
			continue;
		if (maps.kind != MAPS_NONE)
			return (struct hot_maps){ MAPS_MANY, 0, 0 };
		maps = (struct hot_maps){ MAPS_ONE, file->key, file->mapped_bytes };
	}
	return maps;
}

struct hot_maps hot_files_look(struct hot_files *files, const char *root, pid_t pid, uint32_t owner,
                               int64_t resident_bytes)
{
	char name[64];
	struct lines lines;
	struct str line;
	struct mapping mapping;

	snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
	if (!files->wanted[owner] || lines_open(&lines, root, name) < 0)
		return (struct hot_maps){ MAPS_NONE, 0, 0 };
	compare(files, root);
	while (lines_next(&lines, &line)) {
		if (!parse_mapping(line, &mapping) || mapping.inode == 0)
			continue;
		for (uint32_t i = 0; i < files->count; i++)
			if (files->file[i].first == i && is_mapping_of(&mapping, &files->file[i]))
				files->file[i].mapped_bytes += mapping.length;
	}
	lines_close(&lines);
	struct hot_maps maps = maps_of(files);
	share_out(files, owner, resident_bytes);
	return maps;
}

bool hot_files_recall(struct hot_files *files, const struct hot_maps *maps, uint32_t owner, int64_t resident_bytes)
{
	if (maps->kind != MAPS_ONE)
		return maps->kind == MAPS_NONE;
	for (uint32_t i = 0; i < files->count; i++) {
		if (files->file[i].key != maps->file)
			continue;
		files->file[files->file[i].first].mapped_bytes = maps->mapped_bytes;
		share_out(files, owner, resident_bytes);
		return true;
	}
	return false; /* whose name it had is no longer asked for */
}

void hot_files_close(struct hot_files *files, struct sample *sample)
{
	for (uint32_t i = 0; i < files->count; i++) {
		const struct hot_file *file = &files->file[i];
		if (!file->owned)
			continue;
		struct sample_owner *owner = &sample->owner[file->owner];
		int64_t counted = file->resident_bytes, room = owner->hot_most_bytes - owner->hot_file_bytes;
		if (owner->hot_most_bytes > 0 && counted > room)
			counted = room;
		owner->hot_file_bytes += counted;
		owner->mapped_bytes += file->resident_bytes;
		sample->hot_file_bytes += counted;
	}
	free(files->file);
	files->file = NULL;
	files->count = 0;
}
