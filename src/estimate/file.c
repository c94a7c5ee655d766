/*
 * Files by path. Opening never blocks (O_NONBLOCK, for FIFOs) and what is not a
 * regular file is refused; reading is pread(), because a mapped file that
 * shrinks would end the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "estimate/estimate.h"
#include "estimate/forms.h"
#include "estimate/parts.h"

enum {
	PARTS_MOST = 1024,       /* of a split model; the largest published have some 200 */
	PART_DIGITS = 5,
	PART_TAIL = sizeof "-00001-of-00002" - 1,
	INDEX_BYTES_MOST = 64 * 1024 * 1024,
	INDEX_WINDOW = 64 * 1024,
};

struct part {
	int fd;
	struct stat at_open;
};

static int read_file(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	const struct part *part = ctx;
	char *to = out;

	while (length > 0) {
		ssize_t got = pread(part->fd, to, length, (off_t)offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		to += got;
		offset += (uint64_t)got;
		length -= (uint32_t)got;
	}
	return 0;
}

static int open_part(const char *path, struct part *part, struct err *err)
{
	part->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (part->fd < 0)
		return err_set(err, -errno, "%s", strerror(errno));
	if (fstat(part->fd, &part->at_open) < 0)
		return err_set(err, -errno, "%s", strerror(errno));
	if (S_ISDIR(part->at_open.st_mode))
		return err_set(err, -EISDIR, "is a directory");
	if (!S_ISREG(part->at_open.st_mode))
		return err_set(err, -EBADMSG, "is no regular file");
	return 0;
}

static int check_unchanged(const struct part *part, struct err *err)
{
	struct stat now;
	if (fstat(part->fd, &now) < 0)
		return err_set(err, -errno, "%s", strerror(errno));
	if (now.st_size != part->at_open.st_size ||
	    now.st_mtim.tv_sec != part->at_open.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != part->at_open.st_mtim.tv_nsec)
		return err_set(err, -ESTALE, "changed while it was read");
	return 0;
}

static bool five_digits(const char *text, uint32_t *out)
{
	uint64_t number = 0;
	if (!str_to_u64((struct str){ text, PART_DIGITS }, &number))
		return false;
	*out = (uint32_t)number;
	return true;
}

/* Where "-00002-of-00007.gguf" (or .safetensors) begins, as both worlds write it; NULL: it is no part. */
static const char *split_tail(const char *path, uint32_t *count)
{
	const char *end = strrchr(path, '.');
	uint32_t number = 0;

	if (!end || end - path <= PART_TAIL || (strcmp(end, ".gguf") != 0 && strcmp(end, ".safetensors") != 0))
		return NULL;
	const char *tail = end - PART_TAIL;
	bool split = tail[0] == '-' && memcmp(tail + 6, "-of-", 4) == 0 && five_digits(tail + 1, &number) &&
	             five_digits(tail + 10, count) && *count >= 1 && number >= 1 && number <= *count;
	return split ? tail : NULL;
}

static int open_parts(const char *path, const char *tail, uint32_t count, struct part *parts, struct err *err)
{
	char name[PATH_MAX];

	if (strlen(path) >= sizeof name)
		return err_set(err, -ENAMETOOLONG, "%s", strerror(ENAMETOOLONG));
	snprintf(name, sizeof name, "%s", path);
	for (uint32_t i = 0; i < count; i++) {
		if (tail)
			snprintf(name, sizeof name, "%.*s-%05u-of-%05u%s", (int)(tail - path), path,
			         (i + 1) % 100000, count % 100000, tail + PART_TAIL);
		int rc = open_part(name, &parts[i], err);
		if (rc < 0 && tail)
			return err_wrap(err, "part %u of %u, '%s'", i + 1, count, name);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What is done with the opened parts of a model. */
struct reading {
	void *ctx;
	int (*read)(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err);
};

static int read_parts(struct part *parts, uint32_t count, const struct reading *reading, struct err *err)
{
	struct byte_source *sources = xcalloc(count, sizeof *sources);
	for (uint32_t i = 0; i < count; i++)
		sources[i] = (struct byte_source){ &parts[i], read_file, (uint64_t)parts[i].at_open.st_size };
	int rc = reading->read(reading->ctx, sources, count, err);
	free(sources);
	/* What is wrong with a file that changed meanwhile says nothing of the file. */
	struct err changed;
	for (uint32_t i = 0; i < count; i++)
		if (check_unchanged(&parts[i], &changed) < 0)
			return err_set(err, -ESTALE, "%s; try: again when whoever writes it is done", changed.text);
	return rc;
}

/*
 * "model.safetensors.index.json" says which tensor lies in which of the parts, and
 * the parts say by their names how many there are: the first name that is one is
 * enough. It goes to `out` with the folder of the index; false: there is none.
 */
static bool part_of_index(const char *text, const char *index, char out[PATH_MAX])
{
	const char *folder_end = strrchr(index, '/');
	size_t folder = folder_end ? (size_t)(folder_end - index + 1) : 0;
	uint32_t count;

	for (const char *at = text; (at = strstr(at, ".safetensors\"")); at++) {
		const char *end = at + strlen(".safetensors"), *begin = at;
		while (begin > text && begin[-1] != '"' && begin[-1] != '/' && begin[-1] != '\\')
			begin--;
		int length = begin > text && begin[-1] == '"'
		                     ? snprintf(out, PATH_MAX, "%.*s%.*s", (int)folder, index, (int)(end - begin), begin)
		                     : 0;
		if (length > 0 && length < PATH_MAX && split_tail(out, &count))
			return true;
	}
	return false;
}

/* A window at a time; what may be a name's beginning is in the next one too. 1 = found, 0 = not, or a negative errno. */
static int find_part(const struct part *part, const char *index, char out[PATH_MAX])
{
	uint64_t size = (uint64_t)part->at_open.st_size;
	char *text = xmalloc(INDEX_WINDOW + 1);
	int found = 0;

	for (uint64_t at = 0; at < size && found == 0; at += INDEX_WINDOW - NAME_MAX) {
		uint32_t length = size - at < INDEX_WINDOW ? (uint32_t)(size - at) : INDEX_WINDOW;
		int rc = read_file((void *)part, at, text, length);
		text[length] = '\0';
		found = rc < 0 ? rc : part_of_index(text, index, out);
	}
	free(text);
	return found;
}

static int follow_index(const char *index, char out[PATH_MAX], struct err *err)
{
	struct part part = { .fd = -1 };
	int rc = open_part(index, &part, err);

	if (rc == 0 && part.at_open.st_size > INDEX_BYTES_MOST)
		rc = err_set(err, -EFBIG, "is no index: it has over %d MiB", INDEX_BYTES_MOST >> 20);
	if (rc == 0) {
		int found = find_part(&part, index, out);
		if (found < 0)
			rc = err_set(err, found, "%s", strerror(-found));
		else if (found == 0)
			rc = err_set(err, -EBADMSG, "names no part as NAME-00001-of-00002.safetensors");
	}
	if (part.fd >= 0)
		close(part.fd);
	return rc;
}

static bool is_index(const char *path)
{
	size_t length = strlen(path), tail = strlen(".safetensors.index.json");

	return length > tail && strcmp(path + length - tail, ".safetensors.index.json") == 0;
}

static int read_parts_of(const char *path, const struct reading *reading, struct err *err)
{
	char named[PATH_MAX];
	uint32_t count = 1;
	int rc = 0;

	if (is_index(path)) {
		rc = follow_index(path, named, err);
		path = named;
	}
	if (rc < 0)
		return rc;
	const char *tail = split_tail(path, &count);
	if (!tail)
		count = 1;
	if (count > PARTS_MOST)
		return err_set(err, -EFBIG, "over %d parts", PARTS_MOST);
	struct part *parts = xcalloc(count, sizeof *parts);
	for (uint32_t i = 0; i < count; i++)
		parts[i].fd = -1;
	rc = open_parts(path, tail, count, parts, err);
	if (rc == 0)
		rc = read_parts(parts, count, reading, err);
	for (uint32_t i = 0; i < count; i++)
		if (parts[i].fd >= 0)
			close(parts[i].fd);
	free(parts);
	return rc;
}

static int read_path(const char *path, const char *what, const struct reading *reading, struct err *err)
{
	int rc = read_parts_of(path, reading, err);

	return rc < 0 ? err_wrap(err, "%s '%s'", what, path) : 0;
}

struct sizing {
	const struct estimate_params *params;
	struct estimate *out;
	enum companion kind;
};

static int add_all(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err)
{
	int code = 0;

	for (uint32_t i = 0; code == 0 && i < count; i++)
		code = checkpoint_add(ctx, &sources[i], err);
	return code;
}

static int read_model(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err)
{
	struct sizing *sizing = ctx;
	enum model_form form = form_of(&sources[0]);

	if (form == FORM_WHISPER && count == 1)
		return estimate_whisper(&sources[0], sizing->params, sizing->out, err);
	if (form == FORM_SAFETENSORS) {
		struct checkpoint *checkpoint = checkpoint_new();
		int code = add_all(checkpoint, sources, count, err);
		checkpoint_sum(checkpoint, sizing->params, sizing->out);
		free(checkpoint);
		return code;
	}
	return estimate_parts(sources, count, sizing->params, sizing->out, err);
}

static int read_companion(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err)
{
	struct sizing *sizing = ctx;
	return estimate_beside(sources, count, sizing->kind, sizing->params, sizing->out, err);
}

int estimate_file(const char *path, const struct estimate_params *params, struct estimate *out,
                  struct err *err)
{
	struct err own;
	struct sizing sizing = { .params = params, .out = out };
	struct reading reading = { &sizing, read_model };

	return read_path(path, "model file", &reading, err ? err : &own);
}

int estimate_companion(const char *path, enum companion kind, const struct estimate_params *params,
                       struct estimate *out, struct err *err)
{
	static const char *const names[] = { "projector", "LoRA adapter", "draft model" };
	struct err own;
	struct estimate beside;
	struct estimate_params drafts = *params;
	struct sizing sizing = { kind == COMPANION_DRAFT ? &drafts : params, &beside, kind };
	struct reading reading = { &sizing, kind == COMPANION_DRAFT ? read_model : read_companion };

	drafts.kv_k = params->draft_kv_k;
	drafts.kv_v = params->draft_kv_v;
	drafts.ubatch = params->draft_ubatch > 0 ? params->draft_ubatch : params->ubatch;
	drafts.cache_ram_bytes = 0; /* one for both */
	int rc = read_path(path, names[kind], &reading, err ? err : &own);
	if (rc == 0)
		estimate_join(out, &beside);
	return rc;
}

int estimate_image(const char *const *paths, uint32_t count, const struct estimate_params *params,
                   struct estimate *out, struct err *err)
{
	struct checkpoint *checkpoint = checkpoint_new();
	struct reading reading = { checkpoint, add_all };
	struct err own;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = read_path(paths[i], i == 0 ? "model file" : "part", &reading, err ? err : &own);
	checkpoint_sum(checkpoint, params, out);
	free(checkpoint);
	return rc;
}
