#ifndef CORE_VALID_H
#define CORE_VALID_H

#include "core/state.h"

/*
 * valid - is an event possible at all?
 *
 * Indices within the tables, enumerators known, amounts and times within bounds
 * that keep every later sum exact. What an event names may still be dead; that
 * is stale, not impossible.
 */
bool event_is_possible(const struct arbiter *a, const struct event *event);

#endif
