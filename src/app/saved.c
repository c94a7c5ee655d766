#include "app/saved.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void saved_name(struct saved_conversation *entry)
{
	snprintf(entry->file, sizeof(entry->file), "%016" PRIx64 "-%016" PRIx64 "-%" PRId64 ".kv", entry->key,
	         entry->conversation, entry->tokens);
}

static void remove_file(const struct saved *saved, const struct saved_conversation *entry)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", saved->folder, entry->file);
	unlink(path);
}

static void remove_at(struct saved *saved, size_t at, bool with_file)
{
	if (with_file)
		remove_file(saved, &saved->list[at]);
	saved->count--;
	memmove(&saved->list[at], &saved->list[at + 1], (saved->count - at) * sizeof(saved->list[0]));
}

static size_t find(const struct saved *saved, uint32_t model, uint64_t conversation)
{
	size_t at = 0;

	while (at < saved->count &&
	       (saved->list[at].model != model || saved->list[at].conversation != conversation))
		at++;
	return at;
}

/* Of its model those before `end`, newest first, that fit beside `sum`; the others go. */
static void keep_newest(struct saved *saved, uint32_t model, size_t end, int64_t sum, int64_t most_bytes)
{
	for (size_t i = end; i-- > 0;) {
		if (saved->list[i].model != model)
			continue;
		sum += saved->list[i].bytes;
		if (sum > most_bytes)
			remove_at(saved, i, true);
	}
}

void saved_put(struct saved *saved, const struct saved_conversation *entry, int64_t most_bytes)
{
	size_t same = find(saved, entry->model, entry->conversation);

	if (same < saved->count)
		remove_at(saved, same, strcmp(saved->list[same].file, entry->file) != 0); /* else it was written over */
	if (saved->count == SAVED_MAX)
		remove_at(saved, 0, true);
	saved->list[saved->count++] = *entry;
	keep_newest(saved, entry->model, saved->count - 1, entry->bytes, most_bytes);
}

void saved_spoilt(struct saved *saved, const struct saved_conversation *entry)
{
	size_t at = 0;

	while (at < saved->count && strcmp(saved->list[at].file, entry->file) != 0)
		at++;
	if (at == saved->count)
		remove_file(saved, entry);
	else
		remove_at(saved, at, true);
}

void saved_trim(struct saved *saved, uint32_t model, int64_t most_bytes)
{
	keep_newest(saved, model, saved->count, 0, most_bytes);
}

const struct saved_conversation *saved_find(const struct saved *saved, uint32_t model, uint64_t conversation)
{
	size_t at = find(saved, model, conversation);

	return at < saved->count ? &saved->list[at] : NULL;
}

void saved_drop(struct saved *saved, uint32_t model, uint64_t conversation)
{
	size_t at = find(saved, model, conversation);

	if (at < saved->count)
		remove_at(saved, at, true);
}

/* ---- over lives of the daemon ---- */

/* False: not a file of ours, or of no model that there is now. */
static bool read_name(const char *name, const struct saved_share *models, uint32_t count,
                      struct saved_conversation *out)
{
	char again[SAVED_NAME_BYTES];

	*out = (struct saved_conversation){ 0 };
	if (sscanf(name, "%16" SCNx64 "-%16" SCNx64 "-%" SCNd64, &out->key, &out->conversation, &out->tokens) != 3)
		return false;
	saved_name(out);
	memcpy(again, out->file, sizeof(again));
	while (out->model < count && (models[out->model].key != out->key || !models[out->model].most_bytes))
		out->model++;
	return strcmp(name, again) == 0 && out->tokens > 0 && out->model < count;
}

/* In order of age. */
static void insert(struct saved *saved, const struct saved_conversation *entry)
{
	if (saved->count == SAVED_MAX)
		remove_at(saved, 0, true);
	size_t at = saved->count++;
	for (; at > 0 && saved->list[at - 1].at_us > entry->at_us; at--)
		saved->list[at] = saved->list[at - 1];
	saved->list[at] = *entry;
}

void saved_load(struct saved *saved, const struct saved_share *models, uint32_t count, int64_t wall_offset_us)
{
	DIR *dir = opendir(saved->folder);
	struct saved_conversation entry;
	struct dirent *file;
	struct stat st;

	while (dir && (file = readdir(dir))) {
		if (file->d_name[0] == '.')
			continue;
		if (!read_name(file->d_name, models, count, &entry) ||
		    fstatat(dirfd(dir), file->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
			unlinkat(dirfd(dir), file->d_name, 0);
			continue;
		}
		entry.bytes = st.st_size;
		entry.at_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000 - wall_offset_us;
		insert(saved, &entry);
	}
	if (dir)
		closedir(dir);
	for (uint32_t i = 0; i < count; i++)
		saved_trim(saved, i, models[i].most_bytes);
}
