#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include <stdint.h>

#include "core/amount.h"
#include "core/fail.h"
#include "core/ids.h"

/*
 * event - everything the arbiter ever learns.
 *
 * An event is plain data without pointers: it can be queued, recorded and
 * replayed. It carries its own time (CLOCK_BOOTTIME, µs); the arbiter asks
 * nobody for one and clamps times that run backwards. Unused bytes are zero.
 *
 * Requests are named by the shell: {index, generation} of its exchange table
 * (index < limits.requests). Every arrival is answered, and every request has
 * one end; until then its index stays taken:
 *
 *   - REJECT and DONE end it; nothing is to be sent back;
 *   - REQUEST_GONE ends it in any state: the shell is done with it;
 *   - after DISPATCH the shell ends it with REQUEST_FINISHED (or GONE);
 *   - CANCEL asks to end a dispatched one: the shell answers with FINISHED (or
 *     GONE). So also when its engine died: INSTANCE_EXITED cancels what ran there.
 *     A FINISHED that was on its way already is that answer.
 *
 * Instances are named by the arbiter in its spawn action. Each spawn is answered
 * by one INSTANCE_EXITED at the end, also where it never came to be, and every
 * sample after that names it in a MEASURED until the arbiter lets go: with
 * gone = 1 and own all zero once nothing is left.
 *
 * Impossible events (indices beyond the tables, unknown enumerators, negative or
 * absurd amounts and times, an arrival under a name that is taken) change nothing
 * and are counted as invalid; those that name something dead are counted as stale.
 *
 * The order of the enumerators is part of the recording format.
 */
enum event_type {
	EVENT_NONE,

	/* the world */
	EVENT_MACHINE,  /* pools, views, limit, margin, policy: before anything else, and on change */
	EVENT_MODEL,    /* one catalogue row: added, changed, or removed (present = 0); forgives failures */
	EVENT_LEARNED,  /* one stored row of learned state, after the models with its keys */
	EVENT_WALL,     /* offset of the wall clock, for quiet hours and texts */
	EVENT_TICK,     /* the timer that was armed, or the shell's own pulse */
	EVENT_MEASURED, /* one instance's or lease's own bytes in the sample that EVENT_SAMPLE closes */
	EVENT_SAMPLE,   /* the whole machine, after its EVENT_MEASURED; what they tell is acted upon now */
	EVENT_PRESSURE,
	EVENT_SUSPEND,
	EVENT_RESUME,

	/* requests */
	EVENT_REQUEST_ARRIVED,
	EVENT_REQUEST_GONE,      /* the client left, or an operator's cancel (fail tells) */
	EVENT_REQUEST_FINISHED,  /* a dispatched request ended */

	/* instances */
	EVENT_INSTANCE_SPAWNED,
	EVENT_INSTANCE_PROGRESS,
	EVENT_INSTANCE_READY,
	EVENT_INSTANCE_UNHEALTHY,
	EVENT_INSTANCE_EXITED,   /* its process group is gone, or it never came to be */
	EVENT_INSTANCE_RESIZED,
	EVENT_ENGINE_SPEED,
	EVENT_TOKENS_HELD,
	EVENT_CONVERSATION_SAVED,
	EVENT_CONVERSATION_ERASED,
	EVENT_CONVERSATION_RESTORED,
	EVENT_FILE_RESIDENCY,
	EVENT_ENGINE_BUILD_CHANGED,

	/* leases */
	EVENT_LEASE_ASKED,
	EVENT_LEASE_RENEWED,
	EVENT_LEASE_RELEASED,
	EVENT_LEASE_EXPIRED,

	/* operators */
	EVENT_PIN,               /* flag: 1 pin, 0 unpin */
	EVENT_SHUTDOWN,          /* accept no more, drain, stop everything; the second: cut, kill */

	EVENT_BLIND,             /* the machine cannot be read, again and again until a SAMPLE comes: nothing loads */
	EVENT_TYPE_COUNT,
};

enum priority {
	PRIORITY_INTERACTIVE,
	PRIORITY_NORMAL,
	PRIORITY_BACKGROUND,
	PRIORITY_BATCH,
	PRIORITY_COUNT,
};

enum pressure {
	PRESSURE_NONE,
	PRESSURE_WARN,
	PRESSURE_CRIT,
};

enum policy {
	POLICY_COTENANT, /* the default */
	POLICY_THRESHOLD,
	POLICY_HYSTERESIS,
	POLICY_COST_BENEFIT,
	POLICY_LRU,
	POLICY_ONE_AT_A_TIME,
	POLICY_COUNT,
};

struct pool_spec {
	int64_t size_bytes;
	int64_t reserve_bytes; /* always left free */
};

struct view_spec {
	int64_t cap_bytes;
	int64_t foreign_bytes; /* of others, under this cap */
	uint32_t mask;         /* VIEW_BIT() of what it bounds */
	uint32_t unused;
};

struct event_machine {
	uint32_t pools;
	uint32_t views;
	struct pool_spec pool[POOLS_MAX];
	struct view_spec view[VIEWS_MAX];
	int64_t limit_bytes;     /* memory.limit; INT64_MAX where none */
	int32_t margin_permille; /* of B, kept free at admission; -1 = learned spread */
	uint32_t policy;         /* enum policy */
	int32_t loads_max;       /* loads in flight at once; 0 = 2 */
	uint32_t host_only;      /* no pool is ever used by a GPU */
};

enum model_flag {
	MODEL_PINNED = 1,
	MODEL_PRELOAD = 2,
	MODEL_AUTOLOAD = 4,
	MODEL_MEASURE_FIRST = 8, /* nobody can tell its footprint: loads alone once */
	MODEL_OUTSIDE = 16,      /* `url:` - a server we do not run: claims what it measures, is never made to go */
	MODEL_DECLARED = 64,     /* its footprint was declared: learning raises it, never lowers it */
	MODEL_SERIAL_LOAD = 32,  /* loads of its engine kind go one at a time */
	MODEL_EXPERTS = 128,     /* mixture of experts: its memory swings more while it runs */
	MODEL_LINEAR_LOAD = 256, /* a load's progress tells the share of its base that is there */
	MODEL_LAZY = 1024,       /* base holds no KV: it is claimed as requests run, and kept by slots (kept.h) */
	MODEL_RENEW = 65536,     /* with this event: what runs was started under settings that hold no more */
	MODEL_RESIZE = 131072,   /* with this event: the same model with another context (resize.h) */
	MODEL_GROWN = 262144,    /* a larger context than it would be loaded with: given up first when memory is short */
	MODEL_RESERVATION = 512, /* stands for another program's use: granted, held while it runs, then gone */
};

enum {
	MODEL_NAME_BYTES = 96,
	HELD_SLOTS_MAX = 16, /* slots that are told apart; what others hold is added to the last */
};

struct model_spec {
	char name[MODEL_NAME_BYTES]; /* for recordings and texts; cut where longer */
	uint64_t file_key;           /* hash of the model file's identity; keys learned rows */
	uint64_t build_key;          /* hash of the engine build and of the flags that change the footprint */
	uint32_t present;
	uint32_t flags;              /* enum model_flag */
	uint32_t priority;           /* enum priority */
	uint32_t weight_milli;       /* 1000 = 1 */
	uint32_t slots;              /* requests at once in the engine, >= 1 */
	uint32_t queue;              /* waiting requests at most */
	uint32_t engine_kind;        /* groups MODEL_SERIAL_LOAD */
	uint32_t context_tokens;     /* per conversation, as launched */
	uint32_t bandwidth_permille; /* how much it slows others while it runs; 0 = 1000 */
	uint32_t set;                /* those with the same number are used together; 0 = none */
	int64_t unload_after_us;     /* idle time; -1 = never */
	int64_t drain_timeout_us;
	int64_t load_timeout_us;     /* without progress: the load is given up; -1 = never */
	int64_t start_timeout_us;    /* from its decision, whatever progress it makes; 0 = never */
	int64_t load_expected_us;
	int64_t file_bytes;          /* what a load reads, where warming it is wished; 0 = never */
	/* Of base, in the host's memory: reserved buffers whose pages are touched only as long prompts are read. */
	int64_t compute_bytes;
	int64_t compute_context_bytes; /* of those, touched as far as a prompt fills the context */
	int64_t cache_bytes;         /* of base, likewise: a prompt cache, which nothing shows to be full */
	int64_t batch_tokens;        /* a prompt of so many touches the others; 0 = nothing shows that they were */
	struct amount base;          /* loaded and idle */
	struct amount per_request;   /* added by each running request */
	struct amount peak;          /* highest while loading */
	struct amount sigma;         /* uncertainty of base, one standard deviation */
	struct amount lower;         /* it takes at least this: what "never fits" is judged by */
};

enum request_kind {
	REQUEST_INFER,  /* wants to be dispatched */
	REQUEST_LOAD,   /* done when the model is ready */
	REQUEST_UNLOAD, /* drains, done when it is unloaded */
	REQUEST_STOP,   /* unload with no drain */
	REQUEST_KIND_COUNT,
};

enum request_flag {
	REQUEST_WISH = 1,     /* an eject by role use: only where idle and unpinned */
	REQUEST_NO_EVICT = 2, /* background work: nobody is evicted for it */
};

struct request_spec {
	uint64_t sequence;     /* its public id */
	uint64_t conversation; /* hash, 0 = none */
	uint32_t model;
	uint32_t kind;         /* enum request_kind */
	uint32_t priority;     /* enum priority: its class */
	uint32_t weight_milli;
	uint32_t key;          /* index of the API key, 0 = none */
	uint32_t flags;        /* enum request_flag */
	int64_t expected_us;   /* service time, 0 = unknown */
	int64_t deadline_at_us; /* absolute; INT64_MAX = none */
	int64_t tokens;        /* of prompt and answer, at most; 0 = not known */
	int64_t waited_us;     /* it was dispatched, nothing came of that, and it keeps its place: it came so long ago,
	                        * sleep left out; 0 = it comes now */
	struct amount need;    /* what a dispatch claims, on top of base; zero = the model's per_request */
};

/*
 * A row of learned state, as arbiter_export() gives it and EVENT_LEARNED brings it back: of a model, or, where
 * file_key says so, of how the models of one pool slow one another.
 */
#define LEARNED_PACE UINT64_MAX /* file_key; the pool is build_key */
enum { CROWDS = 4, CAUTION_MILLI_MAX = 4000 };

struct learned_row {
	uint64_t file_key;
	uint64_t build_key;
	uint32_t loads;        /* observations behind it */
	uint32_t caution_milli; /* it ran out of memory: so much more is allowed for, a tenth of base for
	                         * each 1000; CAUTION_MILLI_MAX at most */
	int64_t load_us;       /* smoothed load time */
	int64_t prefill_ns;    /* to read a token of a prompt; 0 = not known */
	int64_t speed_milli;   /* thousandths of a token a second, alone; 0 = not known */
	union {
		struct {
			struct amount base;  /* measured, loaded and idle */
			struct amount peak;  /* highest measured while loading */
			struct amount sigma; /* spread of base */
			struct amount sure;  /* of base, what two samples in a row of its last life agreed on, caches that
			                      * it may do without left out; zero: none did */
		};
		struct {
			int64_t share_ppb[CROWDS]; /* LEARNED_PACE: speed of one among 2, 3 ... of its speed alone */
			uint32_t answers[CROWDS];  /* ... behind it */
		};
	};
};

struct event {
	uint32_t type; /* enum event_type */
	uint32_t unused;
	int64_t at_us;
	union {
		struct event_machine machine;
		struct {
			uint32_t model;
			uint32_t unused;
			struct model_spec spec;
			uint64_t request;  /* RESIZE: sequence of the one it is for; 0 = none */
		} model;
		struct learned_row learned;
		struct {
			int64_t offset_us; /* wall clock = at_us + offset_us */
		} wall;
		struct {
			struct id instance;
			struct amount own;
			uint32_t complete; /* 1: every class was readable; 0: own is a lower bound */
			uint32_t gone;     /* 1: no process of its group is left */
		} measured;
		struct {
			int64_t unreclaimable_bytes[POOLS_MAX]; /* U, hot_file included */
			int64_t view_foreign_bytes[VIEWS_MAX];
		} sample;
		struct {
			uint32_t level; /* enum pressure */
			uint32_t unused;
			int64_t short_bytes; /* CRIT: how much has to come back; 0 = not known */
		} pressure;
		struct {
			struct id request;
			struct request_spec spec;
		} arrived;
		struct {
			struct id request;
			uint32_t fail; /* enum fail: why it ended; FAIL_NONE = answered */
			uint32_t unused;
			/* As the engine told, 0 = it did not. */
			int64_t tokens_in;      /* of the prompt, those it still held too */
			int64_t tokens_out;
			int64_t prefill_tokens; /* of the prompt, read anew */
			int64_t prefill_us;     /* ... which took so long */
			int64_t decode_us;      /* what tokens_out took */
		} request; /* GONE, FINISHED */
		struct {
			struct id instance;
			uint32_t fail;      /* EXITED: FAIL_NONE = as we asked */
			int32_t pid;
			uint32_t permille;  /* PROGRESS */
			int32_t exit_status; /* EXITED: as waitpid(2) gives it */
			uint32_t never_ready; /* EXITED: do not retry: the file or the flags are wrong */
			uint32_t slots;      /* READY: what the engine really has; 0 = as asked */
			uint32_t context_tokens;
			uint32_t cause;      /* EXITED: enum end_cause */
		} instance;
		struct {
			uint32_t model;
			uint32_t flag;
		} command; /* PIN */
		struct {
			uint32_t model;
			uint32_t unused;
			int64_t cached_bytes; /* of its file, in the page cache */
		} residency; /* FILE_RESIDENCY */
		struct {
			struct id instance;
			uint32_t slots;     /* of slot_bytes */
			uint32_t settled;   /* 1: nothing has ended since this was read */
			int64_t tokens;     /* in all slots */
			int64_t slot_bytes[HELD_SLOTS_MAX];
		} held; /* TOKENS_HELD */
		struct {
			struct id instance;
			uint32_t failed;    /* 1: what it held it still holds */
			uint32_t unused;
			int64_t saved_bytes; /* in files, to be restored */
		} erased; /* CONVERSATION_ERASED: the answer to ACTION_DISCARD */
		uint8_t bytes[1024]; /* room for the events of later layers */
	};
};

/* How much of a struct event this type uses, from its start; 0: no such type. */
uint32_t event_used_bytes(uint32_t type);

#endif
