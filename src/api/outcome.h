#ifndef API_OUTCOME_H
#define API_OUTCOME_H

#include <stdint.h>

#include "gateway/gateway.h"

/*
 * outcome - how a request ended, in one word for history, metrics and people.
 *
 * An enum fail where something stood in its way. Where nothing did, the status
 * tells the rest: an engine's own error goes through unchanged, and is no
 * success for that.
 */
enum outcome {
	OUTCOME_OK = FAIL_NONE, /* ... and every other enum fail */
	OUTCOME_REFUSED = FAIL_COUNT, /* by us, for what it asked: doc/errors.md, the second table */
	OUTCOME_ENGINE_REFUSED,       /* the engine answered 4xx */
	OUTCOME_ENGINE_ERROR,         /* the engine answered 5xx */
	OUTCOME_COUNT
};

uint32_t outcome_of(const struct exchange_end *end);
const char *outcome_name(uint32_t outcome);

/* What the client was sent; where it was sent nothing, what its end is called (499: it left). 0 = neither. */
int outcome_status(const struct exchange_end *end);

#endif
