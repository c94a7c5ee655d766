#ifndef APP_JOURNAL_H
#define APP_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "core/action.h"
#include "core/event.h"

/*
 * journal - which decisions stand in the daemon's log, so that it tells the story by itself.
 *
 * What came, went, or was refused is one line each, with its reason and numbers. What every request
 * brings (its place in a queue, its dispatch) stands there for who asked for more (-v), and so does
 * what its own line elsewhere tells better. Refusals come as fast as clients ask: past so many in
 * ten seconds they are counted, and the next line has their number.
 */
enum { JOURNAL_REFUSALS_MAX = 20 };

struct journal {
	int64_t since_us; /* of the ten seconds */
	uint32_t refusals, left_out;
};

enum log_level journal_level(const struct decision *decision);

/* False: it is only counted. `out_left_out`: how many were, since the last line of a refusal. */
bool journal_takes(struct journal *journal, const struct decision *decision, int64_t now_us, uint32_t *out_left_out);

#endif
