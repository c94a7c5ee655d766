#include "app/leaks.h"

#define LEAST_BYTES (4.0 * (1 << 20))

void leak_add(struct leak *leak, int64_t change_bytes)
{
	leak->change_bytes[leak->cycles++ % LEAK_CYCLES] = change_bytes;
}

static uint32_t kept(const struct leak *leak)
{
	return leak->cycles < LEAK_CYCLES ? leak->cycles : LEAK_CYCLES;
}

int64_t leak_slope_bytes(const struct leak *leak)
{
	uint32_t n = kept(leak);
	double mean = 0, squares = 0;

	if (n < LEAK_CYCLES_LEAST)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		mean += (double)leak->change_bytes[i] / n;
	for (uint32_t i = 0; i < n; i++) {
		double off = (double)leak->change_bytes[i] - mean;
		squares += off * off;
	}
	/* mean > 3 * sqrt(squares / (n - 1) / n), without the root */
	bool beyond_chance = mean > 0 && mean * mean > 9 * squares / (n - 1) / n;
	return mean > LEAST_BYTES && beyond_chance ? (int64_t)mean : 0;
}

int64_t leak_total_bytes(const struct leak *leak)
{
	return leak_slope_bytes(leak) * kept(leak);
}
