#ifndef CORE_PLAIN_H
#define CORE_PLAIN_H

#include "core/state.h"

/*
 * plain - deciding by two orders alone: whose turn it is, and who goes first.
 *
 * What runs is served before what would have to be loaded, by the policy's order
 * (policy.h). For one that is blocked others go: idle ones where that makes the
 * room suffice, never in vain; when its head is overdue, busy ones are drained as
 * well. What is on its way to it, and all that may go once it is overdue, is not
 * given to those behind it.
 *
 * One unit of work each; false: there was nothing to do.
 */
bool plain_dispatch(struct arbiter *a);
bool plain_place(struct arbiter *a);
/* A drain whose beneficiary no longer needs it: serve again. */
bool plain_undrain(struct arbiter *a);

#endif
