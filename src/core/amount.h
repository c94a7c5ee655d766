#ifndef CORE_AMOUNT_H
#define CORE_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * amount - bytes by where they lie and who touches them.
 *
 * Pools are physical and disjoint (system RAM, a carve-out, a card's VRAM), so
 * amounts add. The use tells which caps bound the bytes: a GTT limit bounds
 * what the GPU takes of system RAM and not what the host takes of it; a cgroup
 * limit the other way round.
 */
enum { POOLS_MAX = 8, VIEWS_MAX = 16 };

enum use {
	USE_HOST,
	USE_GPU,
	USE_COUNT,
};

struct amount {
	int64_t bytes[POOLS_MAX][USE_COUNT];
};

/* Bit of (pool, use) in a view's mask. */
#define VIEW_BIT(pool, use) (UINT32_C(1) << ((pool) * USE_COUNT + (use)))

static inline int64_t amount_in_pool(const struct amount *a, uint32_t pool)
{
	return a->bytes[pool][USE_HOST] + a->bytes[pool][USE_GPU];
}

static inline int64_t amount_total(const struct amount *a)
{
	int64_t total = 0;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		total += amount_in_pool(a, pool);
	return total;
}

/* That of most of its bytes. */
static inline uint32_t amount_main_pool(const struct amount *a)
{
	uint32_t most = 0;
	for (uint32_t pool = 1; pool < POOLS_MAX; pool++)
		if (amount_in_pool(a, pool) > amount_in_pool(a, most))
			most = pool;
	return most;
}

static inline void amount_add(struct amount *a, const struct amount *b)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			a->bytes[pool][use] += b->bytes[pool][use];
}

static inline void amount_subtract(struct amount *a, const struct amount *b)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			a->bytes[pool][use] -= b->bytes[pool][use];
}

/* Each place the larger of both. */
static inline struct amount amount_max(const struct amount *a, const struct amount *b)
{
	struct amount most = *a;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (b->bytes[pool][use] > most.bytes[pool][use])
				most.bytes[pool][use] = b->bytes[pool][use];
	return most;
}

static inline bool amount_equal(const struct amount *a, const struct amount *b)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (a->bytes[pool][use] != b->bytes[pool][use])
				return false;
	return true;
}

static inline struct amount amount_min(const struct amount *a, const struct amount *b)
{
	struct amount least = *a;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (b->bytes[pool][use] < least.bytes[pool][use])
				least.bytes[pool][use] = b->bytes[pool][use];
	return least;
}

#endif
