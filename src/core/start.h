#ifndef CORE_START_H
#define CORE_START_H

#include "core/habit.h"
#include "core/place.h"

/*
 * start - which waiting request runs next, and what it is weighed by.
 *
 * Of each ready model the request with most weight over expected time, plus age,
 * among those whose turn it is inside their class; of those the best, unless that would have more models run at once than gain by
 * it. Who fits nowhere has idle ones removed for it; until there is room only
 * those start that end before it can.
 */
enum { SCAN_MAX = 64, OFFERS_MAX = 64 }; /* requests of a queue, and models, that are looked at */

struct offer {
	struct model *model;
	struct request *request;
	double worth;
};

/* Keep the best, so many at most, best first; equal ones stay as they came. */
void offer_put(struct offer *offers, uint32_t most, uint32_t *count, const struct offer *offer);

static inline double request_waited_s(const struct arbiter *a, const struct request *request)
{
	return habit_seconds(a->now - request->arrived_at);
}

double request_weight(const struct request *request);

bool start_leaving(const struct arbiter *a);
/* Is less free than this share of a pool (ledger_kept); projected: once what leaves is gone and what loads is there. */
bool start_full(const struct arbiter *a, bool projected, int64_t permille);

/* One unit of work each. */
bool start_request(struct arbiter *a);
bool start_finish_load(struct arbiter *a); /* a load that was asked for is done once it is ready */

#endif
