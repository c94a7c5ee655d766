#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/*
 * rng - SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators", 2014). Deterministic from its seed on every machine: for the
 * simulator and tests, never for secrets (those come from getrandom(2)).
 */
struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* Uniform in [0, bound); the bias of the remainder is below bound / 2^64. bound > 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	return rng_next(rng) % bound;
}

/* Uniform in [0, 1), 53 bits. */
static inline double rng_unit(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

#endif
