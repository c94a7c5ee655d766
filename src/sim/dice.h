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

static inline double dice_lognormal(struct rng *rng, double mean, double sigma)
{
	return mean * exp(sigma * dice_normal(rng) - sigma * sigma / 2);
}

/* Geometric with this mean, at least 1. */
static inline uint32_t dice_geometric(struct rng *rng, double mean)
{
	uint32_t n = 1;

	while (rng_unit(rng) < 1 - 1 / mean && n < 100000)
		n++;
	return n;
}

#endif
