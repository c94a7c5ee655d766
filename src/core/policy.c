#include "core/policy.h"

const struct policy_ops *policy_ops(enum policy policy)
{
	switch (policy) {
	case POLICY_COTENANT:
		return &policy_cotenant;
	case POLICY_THRESHOLD:
		return &policy_threshold;
	case POLICY_HYSTERESIS:
		return &policy_hysteresis;
	case POLICY_COST_BENEFIT:
		return &policy_cost_benefit;
	case POLICY_ONE_AT_A_TIME:
		return &policy_one_at_a_time;
	case POLICY_LRU:
	case POLICY_COUNT:
		break;
	}
	return &policy_lru;
}
