#ifndef APP_COMPACT_H
#define APP_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * compact - when to gather the machine's free memory into large pages.
 *
 * Drivers of unified memory take blocks of 2 MiB and more; a machine that runs
 * for days has them broken up, and then loads fail or stall while gigabytes are
 * free. The kernel gathers what can be moved, and what engines hold mostly can
 * not. So it is done where nobody is delayed by it: in the quiet hours, once in
 * a night, when no request came for ten minutes and free memory is broken up.
 * Idle models leave, the page cache is dropped, memory is compacted, and the
 * models come back, the largest first.
 *
 * Broken up: less than a tenth of the free memory, or less than 1 GiB, is in
 * such blocks while 4 GiB are available. Where an engine on an AMD GPU has to
 * stay, nothing is moved: its queues would stand still as its pages go.
 */
struct compact_facts {
	int64_t free_2m_bytes;  /* -1 = not told */
	int64_t free_bytes;
	int64_t available_bytes;
	int64_t unasked_us;     /* since the last request; none runs or waits */
	int64_t last_us;        /* since it was last done; INT64_MAX = never */
	int32_t minute;         /* of the day, local time */
	const char *quiet;      /* "03:00-05:00"; may go over midnight */
	bool busy;              /* something runs, waits or loads */
	bool amd_stays;         /* a pinned engine on an AMD GPU */
};

bool compact_is_needed(const struct compact_facts *facts);
bool compact_is_quiet(const char *quiet, int32_t minute);
bool compact_is_due(const struct compact_facts *facts);

/*
 * Blocks for seconds. Each step that may not be taken is left out and named in
 * `missing` ("" = none was). Unless `moves`, the cache is dropped and no page moved.
 */
void compact_now(bool moves, char *missing, uint32_t missing_bytes);

#endif
