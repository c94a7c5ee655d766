/*
 * lru - first come, first served; the longest unused goes.
 *
 * Collation comes by itself: requests of a ready model need no load, so they
 * overtake those of a cold one.
 */
#include "core/model.h"
#include "core/policy.h"
#include "core/request.h"

/* A model that is to be resident though nobody asks comes after all that are asked for. */
static bool serves_before(const struct arbiter *a, const struct model *x, const struct model *y)
{
	const struct request *x_head = model_head(a, x), *y_head = model_head(a, y);

	if (x_head && y_head)
		return request_came_before(x_head, y_head);
	return !x_head == !y_head ? x < y : x_head != NULL;
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
