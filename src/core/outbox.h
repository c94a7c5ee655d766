#ifndef CORE_OUTBOX_H
#define CORE_OUTBOX_H

#include "core/state.h"

/*
 * outbox - actions on their way out.
 *
 * Work is done in units that emit at most UNIT_ACTIONS_MAX actions, and a unit
 * starts only where the outbox has room for them. So a full `out` stops the
 * arbiter between two units, never inside one, and the order of the actions does
 * not depend on the caller's capacity.
 */
void outbox_put(struct arbiter *a, const struct action *action);
/* Move what fits to `out`; true where the outbox is empty afterwards. */
bool outbox_move(struct arbiter *a, struct actions *out);

#endif
