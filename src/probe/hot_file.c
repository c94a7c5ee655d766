#include "probe/hot_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "probe/lines.h"
#include "probe/mapping.h"
#include "probe/reading.h"

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

	reading_note(file->path);
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

/* In a recording there is no file to compare with. */
static bool is_mapping_of(const struct mapping *mapping, const struct hot_file *file)
{
	if (!file->identified)
		return str_is(mapping->path, file->path);
	return mapping_is_of(mapping, file->device, file->inode, file->path);
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
		if (!mapping_parse(line, &mapping) || mapping.inode == 0)
			continue;
		for (uint32_t i = 0; i < files->count; i++)
			if (files->file[i].first == i && is_mapping_of(&mapping, &files->file[i]))
				files->file[i].mapped_bytes += (mapping.to - mapping.from);
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
