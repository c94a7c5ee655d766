#ifndef APP_STORED_LEARNED_H
#define APP_STORED_LEARNED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arbiter.h"

/*
 * stored_learned - a row of what the arbiter learned, as it lies in history.db.
 *
 * The arbiter numbers the machine's pools; the next daemon may find them in another order, or one less. So
 * a stored row says by name which pool each of its bytes is of, and is numbered anew when it is read.
 */
struct stored_learned {
	uint64_t version;
	uint64_t pool[POOLS_MAX]; /* hash of its name; 0 = there was none of this number */
	struct learned_row row;   /* bytes by those numbers; LEARNED_PACE: build_key is such a hash */
};

enum { STORED_LEARNED_VERSION = 1 };

/* The names of this machine's pools, by number. */
struct pool_names {
	uint64_t hash[POOLS_MAX]; /* 0 = no such pool */
};

void stored_learned_of(const struct learned_row *row, const struct pool_names *names, struct stored_learned *out);
/* As this machine numbers its pools. False where it has bytes in one that is not here, or is of another version. */
bool stored_learned_here(const struct stored_learned *stored, const struct pool_names *names, struct learned_row *out);

/*
 * As it was stored until pools went by name. What its numbers meant was not kept; they are taken for what they mean
 * now, which they did unless the machine was changed since.
 */
struct numbered_learned {
	uint64_t file_key, build_key;
	uint32_t loads, caution_milli;
	int64_t load_us, prefill_ns, speed_milli;
	struct amount base, peak, sigma;
};
void stored_learned_of_numbered(const struct numbered_learned *old, const struct pool_names *names,
                                struct stored_learned *out);

#endif
