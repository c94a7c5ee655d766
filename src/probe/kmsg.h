#ifndef PROBE_KMSG_H
#define PROBE_KMSG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

/*
 * kmsg - the kernel's own word on whom it killed for memory.
 *
 * Its log names each victim by process, which counters do not. Reading takes
 * CAP_SYSLOG (or kernel.dmesg_restrict=0), and the numbers are those of the initial
 * PID namespace, so in a container nothing is to be learned from them; then nothing
 * is told, and counters have to do.
 *
 * Only records since kmsg_open() are read. Nothing blocks.
 */
enum { KMSG_KILLS = 16 };

struct kmsg_kill {
	pid_t pid;   /* 0 = none */
	bool limit;  /* of a control group, else the machine had no memory left */
};

struct kmsg {
	int fd; /* -1: it may not be read */
	struct kmsg_kill kill[KMSG_KILLS]; /* a ring */
	uint32_t kills;
};

void kmsg_open(struct kmsg *kmsg);
void kmsg_close(struct kmsg *kmsg);

/*
 * The last kill of that process that the log tells of; false where it tells of none. It is told once: the next process
 * with that number ends by itself.
 */
bool kmsg_take(struct kmsg *kmsg, pid_t pid, struct kmsg_kill *out);

/* One record: "6,1234,5678,-;Out of memory: Killed process 77 (name) ...". False: it is about something else. */
bool kmsg_parse(struct str record, struct kmsg_kill *out);

#endif
