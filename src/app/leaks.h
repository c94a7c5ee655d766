#ifndef APP_LEAKS_H
#define APP_LEAKS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * leaks - memory that does not come back, by whose coming and going it grew.
 *
 * What an engine holds goes with its processes. What stays behind is nobody's
 * anonymous memory: pages of a driver, files in a tmpfs, the kernel's own. So of
 * each life of an engine the change of that unowned use is kept, from before its
 * start until its release was seen. One such change says nothing, as others
 * change it too; a leak is a slope: over the last cycles the mean change is
 * more than 4 MiB and more than three times its standard error, from six cycles
 * on. Where that no longer holds, it is no leak any more.
 */
enum { LEAK_CYCLES = 16, LEAK_CYCLES_LEAST = 6 };

struct leak {
	int64_t change_bytes[LEAK_CYCLES]; /* a ring */
	uint32_t cycles;                   /* ever */
};

void leak_add(struct leak *leak, int64_t change_bytes);

/* Bytes that each cycle leaves behind, or 0: no leak that could be told from chance. */
int64_t leak_slope_bytes(const struct leak *leak);
/* What was left behind in all the cycles that are kept; 0 where there is no leak. */
int64_t leak_total_bytes(const struct leak *leak);

#endif
