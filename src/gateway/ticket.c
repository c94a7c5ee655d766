/*
 * Rows are taken from the front of the table the first time and from a list of
 * freed ones afterwards, so a table for many requests costs the memory of those
 * that were ever open at once.
 */
#include "gateway/ticket.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

struct row {
	const struct ticket_handler *handler; /* NULL: free */
	void *owner;
	uint32_t generation;
	uint32_t next_free;
};

struct tickets {
	uint32_t capacity;
	uint32_t used;       /* rows ever taken */
	uint32_t first_free; /* UINT32_MAX: none */
	uint32_t open;
	struct row *rows;
};

struct tickets *tickets_new(uint32_t capacity)
{
	struct tickets *tickets = xcalloc(1, sizeof(*tickets));

	assert(capacity > 0);
	tickets->capacity = capacity;
	tickets->first_free = UINT32_MAX;
	tickets->rows = xcalloc(capacity, sizeof(*tickets->rows));
	return tickets;
}

void tickets_free(struct tickets *tickets)
{
	if (!tickets)
		return;
	free(tickets->rows);
	free(tickets);
}

static struct row *find(struct tickets *tickets, struct id ticket)
{
	if (id_is_none(ticket) || ticket.index >= tickets->used)
		return NULL;
	struct row *row = &tickets->rows[ticket.index];
	return row->handler && row->generation == ticket.generation ? row : NULL;
}

struct id ticket_open(struct tickets *tickets, const struct ticket_handler *handler, void *owner)
{
	uint32_t index = tickets->first_free;

	assert(handler);
	if (index != UINT32_MAX)
		tickets->first_free = tickets->rows[index].next_free;
	else if (tickets->used < tickets->capacity)
		index = tickets->used++;
	else
		return ID_NONE;

	struct row *row = &tickets->rows[index];
	assert(!row->handler);
	row->handler = handler;
	row->owner = owner;
	if (++row->generation == 0)
		row->generation = 1;
	tickets->open++;
	return (struct id){ index, row->generation };
}

void ticket_close(struct tickets *tickets, struct id ticket)
{
	struct row *row = find(tickets, ticket);

	if (!row)
		return;
	row->handler = NULL;
	row->owner = NULL;
	row->next_free = tickets->first_free;
	tickets->first_free = ticket.index;
	tickets->open--;
}

void ticket_verdict(struct tickets *tickets, const struct action *action)
{
	const struct row *row = find(tickets, action->request);

	if (!row)
		return;
	const struct ticket_handler *handler = row->handler;
	void *owner = row->owner;
	if (action->type == ACTION_REJECT || action->type == ACTION_DONE)
		ticket_close(tickets, action->request);
	handler->on_verdict(owner, action->request, action);
}

bool ticket_is_open(const struct tickets *tickets, struct id ticket)
{
	return find((struct tickets *)(uintptr_t)tickets, ticket) != NULL;
}

uint32_t tickets_open(const struct tickets *tickets)
{
	return tickets->open;
}
