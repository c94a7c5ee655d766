#ifndef PROBE_READING_H
#define PROBE_READING_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/*
 * reading - what a thread that reads the machine is at.
 *
 * Most of what is read here never blocks; a driver that hangs, or a file system whose server is away, makes it do so
 * for ever, and the thread cannot tell of it any more. So it notes beforehand what it is about to ask, and another
 * thread can name it.
 *
 *   reading_init() -> by the thread that reads: reading_begin() -> by any: reading_tell()
 *
 * Of a thread that began none nothing is noted, and that costs nothing.
 */
enum { READING_NAME_BYTES = 128 };

struct reading {
	pthread_mutex_t lock;
	int fd; /* of a file that is open, whose name nobody needs until it hangs; -1: see name */
	char name[READING_NAME_BYTES];
	uint64_t count; /* of what was noted */
};

void reading_init(struct reading *reading);
/* From now on this thread notes there; NULL: nowhere. */
void reading_begin(struct reading *reading);

/* For those who read: a file, or a call by its name, is asked now. */
void reading_note(const char *name);
void reading_note_open(int fd);

/* It goes on while this grows. */
uint64_t reading_count(struct reading *reading);
/* What was noted last; never blocks. */
void reading_tell(struct reading *reading, char *out, size_t out_bytes);

#endif
