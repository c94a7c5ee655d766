#ifndef CORE_ARBITER_H
#define CORE_ARBITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/action.h"
#include "core/event.h"

/*
 * arbiter - decides who gets the memory.
 *
 * Pure: events in, actions out. It reads no clock, allocates nothing, calls
 * nothing outside this layer but mem*(), and holds no pointer, so it is one
 * block of memory: memcpy copies it (`plan` decides on such a copy), and the
 * same events give the same actions, byte for byte, on every machine.
 *
 * The block's tables have the fixed sizes of its limits. Rows that were never
 * used are never touched: in a fresh anonymous mapping they cost no memory. A
 * full table is an explicit rejection.
 *
 * Invariants (arbiter_check proves them after every step in tests, in the
 * simulator and under --paranoid):
 *
 *  - an instance's held bytes are never below its claim nor below what was
 *    measured of it; a pool's kept sum equals the sum over its holders;
 *  - a claim exists from the spawn decision until a sample showed the group
 *    gone and its bytes back;
 *  - a load is admitted only into room the ledger has, or beside nobody who could go;
 *  - a request is in exactly one place (a model's queue, an instance, ended)
 *    and ends exactly once; queues are in order of arrival;
 *  - a model has at most one instance that is not gone; a draining, unloading
 *    or failed one gets no dispatch; never more running than slots;
 *  - pinned models and running requests are never the victim of a load.
 *
 * Under the default policy these hold as well, and where each is proved:
 *
 *  - after each step, by arbiter_check(): what was let in with it, a reservation like a load, has room beside all
 *    that is held and all that others use, or is beside nobody who could go; a plan is for a model that is waited for, has somebody to
 *    wait for, and who drains for another does it for the plan; where nothing moves nobody waits for what there is
 *    room for; the margin lets nothing in that would not fit without it;
 *  - by assertions where it is decided: a load is of a cold model; an end cuts no running request but where it was
 *    said to; a dispatch goes to a ready engine with a free slot;
 *  - a step without news does nothing (measurements only note; the next step acts): by the unit tests after each
 *    step, in the simulator's worlds now and then; the same events give the same actions: by replays of recordings;
 *  - every request ends once, queues drain after the last fault, a shutdown comes to its end and all memory is
 *    back, few go before they have served whom they were loaded for: at the end of the simulator's worlds;
 *  - nobody is overdue for longer than the stated bound: in the simulator's workloads (sim/liveness.h);
 *  - what never fits is refused at once, and nobody goes for it: by the unit tests.
 *
 * Life cycle: arbiter_bytes() -> map that much zeroed memory -> arbiter_init()
 * -> EVENT_MACHINE, EVENT_MODEL for each model, EVENT_LEARNED rows -> any events.
 */
struct arbiter;

struct arbiter_limits {
	uint32_t models;
	uint32_t requests;
	uint32_t instances; /* 0 = models + 16 */
	uint32_t leases;
};

/* The size of the block for these limits; 0 where a limit is 0 (but leases) or absurd (> 2^20). */
size_t arbiter_bytes(const struct arbiter_limits *limits);

/* `block` is zeroed, aligned for any object, and arbiter_bytes() long. Returns it as an arbiter. */
struct arbiter *arbiter_init(void *block, const struct arbiter_limits *limits);

enum step {
	STEP_DONE,
	STEP_MORE, /* `out` is full: carry it out and call again with event NULL before the next event */
};

/* The largest amount of bytes that an event may name: the sums over its tables stay exact. */
int64_t arbiter_bytes_max(const struct arbiter *arbiter);

/*
 * Take one event and append what is to be done to `out` (count is not reset).
 * Total: an event that names a dead or impossible thing changes nothing and is
 * counted (arbiter_counters). Deterministic and bounded.
 */
enum step arbiter_step(struct arbiter *arbiter, const struct event *event, struct actions *out);

/* Abort, naming the invariant, if one is broken. O(everything). */
void arbiter_check(const struct arbiter *arbiter);

/* ---- reading: for ps, memory, metrics; valid until the next step ---- */

enum model_state {
	MODEL_UNLOADED,
	MODEL_QUEUED,    /* asked for; its load is not decided yet */
	MODEL_LOADING,
	MODEL_IDLE,
	MODEL_BUSY,
	MODEL_DRAINING,
	MODEL_UNLOADING, /* told to stop, or gone and its bytes not yet seen back */
	MODEL_RESIZING,
	MODEL_SLEEPING,
	MODEL_FAILED,    /* backing off; retry_at_us */
	MODEL_STATE_COUNT,
};

struct model_view {
	const struct model_spec *spec;
	enum model_state state;
	enum reason reason;      /* why it is in this state, where there is a why */
	bool pinned;             /* configured or by command */
	struct id instance;      /* ID_NONE where it has none */
	uint64_t instance_sequence;
	int32_t pid;
	uint32_t running;
	uint32_t queued;
	uint32_t slots;
	uint32_t context_tokens;
	uint32_t permille;       /* progress of the load */
	int64_t claim_bytes;     /* over all pools */
	int64_t measured_bytes;
	bool settled;            /* measured since it was ready; before, what is measured is of its load */
	int64_t peak_bytes;      /* highest measured of this instance */
	int64_t kept_bytes;      /* MODEL_LAZY: what its slots hold for conversations */
	int64_t kept_tokens;
	uint64_t kept_growths;   /* times that they came to hold more, of this instance */
	uint64_t growths;        /* times that it was started anew with a larger context */
	int64_t growths_us;      /* ... and what they took, all together */
	int64_t kv_bytes;        /* ... and what is claimed for those and for what runs */
	struct amount claim;
	struct amount measured;
	int64_t base_bytes;      /* what it is expected to take loaded and idle: as learned, else as estimated */
	int64_t lower_bytes;     /* it takes at least that: what "never fits" is judged by */
	int64_t load_peak_bytes; /* what a load would claim now */
	uint32_t observed;       /* loads that were measured: 0 = the expectation is the estimate's */
	int64_t last_used_at_us; /* 0 = never */
	int64_t loading_since_us;
	int64_t last_load_us;
	int64_t retry_at_us;     /* FAILED */
	uint32_t loads;
	uint32_t failures;       /* in a row */
	uint32_t asked;          /* requests in the last hour */
	int64_t cached_tokens;   /* of conversations that its engine still holds, as far as known */
	int64_t warm_bytes;      /* of its file, in the page cache */
	double speed_alone;      /* tokens a second while no other model ran; 0 = not known */
};

struct pool_view {
	int64_t size_bytes;
	int64_t reserve_bytes;
	int64_t capacity_bytes;      /* B */
	int64_t unreclaimable_bytes; /* U of the last sample */
	int64_t foreign_bytes;
	int64_t held_bytes;          /* by instances and leases */
	int64_t free_bytes;          /* largest need that would be admitted now, before the policy's spread */
	uint32_t binds;              /* enum reason: which of capacity, view, limit sets free_bytes */
	double active_most;          /* models that gain by running at once */
	double speed_shared[4];      /* of one among 2, 3, 4, 5 at once, as a share of its speed alone; 0 = not known */
};

struct arbiter_counters {
	uint64_t steps;
	uint64_t stale_events;  /* named something dead */
	uint64_t invalid_events;
	uint64_t loads;
	uint64_t load_failures;
	uint64_t evictions;
	uint64_t unserved;      /* evictions for somebody else of one that was waited for and had served nobody */
	uint64_t unloads;
	uint64_t dispatches;
	uint64_t rejects[FAIL_COUNT];
	uint64_t emergencies;
	uint64_t decisions;
};

uint32_t arbiter_models(const struct arbiter *arbiter); /* rows ever used: indices below it may be absent */
bool arbiter_model(const struct arbiter *arbiter, uint32_t model, struct model_view *out); /* false: absent */

/* It is not loaded and can never be, as things are configured: as it would be refused, with the numbers. False: it can. */
bool arbiter_never(const struct arbiter *arbiter, uint32_t model, struct decision *out);

/* Of a model what each sample asks for: a part of its view that costs next to nothing. */
struct model_hold {
	enum model_state state;
	struct amount claim; /* zero where it has no instance */
};

/* What each request asks for; NULL and ID_NONE: absent, not loaded. */
const char *arbiter_name(const struct arbiter *arbiter, uint32_t model);
struct id arbiter_instance(const struct arbiter *arbiter, uint32_t model);
bool arbiter_hold(const struct arbiter *arbiter, uint32_t model, struct model_hold *out); /* false: absent */
uint32_t arbiter_pools(const struct arbiter *arbiter);
void arbiter_pool(const struct arbiter *arbiter, uint32_t pool, struct pool_view *out);
const struct arbiter_counters *arbiter_counters(const struct arbiter *arbiter);
uint32_t arbiter_requests_live(const struct arbiter *arbiter);
/* Place of a waiting request in its model's queue, from 1; 0 = not waiting. */
uint32_t arbiter_queue_position(const struct arbiter *arbiter, struct id request);

/* The last decisions about one model, newest first; returns how many were written. */
enum { DECISIONS_KEPT = 16 };
uint32_t arbiter_decisions(const struct arbiter *arbiter, uint32_t model,
                           struct decision out[DECISIONS_KEPT]);

enum fits {
	FITS_NOW,
	FITS_TIGHT,          /* beside nobody who could go, into the spread */
	FITS_AFTER_EVICTION,
	FITS_AFTER_LEASE,
	FITS_NEVER,
	FITS_NOT_NOW,        /* it would have to wait for busy or pinned models */
	FITS_COUNT,
};

enum { PLAN_VICTIMS_MAX = 64 };

struct plan {
	enum fits fits;
	enum reason reason;      /* what binds; NONE where it fits as things are */
	int64_t need_bytes;      /* steady */
	int64_t peak_bytes;
	int64_t free_bytes;
	int64_t asked_bytes;     /* what the ledger is asked for: the peak, a request, and what may be off; 0 = nothing */
	int64_t room_bytes;      /* and what it had for that before anybody went */
	int64_t wait_estimate_us;
	bool loaded;             /* it serves already */
	bool measured;           /* FITS_NEVER: by what it was measured to take, not by an estimate */
	uint32_t victims;
	uint32_t victim[PLAN_VICTIMS_MAX];
	int64_t victim_bytes[PLAN_VICTIMS_MAX];
	int64_t victim_regret_milli[PLAN_VICTIMS_MAX];
	int64_t victim_prefill_us[PLAN_VICTIMS_MAX]; /* to read again what its conversations have said */
};

/*
 * What asking for `model` now would do: the decision's own code on a copy in
 * `scratch` (zeroed, arbiter_bytes() long, the caller's to give back). False
 * where there is no such model.
 */
bool arbiter_plan(const struct arbiter *arbiter, uint32_t model, void *scratch, struct plan *out);

/*
 * Would the model find room if it were loaded as `spec` says, in the place of what it holds now? It looks
 * at the account alone: NOW and TIGHT as it is, AFTER_EVICTION without those that run nothing and may go,
 * NOT_NOW without all that may go, else NEVER.
 */
enum fits arbiter_fits(const struct arbiter *arbiter, uint32_t model, const struct model_spec *spec);

/*
 * The same for a request of a MODEL_LAZY that is to claim `need`: in its instance, or with a load. AFTER_EVICTION:
 * idle models or idle conversations would go for it, its own model's too, and what runs on that would have ended.
 */
enum fits arbiter_fits_request(const struct arbiter *arbiter, uint32_t model, const struct amount *need);

/* Learned rows that changed since they were last exported; returns how many were written. */
uint32_t arbiter_export(struct arbiter *arbiter, struct learned_row *out, uint32_t capacity);

/* ---- names, for texts, JSON and metrics ---- */
const char *model_state_name(enum model_state state); /* "unloaded", "queued", ... */
const char *decision_kind_name(enum decision_kind kind);
const char *reason_name(enum reason reason);
const char *fits_name(enum fits fits);   /* "now", "tight", "after-eviction", ... */
const char *fail_name(enum fail fail);   /* "queue_full", ... */
const char *cause_name(enum end_cause cause); /* "crashed", "group_limit", ... */
const char *priority_name(enum priority priority);
const char *policy_name(enum policy policy);

#endif
