#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * units - sizes and durations as people write and read them.
 *
 * Sizes: KiB MiB GiB TiB (powers of 1024), KB MB GB TB (powers of 1000), B, or
 * no unit for bytes; a fraction is allowed ("1.5GiB"). Durations: us ms s m h d,
 * a fraction is allowed; a bare number is refused except 0. Both are exact
 * integers inside: bytes and microseconds, never negative.
 */
bool units_parse_size(struct str text, int64_t *out_bytes);
bool units_parse_duration(struct str text, int64_t *out_us);

enum { UNITS_TEXT = 24 };

/* "4.2 GiB", "812 KiB", "0 B". Three significant digits. Returns `out`. */
const char *units_size(char out[UNITS_TEXT], int64_t bytes);
/* "850 ms", "3.1 s", "2 m 10 s", "3 h 5 m", "2 d 4 h". Returns `out`. */
const char *units_duration(char out[UNITS_TEXT], int64_t us);

#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)

#endif
