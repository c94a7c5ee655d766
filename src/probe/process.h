#ifndef PROBE_PROCESS_H
#define PROBE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * process - what the kernel tells of one process.
 */
struct process {
	pid_t pid;
	char state;          /* 'Z' and 'X' hold no memory any more */
	bool kernel_thread;
	pid_t parent;
	pid_t pgid;
	pid_t session;
	int64_t cpu_us;
};

struct process_memory {
	int64_t anon_bytes;  /* RssAnon + RssShmem + VmSwap */
	int64_t file_bytes;  /* RssFile */
};

/* 0, or a negative errno: -ENOENT and -ESRCH where it has ended meanwhile. */
int process_read(const char *root, pid_t pid, struct process *out);
int process_read_memory(const char *root, pid_t pid, struct process_memory *out);

#endif
