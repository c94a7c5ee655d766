#ifndef CORE_DECIDE_H
#define CORE_DECIDE_H

#include "core/ledger.h"
#include "core/state.h"

/*
 * decide - writing decisions down with the numbers they were made by.
 *
 * Each goes out as ACTION_RECORD; the last ones about a model are kept beside
 * it as well. Dispatches and waits of single requests are not kept: there are so
 * many that they would push out what explains them.
 */
/* `model` may be NULL: about the machine. */
struct decision decision_about(const struct arbiter *a, enum decision_kind kind, enum reason reason,
                               const struct model *model);
/* The numbers of what binds. */
void decision_weighed(const struct arbiter *a, struct decision *decision,
                      const struct verdict *verdict);
/* Give it its sequence, emit and keep it. */
void decision_record(struct arbiter *a, struct decision *decision);

#endif
