#include "core/policy.h"

const struct policy_ops *policy_ops(enum policy policy)
{
	switch (policy) {
	case POLICY_COTENANT:
		return &policy_cotenant;
	case POLICY_THRESHOLD:
	case POLICY_HYSTERESIS:
	case POLICY_COST_BENEFIT:
	case POLICY_LRU:
	case POLICY_ONE_AT_A_TIME:
	case POLICY_COUNT:
		break;
	}
	return &policy_lru;
}
