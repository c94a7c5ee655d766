#include "core/due.h"

#include <assert.h>

uint32_t *due_place(const struct arbiter *a, uint32_t node)
{
	if (node < a->requests_rows)
		return &request_row(a, node)->due_place;
	return &model_row(a, node - a->requests_rows)->due_place;
}

static bool comes_before(struct due x, struct due y)
{
	return x.at != y.at ? x.at < y.at : x.node < y.node;
}

static void put(struct arbiter *a, uint32_t place, struct due due)
{
	*due_row(a, place) = due;
	*due_place(a, due.node) = place + 1;
}

static void sift_up(struct arbiter *a, uint32_t place, struct due due)
{
	while (place > 0) {
		uint32_t parent = (place - 1) / 2;
		if (!comes_before(due, *due_row(a, parent)))
			break;
		put(a, place, *due_row(a, parent));
		place = parent;
	}
	put(a, place, due);
}

static void sift_down(struct arbiter *a, uint32_t place, struct due due)
{
	for (;;) {
		uint32_t child = 2 * place + 1;
		if (child >= a->dues)
			break;
		if (child + 1 < a->dues && comes_before(*due_row(a, child + 1), *due_row(a, child)))
			child++;
		if (!comes_before(*due_row(a, child), due))
			break;
		put(a, place, *due_row(a, child));
		place = child;
	}
	put(a, place, due);
}

static void settle(struct arbiter *a, uint32_t place, struct due due)
{
	if (place > 0 && comes_before(due, *due_row(a, (place - 1) / 2)))
		sift_up(a, place, due);
	else
		sift_down(a, place, due);
}

static void take_out(struct arbiter *a, uint32_t node)
{
	uint32_t place = *due_place(a, node) - 1;
	struct due last = *due_row(a, --a->dues);

	*due_place(a, node) = 0;
	*due_row(a, a->dues) = (struct due){ 0 };
	if (place < a->dues)
		settle(a, place, last);
}

static void set(struct arbiter *a, uint32_t node, int64_t at)
{
	uint32_t place = *due_place(a, node);

	if (at == NEVER) {
		if (place)
			take_out(a, node);
		return;
	}
	struct due due = { .at = at, .node = node };
	if (place)
		settle(a, place - 1, due);
	else
		sift_up(a, a->dues++, due);
}

void due_set_request(struct arbiter *a, struct request *request, int64_t at)
{
	set(a, request_index(a, request), at);
}

void due_set_model(struct arbiter *a, struct model *model, int64_t at)
{
	set(a, a->requests_rows + model_index(a, model), at);
}

int64_t due_next(const struct arbiter *a)
{
	return a->dues ? due_row(a, 0)->at : NEVER;
}

int64_t due_wake(const struct arbiter *a)
{
	int64_t next = due_next(a);

	return a->waits_weight > 0 && a->recheck_at < next ? a->recheck_at : next;
}
