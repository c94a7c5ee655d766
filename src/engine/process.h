#ifndef ENGINE_PROCESS_H
#define ENGINE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* process - what /proc tells of an engine that is loading. */

/*
 * How many bytes it has read or holds, whichever is more: it grows while
 * weights come in, by whatever way they come. -1 where that cannot be read.
 */
int64_t process_bytes_moved(pid_t pid);

#endif
