#ifndef API_MEMORY_H
#define API_MEMORY_H

#include <jansson.h>
#include <stdint.h>

#include "core/arbiter.h"
#include "probe/sample.h"

/*
 * memory - the account of every byte, as JSON.
 *
 * With the daemon it is the arbiter's ledger; without one it is what a single
 * sample tells, and says so. The owners' measured bytes add up to the pool's
 * unreclaimable use: system (the baseline), instances, and foreign for what is
 * left. Shape: ARCHITECTURE.md, "memory".
 */
struct memory_input {
	const struct arbiter *arbiter; /* NULL: no daemon, the sample alone */
	const struct sample *sample;   /* never NULL */
	int64_t baseline_bytes;        /* -1 = not known: the sample's own use is taken */
	int64_t reserve_bytes;         /* used where there is no arbiter */
	int64_t limit_bytes;           /* memory.limit; INT64_MAX = none */
};

/* A new reference. */
json_t *memory_json(const struct memory_input *input);

#endif
