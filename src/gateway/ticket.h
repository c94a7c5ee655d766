#ifndef GATEWAY_TICKET_H
#define GATEWAY_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/action.h"
#include "core/ids.h"

/*
 * ticket - what a client's side holds while the arbiter decides.
 *
 * Every request to the arbiter (an exchange that wants a model, an operator's
 * load or unload) takes a ticket: a row of a fixed table whose {index,
 * generation} is the arbiter's name for the request. Verdicts come back to the
 * ticket's owner through its handler. The table is as large as
 * `limits.requests`; a full one is an answer (429), not a failure.
 *
 * Life cycle
 *
 *   1. ticket_open()      a row; then the owner sends EVENT_REQUEST_ARRIVED
 *   2. ticket_verdict()   by the shell, for each DISPATCH, CANCEL, REJECT, DONE;
 *                         REJECT and DONE close the ticket before the handler runs
 *   3. ticket_close()     by the owner, with the FINISHED or GONE event that ends it
 */
struct tickets;

struct ticket_handler {
	/* `action` is valid during the call. After REJECT and DONE the ticket is closed already. */
	void (*on_verdict)(void *owner, struct id ticket, const struct action *action);
};

struct tickets *tickets_new(uint32_t capacity);
void tickets_free(struct tickets *tickets);

/* ID_NONE where the table is full. */
struct id ticket_open(struct tickets *tickets, const struct ticket_handler *handler, void *owner);
void ticket_close(struct tickets *tickets, struct id ticket); /* stale: nothing */
void ticket_verdict(struct tickets *tickets, const struct action *action); /* stale: nothing */
/* False once it was closed: by a verdict that ended it, or by its owner. */
bool ticket_is_open(const struct tickets *tickets, struct id ticket);
uint32_t tickets_open(const struct tickets *tickets);

#endif
