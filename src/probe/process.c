#include "probe/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/lines.h"

enum {
	NAME_BYTES = 64,
	STAT_BYTES = 1024,
	KERNEL_THREAD = 0x00200000, /* PF_KTHREAD of the kernel's sched.h */
};

/* Fields of /proc/PID/stat behind the name, as proc(5) numbers them. */
enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_PGRP = 5, FIELD_SESSION = 6, FIELD_FLAGS = 9 };

static void take_field(int field, struct str text, struct process *out)
{
	int64_t value;

	if (field == FIELD_STATE)
		out->state = text.length ? text.data[0] : '?';
	if (!lines_number(text, &value, NULL))
		return;
	if (field == FIELD_PARENT && value < INT32_MAX)
		out->parent = (pid_t)value;
	else if (field == FIELD_PGRP && value < INT32_MAX)
		out->pgid = (pid_t)value;
	else if (field == FIELD_SESSION && value < INT32_MAX)
		out->session = (pid_t)value;
	else if (field == FIELD_FLAGS)
		out->kernel_thread = (value & KERNEL_THREAD) != 0;
}

int process_read(const char *root, pid_t pid, struct process *out)
{
	char name[NAME_BYTES], text[STAT_BYTES];

	*out = (struct process){ .pid = pid, .state = '?' };
	snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
	int length = lines_read_once(root, name, text, sizeof text);
	if (length < 0)
		return length;
	/* The name may hold anything, brackets too: the last one ends it. */
	char *behind = strrchr(text, ')');
	if (!behind || behind[1] == '\0')
		return -EBADMSG;
	struct str rest = str_from(behind + 2);
	for (int field = FIELD_STATE; field <= FIELD_FLAGS && rest.data; field++)
		take_field(field, str_cut(rest, ' ', &rest), out);
	return 0;
}

bool process_has_memory(char state)
{
	return state != 'Z' && state != 'X';
}

/* "State:	S (sleeping)" */
static char state_of(struct str line)
{
	struct str rest;

	str_cut(line, ':', &rest);
	rest = rest.data ? str_trim(rest) : (struct str){ "", 0 };
	return rest.length ? rest.data[0] : '?';
}

static int64_t in_bytes(int64_t kib)
{
	return kib < (INT64_C(1) << 40) ? kib * 1024 : 0;
}

/* -EBADMSG where it is not what the kernel says of a process: then nobody knows what it has. */
static int take_status(struct lines *lines, struct process_memory *out)
{
	struct str line;
	int64_t kib;
	bool any = false;

	*out = (struct process_memory){ .state = '?' };
	lines_in_one_read(lines);
	while (lines_next(lines, &line)) {
		if (str_starts(line, "State:")) {
			out->state = state_of(line);
			any = true;
		} else if (lines_named(line, "RssAnon:", &kib) || lines_named(line, "VmSwap:", &kib)) {
			out->anon_bytes += in_bytes(kib);
			any = true;
		} else if (lines_named(line, "RssShmem:", &kib)) {
			out->shmem_bytes = in_bytes(kib);
			any = true;
		} else if (lines_named(line, "RssFile:", &kib))
			out->file_bytes = in_bytes(kib);
	}
	return any ? 0 : -EBADMSG;
}

int process_read_memory(const char *root, pid_t pid, struct process_memory *out)
{
	char name[NAME_BYTES];
	struct lines lines;

	*out = (struct process_memory){ 0 };
	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	int rc = lines_open(&lines, root, name);
	if (rc < 0)
		return rc;
	rc = take_status(&lines, out);
	lines_close(&lines);
	return rc;
}

bool process_is_one(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int process_open(pid_t pid)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	return open(name, O_RDONLY | O_CLOEXEC);
}

int process_read_open(int status, struct process_memory *out)
{
	struct lines lines;
	int rc = lines_again(&lines, status);

	return rc == 0 ? take_status(&lines, out) : rc;
}

bool process_variable(const char *root, pid_t pid, const char *name, char *out, size_t out_bytes)
{
	enum { ENVIRONMENT_MOST = 64 * 1024 };
	char path[NAME_BYTES], *text = xmalloc(ENVIRONMENT_MOST);
	size_t length = strlen(name);
	bool found = false;

	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	int count = lines_read_all(root, path, text, ENVIRONMENT_MOST);
	for (int at = 0; at < count && !found; at += (int)strlen(text + at) + 1) {
		found = strncmp(text + at, name, length) == 0 && text[at + (int)length] == '=';
		if (found)
			str_copy(out, out_bytes, str_from(text + at + (int)length + 1));
	}
	free(text);
	return found;
}
