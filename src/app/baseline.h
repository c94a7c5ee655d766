#ifndef APP_BASELINE_H
#define APP_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * baseline - what the system needs by itself, with no engine and nobody at work.
 *
 * It is learned in a quiet minute: sixty seconds in which nothing was loaded. The
 * most that was in use during such a minute is what the system then needed; the
 * least of these minutes in this life of the daemon counts, and until there was one,
 * that of an earlier life on the same machine. Nobody needs more than all that is in
 * use without the engines, so the least of that bounds it, and is all that is
 * known where there was no quiet minute yet.
 *
 * Likewise for the pages that stand in none of the kernel's counters: what is
 * missing beyond the usual is a driver that does not tell, or a leak. More than
 * a thirtieth of the memory is never usual.
 */
struct baseline_row { /* as it is kept from one life to the next */
	uint64_t version;
	int64_t total_bytes; /* of the machine */
	int64_t bytes;
	int64_t unaccounted_bytes; /* 0 = not known */
};

enum { BASELINE_VERSION = 1 };

struct baseline {
	struct baseline_row known; /* bytes -1: there was no quiet minute */
	bool of_this_life;
	int64_t least_bytes;       /* in use without the engines; -1 = nothing was read yet */
	int64_t quiet_since_us;    /* -1: it is not quiet */
	int64_t most_bytes, most_unaccounted_bytes;
};

struct baseline_reading {
	int64_t at_us;
	int64_t foreign_bytes;     /* in use, without the engines */
	int64_t unaccounted_bytes; /* -1 = not told */
	bool quiet;                /* nothing is loaded, comes or goes */
};

/* `kept` is what an earlier life of the daemon left behind, or NULL. */
void baseline_open(struct baseline *baseline, int64_t total_bytes, const struct baseline_row *kept);
/* True where a quiet minute taught something: `known` is to be kept. */
bool baseline_read(struct baseline *baseline, const struct baseline_reading *reading);
/* -1 = nothing is known. */
int64_t baseline_bytes(const struct baseline *baseline);

#endif
