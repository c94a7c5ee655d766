#ifndef PROBE_DANGER_H
#define PROBE_DANGER_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/sample.h"

/*
 * danger - how near the memory is to running out, from one sample to the next.
 *
 * Two places can run out: the machine, and the control group that bounds us.
 * In each counts what is left, and how long it lasts if what nobody promised
 * goes on growing as it does; what loads into its claim is no growth. Beside it
 * stand signs that the kernel is in trouble already: stalls (PSI), file pages
 * that are read back as soon as they are dropped (refaults), allocations that
 * wait for compaction, swap that is nearly full, and on NVIDIA machines with
 * unified memory, whose driver takes free pages alone, MemFree. Each sign counts
 * only where little is left besides: another program's own control group may
 * thrash, and a large file may be read, while there is memory in plenty. Stalls
 * are those of the place where little is left: of the group by its own PSI.
 * A swap counts that is an eighth of the memory or more.
 *
 *   WARN  left < 1/2 reserve, or lasts < 2 s, or PSI some > 10 %, refaults > 20,000/s,
 *         swap > 80 % full, less than 1 GiB in blocks of 2 MiB (NVIDIA, unified)
 *   CRIT  left < 1/3 reserve, or lasts < 0.5 s, or PSI some > 40 % or full > 10 %,
 *         refaults > 100,000/s, stalled allocations > 50/s, swap >= 92 % full while
 *         60 % of the memory could only go there, MemFree < 1 GiB during a load
 *         where the kernel is seen to work for it or the reserve is touched
 *         (NVIDIA, unified; WARN by itself: the load has pages made free, see
 *         remedy.h)
 *
 * Growth counts where less than twice the reserve is left. Averages of PSI are
 * over 10 s and lag: what the other signs say is heard first.
 *
 * It also says when to look again: before a quarter of what is left can be gone
 * at 0.5 GiB/s, or at the growth that was seen.
 */
enum danger_level { DANGER_NONE, DANGER_WARN, DANGER_CRIT };

enum { DANGER_POINTS = 8 };

struct danger_watch { /* zeroed before the first sample */
	struct {
		int64_t at_us;
		int64_t unpromised_bytes[2];
	} point[DANGER_POINTS]; /* a ring */
	uint32_t points;            /* ever */
	int64_t refaults, stalls;   /* counters of the last sample */
};

struct danger_facts {
	const struct sample *sample;
	int64_t at_us;
	int64_t reserve_bytes;
	int64_t promised_bytes; /* what engines have of what they claimed */
	int64_t free_2m_bytes;  /* -1 = not told */
	bool nvidia_unified;
	bool loading;
};

struct danger {
	enum danger_level level;
	const char *sign;    /* what speaks for it: "memory left", ...; "" where there is none */
	int64_t left_bytes;  /* where least is left against its reserve */
	int64_t short_bytes; /* CRIT: what has to come back: to the reserve, and one second's growth */
	uint32_t look_ms;    /* look again after so long at most */
};

void danger_judge(struct danger_watch *watch, const struct danger_facts *facts, struct danger *out);

/* What stays free under a control group's limit: an eighth of it, no more than the machine's. */
int64_t danger_group_reserve(int64_t limit_bytes, int64_t reserve_bytes);

#endif
