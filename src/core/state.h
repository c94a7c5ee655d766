#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "core/arbiter.h"

/*
 * state - the rows of the arbiter's block. Private to core/.
 *
 * The block is struct arbiter followed by its tables at fixed offsets. A zeroed
 * block is a valid empty one: links and places are index + 1, so that 0 means
 * none, and a table's used prefix only grows. Times here are awake time: the
 * event's time less what the machine slept, so that nothing comes due merely
 * because a lid was closed.
 */

#define NEVER INT64_MAX

/* The most one amount may hold in a pool and use; set at init so that no sum can overflow. */
#define TIME_MAX (INT64_C(1) << 61)
#define SPAN_MAX (INT64_C(1) << 60)

enum {
	OUTBOX_ROWS = 32,
	UNIT_ACTIONS_MAX = 16, /* what one unit of work may emit */
	SLOTS_MAX = 65536,
	FOREIGN_KEPT = 32,
	TURNS_KEPT = 16,
	HELD_KEPT = 8,
	ASKED_KEPT = 12,
	USE_KEPT = 20,
};

/* A list of request rows through their links. */
struct chain {
	uint32_t first; /* index + 1; 0 = none */
	uint32_t last;
	uint32_t count;
	uint32_t unused;
};

enum request_state {
	REQUEST_FREE,
	REQUEST_WAITING, /* in its model's queue, or among those who wait for its unload */
	REQUEST_RUNNING, /* in its instance's chain */
	REQUEST_ENDING,  /* cancelled; in no chain; the shell's FINISHED or GONE is to come */
};

struct request {
	uint32_t generation;
	uint32_t state; /* enum request_state */
	uint32_t next, prev;
	uint32_t due_place;     /* of its deadline */
	uint32_t unused;
	struct id instance;     /* RUNNING, ENDING */
	uint64_t arrival;       /* order in which they were heard of, over all */
	int64_t arrived_at;     /* for the first time: who was given back keeps his place */
	int64_t started_at;     /* RUNNING */
	double crowd_at_start;  /* RUNNING: its pool's crowd (pace.h) and its instance's `ran` then */
	double ran_at_start;
	int64_t deadline_at;    /* NEVER = none */
	struct request_spec spec; /* need resolved */
};

enum instance_state {
	INSTANCE_FREE,
	INSTANCE_LOADING,
	INSTANCE_READY,
	INSTANCE_DRAINING, /* ready, but takes no new request; drain tells why */
	INSTANCE_STOPPING, /* told to end */
	INSTANCE_GONE,     /* its group is gone; its bytes were not yet seen back */
};

/* A conversation that an engine still holds. */
struct held {
	uint64_t conversation; /* 0 = none */
	int64_t tokens;
	int64_t at;            /* of its last turn's end */
};

/* What its slots hold for conversations, of a MODEL_LAZY; all zero else. See kept.h. */
struct kept {
	int64_t slot_bytes[HELD_SLOTS_MAX]; /* largest first */
	uint32_t slots;
	uint32_t settling;      /* requests that ended since this was told */
	int64_t settling_bytes; /* their needs */
	int64_t settling_least;
	uint64_t growths;       /* times that they were told to hold more */
	int64_t total_bytes;
	int64_t tokens;
};

struct instance {
	uint32_t generation;
	uint32_t state; /* enum instance_state */
	uint32_t next, prev;    /* live ones in order of opening; next also links free ones */
	uint32_t model;
	uint32_t slots;
	uint32_t context_tokens;
	uint32_t permille;
	int32_t pid;
	uint32_t ending;        /* cancelled requests that have not ended yet */
	uint32_t cut;           /* enum fail: its running requests are being cancelled */
	uint32_t drain;         /* enum reason; DRAINING */
	uint32_t drain_for;     /* model index + 1 that needs the room; 0 = none */
	uint32_t stop_reason;   /* enum reason; STOPPING, GONE */
	uint32_t measuring;     /* loads alone to be measured; until it was */
	uint32_t complete;      /* the last measurement was */
	uint32_t fresh;         /* measured since the last sample: `seen` is valid */
	uint32_t seen_gone;
	uint32_t settled;       /* measured since it was ready: what it takes is known */
	uint32_t released;      /* GONE: a sample showed its bytes back */
	uint32_t idle_samples;  /* of this life, up to 2: it taught the model's base */
	uint32_t outdated;      /* launched by a spec that has changed since: teaches nothing */
	uint32_t served;        /* requests dispatched to it so far */
	uint32_t expects;       /* LOADING: requests its claim has room for */
	uint32_t outside;       /* a server that we do not run: its load reads nothing */
	uint32_t apart_next, apart_prev; /* those that are not READY, in order of opening */
	uint64_t sequence;
	struct chain running;
	uint64_t opened_step;
	int64_t opened_at;
	int64_t progress_at;
	int64_t ready_at;
	int64_t drain_at;
	int64_t drain_not_before; /* a drain of it was given up; not again before */
	int64_t exited_at;
	int64_t foreign_at_open[POOLS_MAX];
	struct amount claim;
	struct amount own;
	int64_t held_bytes;     /* the larger of both, over all places */
	int64_t had_bytes;      /* own, in the last sample before it was to go, or in a later one that shows more ... */
	int64_t machine_had_bytes; /* ... and what was in use of all pools, in the same */
	struct amount base;     /* of its claim when ready */
	struct amount needs;    /* of its running and ending requests */
	struct amount swing;    /* while they run, beyond base and needs: what was learned; may be negative */
	struct amount sigma;
	struct amount peak;     /* highest own so far */
	struct amount load_peak; /* highest own while loading, by two samples in a row */
	struct amount idle;     /* highest own while ready with nothing running, likewise */
	struct amount sure;     /* of that, by two samples in a row, without what may be caches; zero: not yet */
	int64_t filled_tokens;  /* of the context, by a prompt that filled a physical batch; 0 = none did */
	struct amount last;     /* the last sample of either kind */
	uint32_t clearing;      /* told to give up its conversations: no request until it has */
	uint32_t by_hand;       /* a load that somebody asked for is done with it */
	uint32_t alone;         /* it was let in because nobody who could go was there */
	uint32_t unused_alone;
	int64_t clear_not_before;
	int64_t least_need;     /* the smallest need of those that run or are ending; INT64_MAX = none */
	int64_t kv_bytes;       /* MODEL_LAZY: in its claim, for conversations live and kept */
	struct kept kept;
	struct amount seen;     /* by EVENT_MEASURED since the last sample */
	double ran;             /* seconds of all its requests together */
	struct held held[HELD_KEPT];
};

/*
 * What was learned of how a model lives, in the units a person would use: ratios,
 * seconds, bytes as fractions. All zero: nothing yet.
 */
struct habit {
	uint64_t turn_conversation[TURNS_KEPT]; /* who was served last: a ring */
	uint32_t turn_key[TURNS_KEPT];
	uint32_t turns;
	uint32_t unused_turns;
	double ratio;          /* measured idle bytes over the estimate's; 0 = not yet */
	double variance;       /* of the ratio */
	double rest;           /* bytes beyond base and needs while it runs, seen twice of late */
	double rest_once;      /* ... seen once */
	double rate;           /* arrivals a second */
	double class_weight;   /* of those who ask for it */
	double load_s;
	double service_s;
	double prefill_s;      /* to read one token of a prompt; 0 = not known */
	double speed_alone;    /* tokens a second while no other model runs; 0 = not known */
	double caution;        /* it ran out of memory: so many steps more are allowed for; 0 = none */
	uint32_t asked[ASKED_KEPT]; /* arrivals by five minutes: a ring */
	int64_t asked_at;      /* number of the five minutes that are being counted */
	int64_t last_arrival;
	int64_t last_end;
	uint32_t samples;      /* behind the ratio */
	uint32_t runs_seen;    /* samples behind `rest` */
	uint32_t arrivals;
	uint32_t unused;
};

struct model {
	uint32_t present;
	uint32_t stirring;      /* linked among those with anything to do */
	uint32_t next, prev;
	uint32_t due_place;
	uint32_t instance;      /* index + 1; 0 = none */
	int32_t pin_command;    /* 1 pinned, -1 unpinned, 0 as configured */
	uint32_t preload;       /* to be resident though nobody asks */
	uint32_t renewing;      /* `preload` is for this once: it was loaded when its settings changed */
	uint32_t purge;         /* enum fail: its queue is being rejected */
	uint32_t wait_reason;   /* enum reason: what its queue waits for */
	uint32_t wait_pool;
	uint32_t evictors;      /* queued requests for which others may be evicted */
	uint32_t loads;
	uint32_t load_failures; /* in a row */
	uint32_t crashes;       /* when ready, in a row */
	uint32_t never_ready;   /* the last load failure said not to retry */
	uint32_t decisions;     /* ever kept */
	uint32_t learned_dirty;
	uint32_t mate;          /* the next of its set, index + 1, in a ring; 0 = none */
	uint32_t squeezed;      /* so often in a row it went for memory that was short, and nobody had used it */
	uint32_t rests;         /* it went for idleness or by command: its set does not call it back before one of it is used */
	uint32_t pool;          /* where it runs: that of most of its base */
	uint32_t listed;        /* among all there ever were, those last asked for or served first */
	uint32_t later, earlier; /* ... index + 1; 0 = none */
	uint32_t worth_depth;   /* how much of its queue `worth` is of; 0 = to be weighed anew */
	uint32_t next_best;     /* request index + 1: whose turn it is, of so much of its queue; 0 = to be found anew */
	uint32_t next_depth;
	struct chain queue;     /* INFER and LOAD, by arrival */
	struct chain unloads;   /* UNLOAD and STOP: done when it is gone */
	int64_t due_at;
	int64_t last_used_at;
	int64_t back_at;            /* nobody asks for it: it does not come back by itself before */
	int64_t retry_at;
	int64_t last_load_us;
	int64_t resize_at;          /* a larger context was decided then and is not there yet; 0 = none */
	int64_t resize_us;          /* what growths took, all together */
	uint64_t resizes;           /* growths that came to their end */
	struct amount resize_claim; /* meanwhile its instance claims at least that; zero where others must go first */
	int64_t cached_bytes;       /* of its file, as told */
	struct model_spec spec;
	double look;                /* waits_weight over its load; 0 = to be reckoned anew */
	double worth;               /* of loading it, but for its oldest request's age */
	int64_t waits_weight;       /* sum of the class weights in its queue */
	int64_t waits_arrival;      /* ... each times its arrival */
	struct habit habit;
	struct amount least;        /* MODEL_LAZY: it took this before it served anybody ... */
	struct amount hopeless;     /* ... and had no room for one of this need; zero: none yet, or it served since */
	struct learned_row prior;   /* before this life of its instance */
	struct learned_row learned; /* prior and what this life taught */
};

/* How much models slow one another in one pool (pace.h). */
struct pace {
	double active;          /* bandwidths of those that run something now */
	double crowd;           /* its sum over time, in seconds */
	double shared[CROWDS];  /* speed of one among 2, 3 ... as a share of its speed alone */
	uint32_t seen[CROWDS];  /* answers behind it */
	uint32_t dirty;         /* to be exported */
	uint32_t unused;
};

struct due {
	int64_t at;
	uint32_t node; /* a request's row, or requests_rows + a model's row */
	uint32_t unused;
};

enum shutdown {
	SHUTDOWN_NONE,
	SHUTDOWN_IN_PEACE, /* what runs finishes */
	SHUTDOWN_AT_ONCE,
};

struct arbiter {
	struct arbiter_limits limits;
	uint32_t requests_rows;  /* limits.requests and one for a plan */
	uint32_t requests_used;
	uint32_t requests_live;
	uint32_t models_used;
	uint32_t instances_used;
	uint32_t instances_free; /* first of the free list, index + 1 */
	uint32_t instances_first, instances_last, instances_live; /* in order of opening */
	uint32_t apart_first, apart_last; /* ... of these those that are not READY: few, and what has to be done is theirs */
	uint32_t stirring_first, stirring_last;
	uint32_t latest_first, latest_last; /* models, the last used first */
	uint32_t dues;
	uint32_t pressure;       /* enum pressure */
	uint32_t shutdown;       /* enum shutdown */
	uint32_t drained_told;
	uint32_t suspended;
	uint32_t machine_known;
	uint32_t sampled;
	uint32_t arrived;        /* the request of this step, index + 1: to be announced if it waits */
	uint32_t loading;        /* instances LOADING */
	uint32_t measuring;      /* instances being measured alone */
	uint32_t purging;        /* models whose queue is being rejected */
	uint32_t loads_waiting;  /* REQUEST_LOAD in queues */
	uint32_t unloads_waiting;
	uint32_t outside;        /* models whose server we do not run */
	uint32_t reservations;   /* models that stand for another program's use */
	uint32_t kept_ever;      /* an engine told that it holds conversations */
	uint32_t blind;          /* the last sample is too old: what there is nobody knows */
	uint32_t settled;        /* this step has decided all; what is left is to tell */
	uint32_t learned_dirty;
	uint32_t outbox_first, outbox_count;
	uint32_t working;        /* a step was cut by a full `out` */
	uint64_t arrivals;
	uint64_t instance_sequence;
	uint64_t decision_sequence;
	int64_t last_at;         /* of the last event */
	int64_t asleep_us;
	int64_t now;             /* last_at - asleep_us */
	int64_t armed_at;        /* awake time; NEVER = no timer */
	int64_t recheck_at;      /* while somebody waits: what time alone changes is looked at again */
	int64_t calm_at;         /* after a critical moment: no loads before */
	int64_t short_bytes;     /* what has to come back */
	uint64_t unjudged;       /* memory came back since it was last told how short it is: the next sample tells */
	int64_t bytes_max;
	uint64_t block_bytes;
	uint64_t requests_at, models_at, decisions_at, instances_at, dues_at;

	/* the ledger */
	struct event_machine machine;
	int64_t capacity[POOLS_MAX]; /* B */
	int64_t unreclaimable[POOLS_MAX];
	int64_t foreign_least[POOLS_MAX];
	int64_t view_foreign[VIEWS_MAX];
	int64_t foreign[POOLS_MAX]; /* of the last sample: unreclaimable without what is ours */
	struct amount held;      /* sum over live instances of what each holds */
	struct amount own;       /* sum over live instances of what is theirs */
	double variance[POOLS_MAX]; /* sum over live instances of their sigma, squared; unless it is stale */
	uint32_t variance_stale;
	uint32_t unused_variance;

	/* habits */
	int64_t ratios;          /* sum over measured models of their ratio, in 2^-32; and of its square */
	int64_t ratios_squared;
	uint32_t ratios_known;   /* so many models */
	uint32_t unused_ratios;
	double ratio_mean;       /* prior of a model that was never measured; 0 = none yet */
	double ratio_variance;
	double foreign_variance[POOLS_MAX];
	int64_t foreign_was[POOLS_MAX][FOREIGN_KEPT]; /* a ring, one a second */
	int64_t foreign_kept_at;
	uint32_t foreign_kept;   /* ever */
	uint32_t plan_for;       /* model index + 1: drains are for it */
	uint32_t plan_overdue;
	uint32_t warm_due;       /* a sample was taken: files may be read ahead, or dropped */
	int64_t habits_at;       /* of the last sample */
	int64_t waits_weight;    /* over all queues */
	int64_t paced_at;
	double use_was[USE_KEPT]; /* share of the first pool in use, by seconds: a ring */
	uint32_t use_kept;        /* ever */
	uint32_t use_closed;      /* hysteresis: too much was in use; no loads */
	int64_t use_at;
	uint64_t plain;           /* earlier policies: the plain one decides while progress + 1 is this; 0 = it does not */
	struct pace pace[POOLS_MAX];

	struct arbiter_counters counters;
	struct action outbox[OUTBOX_ROWS];
};

/* Rows: of a const arbiter too, as strchr() does; who may not write it does not. */
static inline void *arbiter_table(const struct arbiter *a, uint64_t at)
{
	return (char *)(uintptr_t)a + at;
}

static inline struct model *model_row(const struct arbiter *a, uint32_t model)
{
	return (struct model *)arbiter_table(a, a->models_at) + model;
}

static inline struct request *request_row(const struct arbiter *a, uint32_t request)
{
	return (struct request *)arbiter_table(a, a->requests_at) + request;
}

static inline struct instance *instance_row(const struct arbiter *a, uint32_t instance)
{
	return (struct instance *)arbiter_table(a, a->instances_at) + instance;
}

static inline struct due *due_row(const struct arbiter *a, uint32_t place)
{
	return (struct due *)arbiter_table(a, a->dues_at) + place;
}

static inline struct decision *decision_row(const struct arbiter *a, uint32_t model, uint32_t kept)
{
	return (struct decision *)arbiter_table(a, a->decisions_at) +
	       (size_t)model * DECISIONS_KEPT + kept % DECISIONS_KEPT;
}

static inline uint32_t model_index(const struct arbiter *a, const struct model *model)
{
	return (uint32_t)(model - model_row(a, 0));
}

static inline uint32_t request_index(const struct arbiter *a, const struct request *request)
{
	return (uint32_t)(request - request_row(a, 0));
}

static inline uint32_t instance_index(const struct arbiter *a, const struct instance *instance)
{
	return (uint32_t)(instance - instance_row(a, 0));
}

/* A model's instance, or NULL. */
static inline struct instance *model_instance(const struct arbiter *a, const struct model *model)
{
	return model->instance ? instance_row(a, model->instance - 1) : NULL;
}

/* Walks by link: index + 1, 0 ends. */
static inline struct model *model_link(const struct arbiter *a, uint32_t link)
{
	return link ? model_row(a, link - 1) : NULL;
}

static inline struct instance *instance_link(const struct arbiter *a, uint32_t link)
{
	return link ? instance_row(a, link - 1) : NULL;
}

static inline struct request *request_link(const struct arbiter *a, uint32_t link)
{
	return link ? request_row(a, link - 1) : NULL;
}

#define MODELS_STIRRING(a, row)                                                                  \
	for (struct model *row = model_link(a, (a)->stirring_first); row;                        \
	     row = model_link(a, row->next))

#define INSTANCES_LIVE(a, row)                                                                   \
	for (struct instance *row = instance_link(a, (a)->instances_first); row;                 \
	     row = instance_link(a, row->next))

/* Those that load, drain or end. Who becomes READY meanwhile leaves the list. */
#define INSTANCES_APART(a, row)                                                                  \
	for (struct instance *row = instance_link(a, (a)->apart_first); row;                     \
	     row = instance_link(a, row->apart_next))

#endif
