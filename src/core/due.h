#ifndef CORE_DUE_H
#define CORE_DUE_H

#include "core/state.h"

/*
 * due - what comes due when: deadlines of requests, and of each model the next
 * thing that time alone will bring about.
 *
 * A binary heap by (time, node), so that equal times have one order. A node
 * stands in it at most once; its row knows its place.
 */

/* NEVER takes it out. */
void due_set_request(struct arbiter *a, struct request *request, int64_t at);
void due_set_model(struct arbiter *a, struct model *model, int64_t at);

/* Time of the earliest; NEVER where there is none. */
int64_t due_next(const struct arbiter *a);
/* When the shell is to wake us: for that, or because somebody waits and time may have changed something. */
int64_t due_wake(const struct arbiter *a);

/* Where a node says it stands. */
uint32_t *due_place(const struct arbiter *a, uint32_t node);

#endif
