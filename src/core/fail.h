#ifndef CORE_FAIL_H
#define CORE_FAIL_H

/*
 * fail - how a request can end without an answer.
 *
 * The one list that the arbiter, the gateway, metrics and history share. What a
 * client reads for each (HTTP status, error code, text) is one table in api/.
 */
enum fail {
	FAIL_NONE,
	FAIL_UNKNOWN_MODEL,  /* 404 */
	FAIL_NOT_LOADED,     /* 409: a look, or autoload is off */
	FAIL_QUEUE_FULL,     /* 429: this model's queue */
	FAIL_TABLE_FULL,     /* 429: limits.requests */
	FAIL_NEVER_FITS,     /* 507: not on this machine */
	FAIL_NO_ROOM,        /* 503: cannot fit now and nothing that may go would help */
	FAIL_LOAD_FAILED,    /* 502: the engine ended while loading */
	FAIL_BACKING_OFF,    /* 503: it failed just now; a new try is due at retry_after */
	FAIL_ENGINE_DIED,    /* 502: while this request ran */
	FAIL_DEADLINE,       /* 504 */
	FAIL_CANCELLED,      /* 499/409: by an operator */
	FAIL_CLIENT_GONE,    /* 499, history only */
	FAIL_DRAINING,       /* 503: the daemon or the model is going down */
	FAIL_WISH_REFUSED,   /* 409: an eject by role use of a model that is busy or pinned */
	FAIL_MODEL_REMOVED,  /* 404: gone with a reload of the configuration */
	FAIL_EMERGENCY,      /* 503: ended to save the machine's memory */
	FAIL_START_TIMEOUT,  /* 504: its load made no progress for too long */
	FAIL_UNREACHABLE,    /* 503: a server that we do not run does not answer */
	FAIL_COUNT,
};

/* What ended an engine that nobody told to end. */
enum end_cause {
	CAUSE_NONE,
	CAUSE_CRASHED,      /* by itself, or of a signal of its own */
	CAUSE_KILLED,       /* somebody else's SIGKILL */
	CAUSE_GROUP_LIMIT,  /* the kernel's OOM killer, at a control group's limit */
	CAUSE_MACHINE_FULL, /* the kernel's OOM killer, for the whole machine */
	CAUSE_DEVICE_FULL,  /* it could not get memory of its device, and gave up */
	CAUSE_HOST_FULL,    /* ... of the machine */
	CAUSE_COUNT,
};

#endif
