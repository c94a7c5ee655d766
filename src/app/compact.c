#include "app/compact.h"

#include <stdio.h>

#include "app/remedy.h"

#define GIB (INT64_C(1) << 30)
#define MINUTE_US INT64_C(60000000)

enum { NIGHT_MINUTES = 20 * 60, UNASKED_MINUTES = 10 };

bool compact_is_needed(const struct compact_facts *facts)
{
	int64_t least = facts->free_bytes / 10 > GIB ? facts->free_bytes / 10 : GIB;

	return facts->free_2m_bytes >= 0 && facts->free_2m_bytes < least && facts->available_bytes >= 4 * GIB;
}

bool compact_is_quiet(const char *quiet, int32_t minute)
{
	int from_hour, from_minute, to_hour, to_minute;

	if (!quiet || sscanf(quiet, "%2d:%2d-%2d:%2d", &from_hour, &from_minute, &to_hour, &to_minute) != 4)
		return false;
	int from = from_hour * 60 + from_minute, to = to_hour * 60 + to_minute;
	return from <= to ? minute >= from && minute < to : minute >= from || minute < to;
}

bool compact_is_due(const struct compact_facts *facts)
{
	return !facts->busy && !facts->amd_stays && facts->unasked_us >= UNASKED_MINUTES * MINUTE_US &&
	       facts->last_us >= NIGHT_MINUTES * MINUTE_US && compact_is_quiet(facts->quiet, facts->minute) &&
	       compact_is_needed(facts);
}

void compact_now(bool moves, char *missing, uint32_t missing_bytes)
{
	missing[0] = '\0';
	/* The cache of files that nobody needs now stands between the blocks. */
	remedy_write("", "/proc/sys/vm/drop_caches", "1", missing, missing_bytes);
	if (moves)
		remedy_write("", "/proc/sys/vm/compact_memory", "1", missing, missing_bytes);
}
