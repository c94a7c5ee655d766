#include "core/arbiter.h"

/* A name for each value; NULL in a table or a value beyond it cannot happen with our own values. */
#define NAME_OF(names, value)                                                                    \
	((uint32_t)(value) < sizeof(names) / sizeof((names)[0]) ? (names)[value] : "unknown")

const char *model_state_name(enum model_state state)
{
	static const char *const names[MODEL_STATE_COUNT] = {
		[MODEL_UNLOADED] = "unloaded",   [MODEL_QUEUED] = "queued",
		[MODEL_LOADING] = "loading",     [MODEL_IDLE] = "idle",
		[MODEL_BUSY] = "busy",           [MODEL_DRAINING] = "draining",
		[MODEL_UNLOADING] = "unloading", [MODEL_RESIZING] = "resizing",
		[MODEL_SLEEPING] = "sleeping",   [MODEL_FAILED] = "failed",
	};
	return NAME_OF(names, state);
}

const char *decision_kind_name(enum decision_kind kind)
{
	static const char *const names[DECISION_KIND_COUNT] = {
		[DECISION_NONE] = "none",
		[DECISION_LOAD] = "load",
		[DECISION_READY] = "ready",
		[DECISION_EVICT] = "evict",
		[DECISION_UNLOAD] = "unload",
		[DECISION_RELEASED] = "released",
		[DECISION_DISPATCH] = "dispatch",
		[DECISION_QUEUE] = "queue",
		[DECISION_REFUSE] = "refuse",
		[DECISION_CANCEL] = "cancel",
		[DECISION_LOAD_FAILED] = "load_failed",
		[DECISION_DIED] = "died",
		[DECISION_DRAIN] = "drain",
		[DECISION_DRAIN_END] = "drain_end",
		[DECISION_EMERGENCY] = "emergency",
		[DECISION_PRESSURE] = "pressure",
		[DECISION_PIN] = "pin",
		[DECISION_GROW] = "grow",
		[DECISION_SHRINK] = "shrink",
		[DECISION_WARM] = "warm",
		[DECISION_GRANT] = "grant",
		[DECISION_DENY] = "deny",
		[DECISION_RECLAIM] = "reclaim",
		[DECISION_COMPACT] = "compact",
	};
	return NAME_OF(names, kind);
}

const char *reason_name(enum reason reason)
{
	static const char *const names[REASON_COUNT] = {
		[REASON_NONE] = "none",
		[REASON_REQUEST] = "request",
		[REASON_PRELOAD] = "preload",
		[REASON_OPERATOR] = "operator",
		[REASON_ROOM] = "room",
		[REASON_IDLE] = "idle",
		[REASON_OVERDUE] = "overdue",
		[REASON_LEAST_RECENT] = "least_recent",
		[REASON_PRESSURE] = "pressure",
		[REASON_CONFIG] = "config",
		[REASON_SHUTDOWN] = "shutdown",
		[REASON_SLOTS] = "slots",
		[REASON_LOADING] = "loading",
		[REASON_UNLOADING] = "unloading",
		[REASON_BACK_OFF] = "back_off",
		[REASON_LIMIT] = "limit",
		[REASON_CAPACITY] = "capacity",
		[REASON_VIEW] = "view",
		[REASON_PINS] = "pins",
		[REASON_MEASURE_FIRST] = "measure_first",
		[REASON_STALLED] = "stalled",
		[REASON_ALONE] = "alone",
		[REASON_SET] = "set",
		[REASON_SLOW] = "slow",
		[REASON_CONTEXT] = "context",
		[REASON_BLIND] = "blind",
	};
	return NAME_OF(names, reason);
}

const char *fits_name(enum fits fits)
{
	static const char *const names[FITS_COUNT] = {
		[FITS_NOW] = "now",
		[FITS_TIGHT] = "tight",
		[FITS_AFTER_EVICTION] = "after-eviction",
		[FITS_AFTER_LEASE] = "after-lease",
		[FITS_NEVER] = "never",
		[FITS_NOT_NOW] = "not-now",
	};
	return NAME_OF(names, fits);
}

const char *fail_name(enum fail fail)
{
	return (unsigned)fail < FAIL_COUNT ? fail_facts(fail)->name : "unknown";
}

const char *cause_name(enum end_cause cause)
{
	static const char *const names[CAUSE_COUNT] = {
		[CAUSE_NONE] = "none",
		[CAUSE_CRASHED] = "crashed",
		[CAUSE_KILLED] = "killed",
		[CAUSE_GROUP_LIMIT] = "group_limit",
		[CAUSE_MACHINE_FULL] = "machine_full",
		[CAUSE_DEVICE_FULL] = "device_full",
		[CAUSE_HOST_FULL] = "host_full",
	};
	return NAME_OF(names, cause);
}

const char *priority_name(enum priority priority)
{
	static const char *const names[PRIORITY_COUNT] = {
		[PRIORITY_INTERACTIVE] = "interactive",
		[PRIORITY_NORMAL] = "normal",
		[PRIORITY_BACKGROUND] = "background",
		[PRIORITY_BATCH] = "batch",
	};
	return NAME_OF(names, priority);
}

const char *policy_name(enum policy policy)
{
	static const char *const names[POLICY_COUNT] = {
		[POLICY_COTENANT] = "cotenant",
		[POLICY_THRESHOLD] = "threshold",
		[POLICY_HYSTERESIS] = "hysteresis",
		[POLICY_COST_BENEFIT] = "cost-benefit",
		[POLICY_LRU] = "lru",
		[POLICY_ONE_AT_A_TIME] = "one-at-a-time",
	};
	return NAME_OF(names, policy);
}
