#include "app/saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"

enum { PATH_BYTES = 4200, READ_BYTES = 256 * 1024 };

static void path_of(const char *folder, const char *file, char out[PATH_BYTES])
{
	snprintf(out, PATH_BYTES, "%s/%s", folder, file);
}

static void set_name(struct saved_conversation *entry)
{
	snprintf(entry->file, sizeof(entry->file),
	         "%016" PRIx64 "-%016" PRIx64 "-%" PRId64 "-%" PRId64 "-%016" PRIx64 ".kv", entry->key, entry->conversation,
	         entry->tokens, entry->bytes, entry->sum);
}

void saved_begin(struct saved_conversation *entry, uint32_t slot)
{
	snprintf(entry->file, sizeof(entry->file), "%016" PRIx64 "-%016" PRIx64 "-%" PRId64 "-%u.part", entry->key,
	         entry->conversation, entry->tokens, slot);
}

void saved_spoilt(const char *folder, const struct saved_conversation *entry)
{
	char path[PATH_BYTES];

	path_of(folder, entry->file, path);
	unlink(path);
}

/* ---- is it the file that it says? ---- */

/* As many bytes as there are, up to `most`; or a negative errno. */
static int64_t read_fully(int fd, unsigned char *out, size_t most)
{
	size_t got = 0;
	ssize_t more;

	while (got < most && (more = read(fd, out + got, most - got)) != 0) {
		if (more > 0)
			got += (size_t)more;
		else if (errno != EINTR)
			return -errno;
	}
	return (int64_t)got;
}

/*
 * Over the file and whose it is: one that took another's name is not that one. Piece by piece, each together with
 * the sum of those before it. Its length, or a negative errno.
 */
static int64_t sum_of(int fd, const struct saved_conversation *entry, uint64_t *sum)
{
	uint64_t whose[] = { entry->key, entry->conversation, (uint64_t)entry->tokens };
	unsigned char *piece = xmalloc(SHA256_DIGEST_LENGTH + READ_BYTES);
	int64_t got, length = 0;

	SHA256((const unsigned char *)whose, sizeof(whose), piece);
	while ((got = read_fully(fd, piece + SHA256_DIGEST_LENGTH, READ_BYTES)) > 0) {
		SHA256(piece, SHA256_DIGEST_LENGTH + (size_t)got, piece);
		length += got;
	}
	memcpy(sum, piece, sizeof(*sum));
	free(piece);
	return got < 0 ? got : length;
}

/* Length, or a negative errno. */
static int64_t look_at(const char *path, const struct saved_conversation *entry, uint64_t *sum)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	int64_t length = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EBADMSG : sum_of(fd, entry, sum);
	close(fd);
	return length;
}

int saved_seal(const char *folder, struct saved_conversation *entry)
{
	char begun[PATH_BYTES], sealed[PATH_BYTES];

	path_of(folder, entry->file, begun);
	int64_t length = look_at(begun, entry, &entry->sum);
	if (length >= 0) {
		entry->bytes = length;
		set_name(entry);
		path_of(folder, entry->file, sealed);
		length = rename(begun, sealed) < 0 ? -errno : 0;
	}
	if (length < 0)
		unlink(begun);
	return (int)length;
}

int saved_check(const char *folder, const struct saved_conversation *entry)
{
	char path[PATH_BYTES];
	uint64_t sum = 0;

	path_of(folder, entry->file, path);
	int64_t length = look_at(path, entry, &sum);
	if (length < 0)
		return (int)length;
	return length == entry->bytes && sum == entry->sum ? 0 : -EBADMSG;
}

const char *saved_wrong(char out[SAVED_WRONG], int code)
{
	switch (code) {
	case -EBADMSG:
		return "is damaged";
	case -ENOENT:
		return "is gone";
	case -ELOOP:
		return "is a link, which is not followed";
	case -EACCES:
	case -EPERM:
		return "may not be read";
	default:
		snprintf(out, SAVED_WRONG, "cannot be read: %s", strerror(-code));
		return out;
	}
}

/* ---- those of this life ---- */

static void remove_at(struct saved *saved, size_t at, bool with_file)
{
	if (with_file)
		saved_spoilt(saved->folder, &saved->list[at]);
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
		remove_at(saved, same, strcmp(saved->list[same].file, entry->file) != 0); /* else it is the same */
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

/* ---- over lives of the daemon ---- */

/* False: not a file of ours, or of no model that there is now. */
static bool read_name(const char *name, const struct saved_share *models, uint32_t count,
                      struct saved_conversation *out)
{
	char again[SAVED_NAME_BYTES];

	*out = (struct saved_conversation){ 0 };
	if (sscanf(name, "%16" SCNx64 "-%16" SCNx64 "-%" SCNd64 "-%" SCNd64 "-%16" SCNx64, &out->key,
	           &out->conversation, &out->tokens, &out->bytes, &out->sum) != 5)
		return false;
	set_name(out);
	memcpy(again, out->file, sizeof(again));
	while (out->model < count && (models[out->model].key != out->key || !models[out->model].most_bytes))
		out->model++;
	return strcmp(name, again) == 0 && out->tokens > 0 && out->model < count;
}

/* As only we name files. Whatever else lies there is somebody's: the folder may be a link to anywhere. */
static bool is_named_as_ours(const char *name)
{
	static const char hex[] = "0123456789abcdef";
	struct str all = str_from(name);

	if (strspn(name, hex) != 16 || name[16] != '-' || strspn(name + 17, hex) != 16 || name[33] != '-')
		return false;
	return str_ends(all, ".kv") || str_ends(all, ".part");
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
		if (!is_named_as_ours(file->d_name))
			continue;
		bool ours = read_name(file->d_name, models, count, &entry) &&
		            fstatat(dirfd(dir), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
		if (ours && st.st_size != entry.bytes)
			log_warn("a saved conversation's file is damaged and goes: it has %lld of its %lld bytes",
			         (long long)st.st_size, (long long)entry.bytes);
		if (!ours || st.st_size != entry.bytes) {
			unlinkat(dirfd(dir), file->d_name, 0);
			continue;
		}
		entry.at_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000 - wall_offset_us;
		insert(saved, &entry);
	}
	if (dir)
		closedir(dir);
	for (uint32_t i = 0; i < count; i++)
		saved_trim(saved, i, models[i].most_bytes);
}
