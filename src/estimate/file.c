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
	PART_TAIL = sizeof "-00001-of-00002.gguf" - 1,
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

/* "x-00002-of-00007.gguf": its place and their number, as llama_split_path() writes them. */
static bool is_split_name(const char *path, uint32_t *count)
{
	size_t length = strlen(path);
	uint32_t number = 0;

	if (length <= PART_TAIL)
		return false;
	const char *tail = path + length - PART_TAIL;
	return tail[0] == '-' && memcmp(tail + 6, "-of-", 4) == 0 && strcmp(tail + 15, ".gguf") == 0 &&
	       five_digits(tail + 1, &number) && five_digits(tail + 10, count) && *count >= 1 &&
	       number >= 1 && number <= *count;
}

static int open_parts(const char *path, uint32_t count, struct part *parts, struct err *err)
{
	char name[PATH_MAX];
	size_t length = strlen(path);

	if (length >= sizeof name)
		return err_set(err, -ENAMETOOLONG, "%s", strerror(ENAMETOOLONG));
	memcpy(name, path, length + 1);
	for (uint32_t i = 0; i < count; i++) {
		if (count > 1)
			snprintf(name + length - PART_TAIL, PART_TAIL + 1, "-%05u-of-%05u.gguf",
			         (i + 1) % 100000, count % 100000);
		int rc = open_part(name, &parts[i], err);
		if (rc < 0 && count > 1)
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
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = check_unchanged(&parts[i], err);
	return rc;
}

static int read_path(const char *path, const char *what, const struct reading *reading, struct err *err)
{
	uint32_t count = 1;

	if (!is_split_name(path, &count))
		count = 1;
	if (count > PARTS_MOST)
		return err_set(err, -EFBIG, "%s '%s': over %d parts", what, path, PARTS_MOST);
	struct part *parts = xcalloc(count, sizeof *parts);
	for (uint32_t i = 0; i < count; i++)
		parts[i].fd = -1;
	int rc = open_parts(path, count, parts, err);
	if (rc == 0)
		rc = read_parts(parts, count, reading, err);
	for (uint32_t i = 0; i < count; i++)
		if (parts[i].fd >= 0)
			close(parts[i].fd);
	free(parts);
	return rc < 0 ? err_wrap(err, "%s '%s'", what, path) : 0;
}

struct sizing {
	const struct estimate_params *params;
	struct estimate *out;
};

static int read_model(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err)
{
	struct sizing *sizing = ctx;
	enum model_form form = count == 1 ? form_of(&sources[0]) : FORM_GGUF;

	if (form == FORM_WHISPER)
		return estimate_whisper(&sources[0], sizing->out, err);
	if (form == FORM_SAFETENSORS)
		return estimate_checkpoint(&sources[0], sizing->out, err);
	return estimate_parts(sources, count, sizing->params, sizing->out, err);
}

static int read_companion(void *ctx, const struct byte_source *sources, uint32_t count, struct err *err)
{
	struct sizing *sizing = ctx;
	return estimate_beside(sources, count, sizing->params, sizing->out, err);
}

int estimate_file(const char *path, const struct estimate_params *params, struct estimate *out,
                  struct err *err)
{
	struct err own;
	struct sizing sizing = { params, out };
	struct reading reading = { &sizing, read_model };

	return read_path(path, "model file", &reading, err ? err : &own);
}

int estimate_companion(const char *path, enum companion kind, const struct estimate_params *params,
                       struct estimate *out, struct err *err)
{
	static const char *const names[] = { "projector", "LoRA adapter", "draft model" };
	struct err own;
	struct estimate beside;
	struct sizing sizing = { params, &beside };
	struct reading reading = { &sizing, kind == COMPANION_DRAFT ? read_model : read_companion };

	int rc = read_path(path, names[kind], &reading, err ? err : &own);
	if (rc == 0)
		estimate_join(out, &beside);
	return rc;
}
