#include "app/saved.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void saved_name(uint32_t model, uint64_t conversation, char out[SAVED_NAME_BYTES])
{
	snprintf(out, SAVED_NAME_BYTES, "m%" PRIu32 "-%016" PRIx64 ".kv", model, conversation);
}

static void remove_at(struct saved *saved, size_t at, bool with_file)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", saved->folder, saved->list[at].file);
	if (with_file)
		unlink(path);
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
		remove_at(saved, same, false); /* its file was written over */
	if (saved->count == SAVED_MAX)
		remove_at(saved, 0, true);
	saved->list[saved->count++] = *entry;
	keep_newest(saved, entry->model, saved->count - 1, entry->bytes, most_bytes);
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

void saved_empty(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}
