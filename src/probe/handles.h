#ifndef PROBE_HANDLES_H
#define PROBE_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/lines.h"

/*
 * handles - files of the kernel's that are read with each sample, and stay open from one to the next.
 *
 * Each is known by its name. Where the kernel says that what it told of has gone (a control group was
 * removed and made anew), it is opened again. Below a root (a recording) files change as files do: nothing is kept.
 *
 *   zeroed -> handles_lines() as often as wished, handles_sweep() now and then -> handles_close()
 */
enum { HANDLES_MAX = 48 };

struct handles {
	struct handle {
		uint64_t name; /* its hash */
		int fd;
		bool asked; /* for, since the last sweep */
	} file[HANDLES_MAX];
	uint32_t count;
};

/* As lines_open(); NULL keeps nothing. */
int handles_lines(struct handles *handles, struct lines *lines, const char *root, const char *name);
/* Those that nobody asked for since the last time are closed. */
void handles_sweep(struct handles *handles);
void handles_close(struct handles *handles);

#endif
