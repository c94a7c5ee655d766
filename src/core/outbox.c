#include "core/outbox.h"

#include <assert.h>

void outbox_put(struct arbiter *a, const struct action *action)
{
	assert(a->outbox_count < OUTBOX_ROWS);
	a->outbox[(a->outbox_first + a->outbox_count++) % OUTBOX_ROWS] = *action;
}

bool outbox_move(struct arbiter *a, struct actions *out)
{
	while (a->outbox_count && out->count < out->capacity) {
		out->items[out->count++] = a->outbox[a->outbox_first];
		a->outbox_first = (a->outbox_first + 1) % OUTBOX_ROWS;
		a->outbox_count--;
	}
	if (a->outbox_count)
		return false;
	a->outbox_first = 0; /* an outbox that is always emptied touches its first rows alone */
	return true;
}
