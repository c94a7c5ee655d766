#ifndef CORE_WORK_H
#define CORE_WORK_H

#include "core/state.h"

/*
 * work - what follows from an event, one unit after the other, until nothing is
 * left to do.
 *
 * What is due next depends on the rows alone, so work can stop between any two
 * units and go on later: there is no cursor to lose. After it a step without
 * news emits nothing.
 */

/* Do one unit, which emits at most UNIT_ACTIONS_MAX actions; false: nothing was left. */
bool work_once(struct arbiter *a);

#endif
