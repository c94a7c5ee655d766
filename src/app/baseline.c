#include "app/baseline.h"

enum { MINUTE_US = 60000000, USUAL_PART = 30 };

void baseline_open(struct baseline *baseline, int64_t total_bytes, const struct baseline_row *kept)
{
	*baseline = (struct baseline){
		.known = { .version = BASELINE_VERSION, .total_bytes = total_bytes, .bytes = -1 },
		.least_bytes = -1,
		.quiet_since_us = -1,
	};
	/* Of another machine, or of none. */
	if (!kept || kept->version != BASELINE_VERSION || kept->total_bytes != total_bytes || kept->bytes < 0 ||
	    kept->bytes > total_bytes || kept->unaccounted_bytes < 0 || kept->unaccounted_bytes > total_bytes / USUAL_PART)
		return;
	baseline->known = *kept;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void begin_minute(struct baseline *baseline, const struct baseline_reading *reading)
{
	baseline->quiet_since_us = reading->at_us;
	baseline->most_bytes = reading->foreign_bytes;
	baseline->most_unaccounted_bytes = reading->unaccounted_bytes;
}

/* The least of such minutes: in the others somebody was at work after all. */
static bool end_minute(struct baseline *baseline)
{
	struct baseline_row *known = &baseline->known;
	int64_t unaccounted = baseline->most_unaccounted_bytes;

	if (baseline->of_this_life && baseline->most_bytes >= known->bytes)
		return false;
	baseline->of_this_life = true;
	known->bytes = baseline->most_bytes;
	if (unaccounted > 0 && unaccounted <= known->total_bytes / USUAL_PART)
		known->unaccounted_bytes = unaccounted;
	return true;
}

bool baseline_read(struct baseline *baseline, const struct baseline_reading *reading)
{
	if (reading->foreign_bytes < 0)
		return false;
	if (baseline->least_bytes < 0 || reading->foreign_bytes < baseline->least_bytes)
		baseline->least_bytes = reading->foreign_bytes;
	if (!reading->quiet) {
		baseline->quiet_since_us = -1;
		return false;
	}
	if (baseline->quiet_since_us < 0) {
		begin_minute(baseline, reading);
		return false;
	}
	baseline->most_bytes = larger(baseline->most_bytes, reading->foreign_bytes);
	baseline->most_unaccounted_bytes = larger(baseline->most_unaccounted_bytes, reading->unaccounted_bytes);
	if (reading->at_us - baseline->quiet_since_us < MINUTE_US)
		return false;
	bool taught = end_minute(baseline);
	begin_minute(baseline, reading);
	return taught;
}

int64_t baseline_bytes(const struct baseline *baseline)
{
	int64_t known = baseline->known.bytes, least = baseline->least_bytes;

	if (known < 0 || least < 0)
		return larger(known, least);
	return known < least ? known : least;
}
