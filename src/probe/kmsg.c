#include "probe/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "probe/lines.h"

enum {
	RECORD_BYTES = 8192,    /* the kernel's longest */
	RECORDS_MOST = 1 << 15, /* read at a time: more than a log holds, for it may write faster than we read */
	PLACE_BYTES = 64,
};

static bool is_initial_namespace(void)
{
	static const char initial[] = "pid:[4026531836]"; /* PROC_PID_INIT_INO */
	char place[PLACE_BYTES];
	ssize_t length = readlink("/proc/self/ns/pid", place, sizeof(place));

	return length == (ssize_t)sizeof(initial) - 1 && memcmp(place, initial, sizeof(initial) - 1) == 0;
}

void kmsg_open(struct kmsg *kmsg)
{
	*kmsg = (struct kmsg){ .fd = -1 };
	if (!is_initial_namespace())
		return;
	kmsg->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (kmsg->fd >= 0)
		lseek(kmsg->fd, 0, SEEK_END);
}

void kmsg_close(struct kmsg *kmsg)
{
	if (kmsg->fd >= 0)
		close(kmsg->fd);
	kmsg->fd = -1;
}

bool kmsg_parse(struct str record, struct kmsg_kill *out)
{
	static const char verb[] = "Killed process ";
	static const char limit[] = "Memory cgroup out of memory";
	struct str text, rest;
	int64_t pid;

	str_cut(record, ';', &text);
	if (!text.data)
		return false;
	text = str_cut(text, '\n', &rest); /* what follows are keys, which drivers fill */
	/* "Out of memory", "Out of memory (oom_kill_allocating_task)", of a group or of the machine. */
	const char *at = memmem(text.data, text.length, verb, sizeof(verb) - 1);
	if (!at || !memmem(text.data, (size_t)(at - text.data), "ut of memory", 12))
		return false;
	at += sizeof(verb) - 1;
	if (!lines_number((struct str){ at, text.length - (size_t)(at - text.data) }, &pid, NULL) || pid <= 0 ||
	    pid > INT32_MAX)
		return false;
	*out = (struct kmsg_kill){ .pid = (pid_t)pid, .limit = str_starts(text, limit) };
	return true;
}

/* A record that was overwritten before it was read is told by EPIPE; the next one follows. */
static void read_on(struct kmsg *kmsg)
{
	char record[RECORD_BYTES];

	for (int i = 0; kmsg->fd >= 0 && i < RECORDS_MOST; i++) {
		ssize_t length = read(kmsg->fd, record, sizeof(record));
		if (length < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (length <= 0)
			return;
		struct kmsg_kill *kill = &kmsg->kill[kmsg->kills % KMSG_KILLS];
		kmsg->kills += kmsg_parse((struct str){ record, (size_t)length }, kill);
	}
}

bool kmsg_take(struct kmsg *kmsg, pid_t pid, struct kmsg_kill *out)
{
	read_on(kmsg);
	for (uint32_t back = 1; back <= KMSG_KILLS && back <= kmsg->kills; back++) {
		struct kmsg_kill *kill = &kmsg->kill[(kmsg->kills - back) % KMSG_KILLS];
		if (kill->pid != pid)
			continue;
		*out = *kill;
		kill->pid = 0;
		return true;
	}
	return false;
}
