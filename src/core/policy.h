#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "core/state.h"

/*
 * policy - in which order models are served and leave.
 *
 * Most policies are two orderings; everything else (what may go, what fits, that
 * nobody goes in vain) is the same for them and lives in plain.c. Both are strict
 * total orders: ties end at the arrival or the row.
 */
struct policy_ops {
	/* Of two models that wait: is x to be served first? */
	bool (*serves_before)(const struct arbiter *a, const struct model *x,
	                      const struct model *y);
	/* Of two instances that may go: is x to go first? */
	bool (*leaves_before)(const struct arbiter *a, const struct instance *x,
	                      const struct instance *y);
	/*
	 * One unit of work, false: nothing to do. NULL: plain.c serves in the two
	 * orders above. A policy that decides for itself passes the same admission.
	 */
	bool (*decide)(struct arbiter *a);
	/* Claims follow what habit.h learned, not the estimate of all that may run. */
	bool learns;
};

const struct policy_ops *policy_ops(enum policy policy);

extern const struct policy_ops policy_lru, policy_cotenant, policy_threshold, policy_hysteresis,
	policy_cost_benefit, policy_one_at_a_time;

/* A sample was taken: hysteresis remembers the share in use. */
void policy_earlier_sampled(struct arbiter *a);

#endif
