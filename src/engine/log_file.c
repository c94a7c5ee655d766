#include "engine/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "io/worker.h"

enum { NAME_BYTES_MAX = 200, WINDOW_MS = 1000 };

struct log_file {
	struct job job;       /* under way while `writing` */
	bool writing;
	bool freed;           /* ... by the owner: done() ends it */
	uv_loop_t *loop;
	char *path, *old_path;
	struct buf filling;   /* came in since the last write began */
	struct buf written;   /* the job's own while it runs */
	uint64_t window_ms;   /* the second that is counted */
	uint64_t window_bytes;
	uint64_t left_out;    /* bytes, not told yet */
	int code;             /* of the last write: 0 or a negative errno */
	bool failing;         /* ... and it was told */
};

/* A file's name of any model's name: what is not plain becomes %XX, and a long one ends in its hash. */
static char *make_path(const char *folder, const char *model, const char *ending)
{
	struct buf path = BUF_INIT;

	buf_printf(&path, "%s/", folder);
	size_t start = buf_length(&path);
	for (const char *c = model; *c && buf_length(&path) - start < NAME_BYTES_MAX; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		             (*c >= '0' && *c <= '9') || *c == '-' || *c == '_' || (*c == '.' && c > model);
		if (plain)
			buf_append_char(&path, *c);
		else
			buf_printf(&path, "%%%02X", (unsigned char)*c);
	}
	if (buf_length(&path) - start >= NAME_BYTES_MAX)
		buf_printf(&path, "-%016llx", (unsigned long long)str_hash(str_from(model)));
	buf_printf(&path, "%s", ending);
	char *text = xstrdup(buf_cstr(&path));
	buf_release(&path);
	return text;
}

struct log_file *log_file_new(struct uv_loop_s *loop, const char *folder, const char *model)
{
	struct log_file *file = xcalloc(1, sizeof(*file));

	file->loop = loop;
	file->path = make_path(folder, model, ".log");
	file->old_path = make_path(folder, model, ".log.1");
	return file;
}

/* ---- on a worker ---- */

static int open_file(const struct log_file *file, int64_t *out_bytes)
{
	struct stat found;
	int fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &found) < 0 || !S_ISREG(found.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	*out_bytes = found.st_size;
	return fd;
}

static int write_all(int fd, struct str bytes)
{
	while (bytes.length) {
		ssize_t count = write(fd, bytes.data, bytes.length);
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return count < 0 ? -errno : -ENOSPC; /* a full disk: the log is the first that may go */
		bytes.data += count;
		bytes.length -= (size_t)count;
	}
	return 0;
}

/* As much as the file takes, then a new one; a turn comes at a line's end where there is one. 0 or a negative errno. */
static int write_out(struct log_file *file)
{
	struct str bytes = buf_str(&file->written);
	int64_t size = 0;
	int fd = open_file(file, &size), code = fd < 0 ? fd : 0;

	while (fd >= 0 && bytes.length) {
		size_t room = size < LOG_FILE_BYTES ? (size_t)(LOG_FILE_BYTES - size) : 0;
		struct str part = { bytes.data, bytes.length < room ? bytes.length : room };
		const char *line_end = part.length < bytes.length && part.length
		                               ? memrchr(part.data, '\n', part.length) : NULL;
		if (line_end)
			part.length = (size_t)(line_end + 1 - part.data);
		int failed = write_all(fd, part);
		code = failed ? failed : code;
		bytes.data += part.length;
		bytes.length -= part.length;
		if (bytes.length == 0)
			break;
		close(fd);
		if (rename(file->path, file->old_path) < 0)
			return -errno;
		fd = open_file(file, &size);
		code = fd < 0 ? fd : code;
	}
	if (fd >= 0)
		close(fd);
	return code;
}

static void run(struct job *job)
{
	struct log_file *file = (struct log_file *)(void *)job;

	file->code = write_out(file);
}

/* ---- on the loop ---- */

static void free_file(struct log_file *file)
{
	buf_release(&file->filling);
	buf_release(&file->written);
	free(file->path);
	free(file->old_path);
	free(file);
}

static void tell_left_out(struct log_file *file)
{
	if (file->left_out)
		buf_printf(&file->filling, "\n[%llu bytes of the log left out here]\n",
		           (unsigned long long)file->left_out);
	file->left_out = 0;
}

static void swap(struct log_file *file)
{
	struct buf empty = file->written;

	buf_consume(&empty, buf_length(&empty));
	file->written = file->filling;
	file->filling = empty;
}

static void tell_failure(struct log_file *file)
{
	if (file->code && !file->failing)
		log_warn("%s cannot be written: %s; what this engine prints is kept in memory alone, the last of it", file->path,
		         file->code == -EINVAL || file->code == -ENXIO ? "it is no file" : strerror(-file->code));
	file->failing = file->code != 0;
}

static void done(struct job *job)
{
	struct log_file *file = (struct log_file *)(void *)job;

	file->writing = false;
	tell_failure(file);
	buf_release(&file->written); /* a flood is over some time */
	if (file->freed)
		log_file_free(file);
	else if (buf_length(&file->filling))
		log_file_append(file, STR(""));
}

static void begin_writing(struct log_file *file)
{
	swap(file);
	file->writing = true;
	file->job.run = run;
	file->job.done = done;
	worker_start(file->loop, &file->job);
}

void log_file_append(struct log_file *file, struct str bytes)
{
	uint64_t now_ms = uv_now(file->loop);

	if (now_ms - file->window_ms >= WINDOW_MS) {
		file->window_ms = now_ms;
		file->window_bytes = 0;
		tell_left_out(file);
	}
	if (file->window_bytes + bytes.length > LOG_FILE_BYTES_A_SECOND ||
	    buf_length(&file->filling) + bytes.length > LOG_FILE_BYTES_A_SECOND) {
		file->left_out += bytes.length;
	} else {
		file->window_bytes += bytes.length;
		buf_append_str(&file->filling, bytes);
	}
	if (!file->writing && buf_length(&file->filling))
		begin_writing(file);
}

void log_file_free(struct log_file *file)
{
	if (!file)
		return;
	file->freed = true;
	if (file->writing)
		return;
	tell_left_out(file);
	swap(file);
	write_out(file); /* the last words: a worker would not come back */
	free_file(file);
}
