#ifndef CORE_ACTION_H
#define CORE_ACTION_H

#include <stdint.h>

#include "core/amount.h"
#include "core/fail.h"
#include "core/ids.h"

/*
 * action - everything the arbiter ever wants.
 *
 * Plain data, carried out by the shell once per loop turn in the order given
 * (the order is part of the contract; tests compare it). An action never fails
 * back into the arbiter: what becomes of it arrives as an event.
 */
enum action_type {
	ACTION_NONE,

	/* instances */
	ACTION_SPAWN,      /* start an engine for `model` as `instance`; its peak is claimed already */
	ACTION_STOP,       /* graceful: the adapter's drain rule, then TERM, TERM, KILL */
	ACTION_KILL,       /* at once */
	ACTION_ABORT_LOAD, /* end a load in flight */
	ACTION_RESTART,
	ACTION_SLEEP,
	ACTION_WAKE,
	ACTION_GROW,
	ACTION_SHRINK,
	ACTION_SOFT_RECLAIM,

	/* requests */
	ACTION_DISPATCH,   /* send `request` to `instance` now */
	ACTION_CANCEL,     /* end a dispatched request with `fail` */
	ACTION_REJECT,     /* a queued or new request ends with `fail`; its index is free again */
	ACTION_DONE,       /* a load, unload or stop request was carried out; its index is free again */

	/* conversations and files */
	ACTION_SAVE,
	ACTION_DISCARD,
	ACTION_RESTORE,
	ACTION_WARM, /* so many bytes of `model`'s file are to be cached (decision.need_bytes); most wanted first */
	ACTION_COOL, /* no more than so many */

	/* leases */
	ACTION_GRANT,
	ACTION_DENY,
	ACTION_RECLAIM,

	/* the shell */
	ACTION_TIMER,      /* one timer: EVENT_TICK at `at_us`; replaces the one before */
	ACTION_RECORD,     /* a decision, for people, history and metrics */
	ACTION_DRAINED,    /* after EVENT_SHUTDOWN: nothing runs any more */
	ACTION_TYPE_COUNT,
};

enum decision_kind {
	DECISION_NONE,
	DECISION_LOAD,       /* decided: claims peak_bytes */
	DECISION_READY,      /* the load is over: load_us; need_bytes: its claim */
	DECISION_EVICT,      /* `model` goes so that `for_model` fits */
	DECISION_UNLOAD,     /* idle too long, or an operator's wish (reason tells) */
	DECISION_RELEASED,   /* its bytes were seen to come back: took wait_us after the exit */
	DECISION_DISPATCH,
	DECISION_QUEUE,      /* a request waits: reason tells for what */
	DECISION_REFUSE,     /* reject with `fail` */
	DECISION_CANCEL,
	DECISION_LOAD_FAILED,
	DECISION_DIED,       /* a ready engine ended by itself */
	DECISION_DRAIN,      /* a busy model takes no new request: it is to make room */
	DECISION_DRAIN_END,  /* ... and serves again: it took too long */
	DECISION_EMERGENCY,
	DECISION_PRESSURE,
	DECISION_PIN,
	DECISION_GROW,
	DECISION_SHRINK,
	DECISION_WARM,
	DECISION_GRANT,
	DECISION_DENY,
	DECISION_RECLAIM,
	DECISION_COMPACT,
	DECISION_KIND_COUNT,
};

enum reason {
	REASON_NONE,
	REASON_REQUEST,       /* a request asked for it */
	REASON_PRELOAD,
	REASON_OPERATOR,
	REASON_ROOM,          /* somebody else needs the room */
	REASON_IDLE,          /* unload_after passed */
	REASON_OVERDUE,       /* the other has waited too long */
	REASON_LEAST_RECENT,  /* of those that may go, used longest ago */
	REASON_PRESSURE,
	REASON_CONFIG,
	REASON_SHUTDOWN,
	REASON_SLOTS,         /* waits for a free slot */
	REASON_LOADING,       /* waits for the load in flight */
	REASON_UNLOADING,     /* waits for bytes to come back */
	REASON_BACK_OFF,
	REASON_LIMIT,         /* memory.limit binds */
	REASON_CAPACITY,      /* the pool's B binds */
	REASON_VIEW,          /* a cap binds */
	REASON_PINS,          /* what is left is pinned or busy */
	REASON_MEASURE_FIRST,
	REASON_STALLED,
	REASON_ALONE,         /* beside nobody who could go it may go to the reserve */
	REASON_SET,           /* it comes and goes with another of its set */
	REASON_SLOW,          /* a load that made progress all the time, but took too long */
	REASON_CONTEXT,       /* it needs a larger context */
	REASON_BLIND,         /* the machine's memory cannot be read */
	REASON_COUNT,
};

/*
 * A decision with the numbers it was made by, in bytes and µs; fields that do
 * not apply are 0 (models: MODEL_NONE). `why` and history are made of these.
 */
struct decision {
	uint64_t sequence;
	int64_t at_us;
	uint32_t kind;      /* enum decision_kind */
	uint32_t reason;    /* enum reason */
	uint32_t fail;      /* enum fail */
	uint32_t model;
	uint32_t for_model; /* EVICT, DRAIN: who needs the room */
	uint32_t pool;      /* the pool (or view) that binds */
	uint64_t request;   /* sequence of the request it was for, 0 = none */
	uint64_t instance;  /* sequence of the instance, 0 = none */
	int64_t need_bytes; /* what was asked of the ledger */
	int64_t room_bytes; /* what the ledger had */
	int64_t held_bytes; /* claims of all instances */
	int64_t foreign_bytes;
	int64_t capacity_bytes;
	/* Of the instance; RELEASED: what came back of it; REFUSE of what never fits: need_bytes was measured, 0 = estimated. */
	int64_t measured_bytes;
	int64_t claim_bytes;    /* what the ledger held for it */
	int64_t machine_bytes;  /* RELEASED: by so much less of the machine is in use since then; others move it too */
	int64_t wait_us;    /* how long the request, or the release, took so far */
	int64_t load_us;    /* READY, LOAD_FAILED: of this load; EVICT, DRAIN: of the one that brings it back */
	int64_t idle_us;    /* EVICT: since its last use */
	uint32_t queued;
	uint32_t running;
	int64_t regret_milli; /* EVICT, DRAIN: what its going costs, in thousandths of a weighted second */
	int64_t prefill_us;   /* EVICT, DRAIN: of that, reading its conversations again */
	uint32_t asked;       /* EVICT, DRAIN: requests for it in the last hour */
	uint32_t asked_for;   /* ... and for the one that needs the room */
	uint32_t cause;       /* LOAD_FAILED, DIED: enum end_cause */
	uint32_t context_tokens; /* GROW, and the READY that ends it: per conversation, then */
	uint32_t context_was;    /* GROW, SHRINK: before */
	uint32_t request_kind;   /* QUEUE, REFUSE, CANCEL: enum request_kind, what was asked for */
	int32_t exit_status;     /* LOAD_FAILED, DIED: as waitpid(2) gives it */
	uint32_t outside;        /* RELEASED: a server that we do not run, and that may go on */
};

struct action {
	uint32_t type; /* enum action_type */
	uint32_t model;
	struct id instance;
	struct id request;
	uint32_t fail;          /* REJECT, CANCEL */
	uint32_t reason;        /* STOP, KILL: enum reason */
	int64_t at_us;          /* TIMER */
	int64_t retry_after_us; /* REJECT: when trying again may help; 0 = it will not */
	uint64_t instance_sequence; /* SPAWN: its public id */
	uint32_t slots;         /* SPAWN */
	uint32_t context_tokens; /* SPAWN */
	struct decision decision; /* RECORD; REJECT: the numbers behind it */
};

struct actions {
	struct action *items;
	uint32_t count;
	uint32_t capacity; /* at least 1 */
};

#endif
