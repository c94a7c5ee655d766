#include "app/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "sim/record.h"

struct recorder {
	FILE *file; /* NULL after a failure */
	char *path;
};

struct recorder *recorder_open(const char *path, const struct arbiter_limits *limits,
                               struct err *err)
{
	/* A recording tells which models a person runs and when: for the owner's eyes. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");

	if (!file) {
		err_set(err, -errno, "recording %s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	struct recorder *recorder = xcalloc(1, sizeof(*recorder));
	recorder->file = file;
	recorder->path = xstrdup(path);
	int code = record_begin(file, limits);
	if (code < 0 || fflush(file) != 0) {
		err_set(err, code < 0 ? code : -errno, "recording %s: %s", path,
		        strerror(code < 0 ? -code : errno));
		recorder_close(recorder);
		return NULL;
	}
	return recorder;
}

void recorder_event(struct recorder *recorder, const struct event *event)
{
	if (!recorder->file || record_event(recorder->file, event) == 0)
		return;
	log_error("the recording %s ends here: %s", recorder->path, strerror(errno));
	fclose(recorder->file);
	recorder->file = NULL;
}

void recorder_flush(struct recorder *recorder)
{
	if (recorder->file)
		fflush(recorder->file);
}

void recorder_close(struct recorder *recorder)
{
	if (recorder->file && fclose(recorder->file) != 0)
		log_error("the recording %s is not complete: %s", recorder->path, strerror(errno));
	free(recorder->path);
	free(recorder);
}
