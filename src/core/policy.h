#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "core/state.h"

/*
 * policy - in which order models are served and leave.
 *
 * A policy is two orderings; everything else (what may go, what fits, that
 * nobody goes in vain) is the same for all and lives in place.c. Both are strict
 * total orders: ties end at the arrival or the row.
 */
struct policy_ops {
	/* Of two models that wait: is x to be served first? */
	bool (*serves_before)(const struct arbiter *a, const struct model *x,
	                      const struct model *y);
	/* Of two instances that may go: is x to go first? */
	bool (*leaves_before)(const struct arbiter *a, const struct instance *x,
	                      const struct instance *y);
};

const struct policy_ops *policy_ops(enum policy policy);

extern const struct policy_ops policy_lru;

#endif
