/*
 * lru - first come, first served; the longest unused goes.
 *
 * Collation comes by itself: requests of a ready model need no load, so they
 * overtake those of a cold one.
 */
#include "core/model.h"
#include "core/policy.h"

/* A model that is to be resident though nobody asks comes after all that are asked for. */
static uint64_t head_arrival(const struct arbiter *a, const struct model *model)
{
	const struct request *head = model_head(a, model);

	return head ? head->arrival : UINT64_MAX;
}

static bool serves_before(const struct arbiter *a, const struct model *x, const struct model *y)
{
	uint64_t x_arrival = head_arrival(a, x);
	uint64_t y_arrival = head_arrival(a, y);

	return x_arrival != y_arrival ? x_arrival < y_arrival : x < y;
}

static bool leaves_before(const struct arbiter *a, const struct instance *x,
                          const struct instance *y)
{
	int64_t x_used = model_row(a, x->model)->last_used_at;
	int64_t y_used = model_row(a, y->model)->last_used_at;

	return x_used != y_used ? x_used < y_used : x->sequence < y->sequence;
}

const struct policy_ops policy_lru = {
	.serves_before = serves_before,
	.leaves_before = leaves_before,
};
