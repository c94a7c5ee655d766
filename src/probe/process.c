#include "probe/process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/lines.h"

enum {
	NAME_BYTES = 64,
	STAT_BYTES = 1024,
	KERNEL_THREAD = 0x00200000, /* PF_KTHREAD of the kernel's sched.h */
};

/* Fields of /proc/PID/stat behind the name, as proc(5) numbers them. */
enum { FIELD_STATE = 3, FIELD_PARENT = 4, FIELD_PGRP = 5, FIELD_SESSION = 6, FIELD_FLAGS = 9, FIELD_UTIME = 14, FIELD_STIME = 15 };

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
	else if (field == FIELD_UTIME || field == FIELD_STIME)
		out->cpu_us += value;
}

int process_read(const char *root, pid_t pid, struct process *out)
{
	char name[NAME_BYTES], text[STAT_BYTES];
	long ticks = sysconf(_SC_CLK_TCK);

	*out = (struct process){ .pid = pid, .state = '?' };
	snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
	int length = lines_read_all(root, name, text, sizeof text);
	if (length < 0)
		return length;
	/* The name may hold anything, brackets too: the last one ends it. */
	char *behind = strrchr(text, ')');
	if (!behind || behind[1] == '\0')
		return -EBADMSG;
	struct str rest = str_from(behind + 2);
	for (int field = FIELD_STATE; field <= FIELD_STIME && rest.data; field++)
		take_field(field, str_cut(rest, ' ', &rest), out);
	out->cpu_us = ticks > 0 && out->cpu_us < INT64_MAX / 1000000 ? out->cpu_us * 1000000 / ticks : 0;
	return 0;
}

int process_read_memory(const char *root, pid_t pid, struct process_memory *out)
{
	char name[NAME_BYTES];
	struct lines lines;
	struct str line, field;
	int64_t kib;

	*out = (struct process_memory){ 0 };
	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	int rc = lines_open(&lines, root, name);
	if (rc < 0)
		return rc;
	while (lines_next(&lines, &line)) {
		if (!lines_field(line, &field, &kib))
			continue;
		int64_t bytes = kib < (INT64_C(1) << 40) ? kib * 1024 : 0;
		if (str_is(field, "RssAnon") || str_is(field, "RssShmem") || str_is(field, "VmSwap"))
			out->anon_bytes += bytes;
		else if (str_is(field, "RssFile"))
			out->file_bytes = bytes;
	}
	lines_close(&lines);
	return 0;
}
