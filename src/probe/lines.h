#ifndef PROBE_LINES_H
#define PROBE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

/*
 * lines - a file of the kernel's, line by line, through a window on the stack.
 *
 * Such files have no length beforehand and grow with the machine (zoneinfo
 * with its processors, maps with a process), so nothing is read whole. A line
 * longer than the window is cut, a file longer than LINES_BYTES_MOST ends
 * there. Opening never blocks.
 *
 *   lines_open(); while (lines_next()) ...; lines_close()
 *
 * To open such a file costs many times what reading it does. One that is read again and again stays open
 * (handles.h) and is read from its start by lines_again().
 */
enum {
	LINES_WINDOW = 8192,
	LINES_BYTES_MOST = 16 * 1024 * 1024,
};

struct lines {
	int fd;
	size_t start; /* of what is not yet handed out */
	size_t end;
	size_t total;
	bool at_end;
	bool stays;    /* open behind lines_close() */
	bool one_read; /* see lines_in_one_read() */
	char window[LINES_WINDOW];
};

/* The file `name` ("/proc/meminfo") below `root`. 0 or a negative errno. */
int lines_open(struct lines *lines, const char *root, const char *name);
void lines_close(struct lines *lines);

/* The file behind `fd`, from its start. 0, or a negative errno: -ESRCH, -ENODEV where what it told of has gone. */
int lines_again(struct lines *lines, int fd);

/* The kernel hands this file out with one read: what is less than the window is all of it, and is not asked for more. */
void lines_in_one_read(struct lines *lines);

/* The next line without its end; valid until the next call. */
bool lines_next(struct lines *lines, struct str *line);

/* As lines_read_all() where the kernel hands the file out with one read. */
int lines_read_once(const char *root, const char *name, char *out, size_t size);

/*
 * All of a short file, at most `size` - 1 bytes, with a terminator. The number
 * of bytes or a negative errno.
 */
int lines_read_all(const char *root, const char *name, char *out, size_t size);

/* "MemTotal:   123 kB" -> "MemTotal" and 123; units are left out. False for other lines. */
bool lines_field(struct str line, struct str *name, int64_t *value);

/* A decimal at the front of `text` after blanks, clamped to 2^50; the rest in `*rest`. */
bool lines_number(struct str text, int64_t *value, struct str *rest);

/*
 * The number behind `name`, which ends with the ':' or the blank between them. False for other lines: most are, so
 * it is inlined, where the name's length is known.
 */
static inline bool lines_named(struct str line, const char *name, int64_t *value)
{
	size_t length = strlen(name);

	return str_starts(line, name) &&
	       lines_number((struct str){ line.data + length, line.length - length }, value, NULL);
}

#endif
