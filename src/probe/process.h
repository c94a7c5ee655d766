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
	char state;
	bool kernel_thread;
	pid_t parent;
	pid_t pgid;
	pid_t session;
};

struct process_memory {
	char state;
	int64_t anon_bytes;  /* RssAnon + VmSwap */
	int64_t shmem_bytes; /* RssShmem */
	int64_t file_bytes;  /* RssFile */
};

/* 'Z' and 'X' hold no memory any more. */
bool process_has_memory(char state);

/*
 * The value of this variable in the environment that it was started with, of its first 64 KiB. False: it has none, or
 * it may not be read.
 */
bool process_variable(const char *root, pid_t pid, const char *name, char *out, size_t out_bytes);

/* 0, or a negative errno: -ENOENT and -ESRCH where it has ended meanwhile. */
int process_read(const char *root, pid_t pid, struct process *out);
int process_read_memory(const char *root, pid_t pid, struct process_memory *out);

/* Is the number that of a process of this machine, and not of one of its threads? */
bool process_is_one(pid_t pid);

/*
 * Its status file, to be read as often as wished; -1 where it cannot be had. It stays that of this process,
 * whoever gets its number.
 */
int process_open(pid_t pid);
int process_read_open(int status, struct process_memory *out);

#endif
