#ifndef ESTIMATE_BOUNDED_H
#define ESTIMATE_BOUNDED_H

#include <stdint.h>

/*
 * bounded - sums and products of sizes that a file dictates.
 *
 * Operands are 0 or more. A result that would pass BOUNDED_MOST stays there,
 * so a formula may be written as it stands in the book and the end asks once
 * whether the numbers made sense. 2^56 bytes is 64 PiB.
 */
#define BOUNDED_MOST (INT64_C(1) << 56)

static inline int64_t bounded_sum(int64_t a, int64_t b)
{
	int64_t sum;
	return __builtin_add_overflow(a, b, &sum) || sum > BOUNDED_MOST ? BOUNDED_MOST : sum;
}

static inline int64_t bounded_product(int64_t a, int64_t b)
{
	int64_t product;
	return __builtin_mul_overflow(a, b, &product) || product > BOUNDED_MOST ? BOUNDED_MOST : product;
}

/* `value` rounded up to a multiple of `step`, a power of two or not. */
static inline int64_t bounded_round(int64_t value, int64_t step)
{
	return bounded_product(bounded_sum(value, step - 1) / step, step);
}

static inline int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif
