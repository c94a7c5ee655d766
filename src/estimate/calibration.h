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
enum { CALIBRATION_SPANS = 10, CALIBRATION_BUILDS = 8 };

/* Some loads in a row, or those of one build. Killed loads, which have no size, are left out. */
struct calibration_part {
	uint64_t build;        /* of a build's part */
	uint32_t first;        /* its first load's place in the stream */
	uint32_t loads;
	uint32_t covered;      /* took no more than the bound at 95 % */
	double error_median;   /* of the best estimate, as a part of the whole */
	double error_p95;
	double above_median;   /* the bound over what it took, likewise */
};

struct calibration {
	uint32_t killed;
	struct calibration_part all;
	struct calibration_part span[CALIBRATION_SPANS];
	uint32_t spans;
	struct calibration_part build[CALIBRATION_BUILDS]; /* the first ones that were seen */
	uint32_t builds;
};

void calibrate(const struct observation *observations, uint32_t count, struct calibration *out);

#endif
