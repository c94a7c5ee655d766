#ifndef CORE_FAIL_H
#define CORE_FAIL_H

/*
 * fail - how a request can end without an answer.
 *
 * The one list that the arbiter, the gateway, metrics and history share, and one
 * table of what follows from each: what a client reads, what it is called in
 * metrics, history and recordings, and what it means (doc/errors.md is made of it).
 */
enum fail {
	FAIL_NONE,
	FAIL_UNKNOWN_MODEL,
	FAIL_NOT_LOADED,
	FAIL_QUEUE_FULL,
	FAIL_TABLE_FULL,
	FAIL_NEVER_FITS,
	FAIL_NO_ROOM,
	FAIL_LOAD_FAILED,
	FAIL_BACKING_OFF,
	FAIL_ENGINE_DIED,
	FAIL_DEADLINE,
	FAIL_CANCELLED,
	FAIL_CLIENT_GONE,
	FAIL_DRAINING,
	FAIL_WISH_REFUSED,
	FAIL_MODEL_REMOVED,
	FAIL_EMERGENCY,
	FAIL_START_TIMEOUT,
	FAIL_UNREACHABLE,
	FAIL_OUT_OF_MEMORY,
	FAIL_BLIND,
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

struct fail_facts {
	const char *name;           /* in history, recordings, and as a label of metrics */
	int status;                 /* HTTP; 499: nobody is there to read it */
	const char *code;           /* error.code of the answer */
	int retry_after_s;          /* where the arbiter names no time; 0: waiting does not help */
	const char *before, *after; /* the answer's words around "model 'x'" */
	const char *cause;          /* in a few words, of "it": the model or the request */
	const char *meaning;        /* for whoever reads the documentation */
};

/* Of any number: one that is none of the list reads as FAIL_NONE. */
const struct fail_facts *fail_facts(enum fail fail);

/* FAIL_NEVER_FITS: what would let it in, by what binds (enum reason). */
const char *fail_never_remedy(unsigned reason);

#endif
