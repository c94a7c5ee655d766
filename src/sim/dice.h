#ifndef SIM_DICE_H
#define SIM_DICE_H

#include <math.h>

#include "base/rng.h"

/* dice - the random stream of the scheduling study, draw by draw as its text says. */
static inline struct rng dice_seeded(uint64_t x)
{
	struct rng rng = { x * 0x9E3779B97F4A7C15u + 0x1234567u };

	for (int i = 0; i < 8; i++)
		rng_next(&rng);
	return rng;
}

static inline double dice_exponential(struct rng *rng, double mean)
{
	return -mean * log(1 - rng_unit(rng));
}

static inline double dice_normal(struct rng *rng)
{
	double a = rng_unit(rng);
	double b = rng_unit(rng);

	return sqrt(-2 * log(1 - a)) * cos(2 * 3.14159265358979323846 * b);
}

#endif
