#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "core/ledger.h"
#include "core/state.h"

/*
 * place - who gets room next, and who goes for it.
 *
 * Two things want room: a load (its model's peak), and the head of a ready
 * model's queue whose need does not fit beside what is held. Both pass the same
 * admission. For one that is blocked others go: idle ones where that makes the
 * room suffice, never in vain; when its head is overdue, busy ones are drained as
 * well. What is on its way to it, and all that may go once it is overdue, is not
 * given to those behind it.
 */

/* One unit of work each; false: there was nothing to do. */
bool place_dispatch(struct arbiter *a);
bool place_one(struct arbiter *a);
/* A drain whose beneficiary no longer needs it: serve again. */
bool place_undrain(struct arbiter *a);

/* Not on this machine: not even beside nothing but the pinned, at the least foreign use ever seen. */
bool place_never(const struct arbiter *a, const struct model *model, struct verdict *out);

/* The longest unused instance that runs nothing and may go; NULL: none. */
struct instance *place_idle(const struct arbiter *a, bool with_queue, bool pinned_too);

#endif
