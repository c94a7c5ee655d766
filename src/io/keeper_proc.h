#ifndef IO_KEEPER_PROC_H
#define IO_KEEPER_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * keeper_proc - reading /proc where there is no heap and no libc to lean on.
 *
 * The keeper may be forked from a process with threads, so it uses only what is
 * safe there: system calls and the caller's buffers.
 */

/* Decimal text of `value` with a terminator; returns its length. 21 bytes are always enough. */
size_t keeper_decimal(char out[21], unsigned long long value);

/*
 * The direct children of this process, dead ones that nobody reaped included.
 * Returns how many there are, at most `max`; who needs all asks again once these
 * are gone. _by_list reads the calling thread's own list, which old kernels lack
 * (-1 then); _by_scan looks at every process and sees those of all threads.
 */
ssize_t keeper_children_by_list(pid_t *out, size_t max);
ssize_t keeper_children_by_scan(pid_t *out, size_t max);

/* The session a process is in; -1 where it is gone. */
pid_t keeper_session(pid_t pid);

/* Does the environment it was started with hold `variable` ("NAME=value")? Looks at the first 64 KiB. */
bool keeper_environ_has(pid_t pid, const char *variable);

#endif
