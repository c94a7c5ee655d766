#include "io/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "io/worker.h"

enum work { WORK_NONE, WORK_WRITE, WORK_READ };

struct spill {
	struct job job;
	struct uv_loop_s *loop;
	const struct spill_events *events;
	void *ctx;
	int fd;
	bool closed;      /* nobody listens any more */
	enum work work;   /* under way: until done() the fields below are the thread's */
	struct buf bytes;
	uint64_t offset;
	size_t wanted;
	int error;
	uint64_t length;
};

static void free_spill(struct spill *spill)
{
	buf_release(&spill->bytes);
	close(spill->fd);
	free(spill);
}

static int write_all(int fd, struct str bytes, uint64_t offset)
{
	while (bytes.length) {
		ssize_t written = pwrite(fd, bytes.data, bytes.length, (off_t)offset);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		bytes.data += written;
		bytes.length -= (size_t)written;
		offset += (uint64_t)written;
	}
	return 0;
}

static int read_all(int fd, struct buf *out, size_t wanted, uint64_t offset)
{
	char *at = buf_reserve(out, wanted);
	size_t got = 0;

	while (got < wanted) {
		ssize_t count = pread(fd, at + got, wanted - got, (off_t)(offset + got));
		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			return -EIO; /* it was written, so it must be there */
		got += (size_t)count;
	}
	buf_commit(out, got);
	return 0;
}

static void run(struct job *job)
{
	struct spill *spill = (struct spill *)job;

	if (spill->work == WORK_WRITE)
		spill->error = write_all(spill->fd, buf_str(&spill->bytes), spill->offset);
	else
		spill->error = read_all(spill->fd, &spill->bytes, spill->wanted, spill->offset);
}

static void done(struct job *job)
{
	struct spill *spill = (struct spill *)job;
	enum work work = spill->work;

	spill->work = WORK_NONE;
	if (spill->closed) {
		free_spill(spill);
		return;
	}
	struct buf bytes = spill->bytes;
	spill->bytes = BUF_INIT;
	if (work == WORK_WRITE) {
		spill->length += spill->error ? 0 : buf_length(&bytes);
		spill->events->on_written(spill->ctx, spill->error);
	} else {
		spill->events->on_read(spill->ctx, spill->error, buf_str(&bytes));
	}
	buf_release(&bytes);
}

static int open_file(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("cotenant body", MFD_CLOEXEC);
}

struct spill *spill_open(struct uv_loop_s *loop, const char *folder,
                         const struct spill_events *events, void *ctx, struct err *err)
{
	int fd = open_file(folder);

	if (fd < 0) {
		err_set(err, -errno, "a file for what does not fit in memory, in '%s': %s", folder,
		        strerror(errno));
		return NULL;
	}
	struct spill *spill = xcalloc(1, sizeof(*spill));
	spill->job = (struct job){ .run = run, .done = done };
	spill->loop = loop;
	spill->events = events;
	spill->ctx = ctx;
	spill->fd = fd;
	return spill;
}

void spill_append(struct spill *spill, struct buf *bytes)
{
	assert(spill->work == WORK_NONE && !spill->closed);
	spill->work = WORK_WRITE;
	spill->bytes = *bytes;
	*bytes = BUF_INIT;
	spill->offset = spill->length;
	worker_start(spill->loop, &spill->job);
}

void spill_fetch(struct spill *spill, uint64_t offset, size_t bytes)
{
	assert(spill->work == WORK_NONE && !spill->closed);
	assert(offset <= spill->length);
	uint64_t left = spill->length - offset;
	spill->work = WORK_READ;
	spill->offset = offset;
	spill->wanted = bytes < left ? bytes : (size_t)left;
	worker_start(spill->loop, &spill->job);
}

void spill_close(struct spill *spill)
{
	if (!spill)
		return;
	spill->closed = true;
	if (spill->work == WORK_NONE)
		free_spill(spill);
}
