#ifndef ESTIMATE_CALIBRATION_H
#define ESTIMATE_CALIBRATION_H

#include <stdint.h>

#include "estimate/correct.h"

/*
 * calibration - whether the bounds that were stated held.
 *
 * A fresh corrector meets the observations in their order; each is judged by what
 * the corrector had said of it before it learned from it.
 */
/* Fewer loads than CALIBRATION_FEW tell no share and no percentile: no span of time is shorter. */
enum { CALIBRATION_FEW = 20, CALIBRATION_SPANS = 10, CALIBRATION_BUILDS = 8, CALIBRATION_NAME = 128 };

/* Some loads in a row, or those of one build. Killed loads, which have no size, are left out. */
struct calibration_part {
	uint64_t build;        /* of a build's part */
	int64_t at_ms;         /* when its first load was, Unix time; 0 = not known */
	uint32_t first;        /* that one's place in the stream */
	uint32_t loads;
	uint32_t covered;      /* took no more than the bound at 95 % */
	uint32_t unused;
	/* Of the best estimate, as a part of the whole. Too much is none where not all was touched yet. */
	double error_median;
	double error_p95;
	/* The best estimate against what was measured, whatever was touched: more than 0 = it said too much. */
	double off_median;
	double off_p95;        /* of its size */
	double above_median;   /* the bound over what it took, likewise */
};

struct calibration {
	uint32_t killed;
	uint32_t spans, builds;
	uint32_t unused;
	struct calibration_part all;
	struct calibration_part span[CALIBRATION_SPANS];
	struct calibration_part build[CALIBRATION_BUILDS]; /* the first ones that were seen */
	char build_name[CALIBRATION_BUILDS][CALIBRATION_NAME]; /* for people; "" = not known */
};

/* `at_ms`: of each, Unix time; NULL: not known. Builds have no names yet. */
void calibrate(const struct observation *observations, const int64_t *at_ms, uint32_t count, struct calibration *out);

#endif
