#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/rng.h"
#include "core/arbiter.h"
#include "sim/agenda.h"
#include "sim/random.h"

/*
 * world - what is outside the arbiter in a random run. Private to sim/.
 *
 * Everything true is here (how much memory an engine really takes, whether it
 * will ever be ready), and everything the arbiter learns goes through
 * world_tell(). What it wants comes back in world_do().
 */
enum {
	WORLD_MODELS = 8,
	WORLD_REQUESTS = 64,
	WORLD_ENGINES = WORLD_MODELS + 16,
};

#define WORLD_SECOND INT64_C(1000000)
#define WORLD_GIB (INT64_C(1) << 30)

enum happening_kind {
	HAPPENS_ARRIVAL,
	HAPPENS_LEAVE,     /* a client gives up */
	HAPPENS_FINISH,    /* an engine has answered */
	HAPPENS_CANCELLED, /* the shell has ended what was to be cancelled */
	HAPPENS_SPAWNED,
	HAPPENS_PROGRESS,
	HAPPENS_READY,
	HAPPENS_DEATH,     /* by itself */
	HAPPENS_EXIT,      /* as told */
	HAPPENS_SAMPLE,
	HAPPENS_OPERATOR,
	HAPPENS_NOISE,     /* a late, impossible or strange event */
	HAPPENS_TIMER,
	HAPPENS_CALM,
	HAPPENS_QUIET,     /* long enough after the last fault that nothing is left to do */
	HAPPENS_SHUTDOWN,
	HAPPENS_LIMIT,     /* by now it must be over */
	/* interplay.c */
	HAPPENS_TOLD,      /* what its slots hold is told */
	HAPPENS_ERASED,    /* ... was given up */
	HAPPENS_CONTEXT,
	HAPPENS_SHORTAGE,
	HAPPENS_NAP,
	HAPPENS_PLAN,
	HAPPENS_RETURN,    /* its engine has no room for it: a larger context has */
};

enum sim_request_state { SIM_NONE, SIM_WAITING, SIM_RUNNING, SIM_CANCELLED };

struct sim_request {
	enum sim_request_state state;
	uint32_t generation;
	uint32_t model;
	uint32_t kind;
	uint32_t engine; /* RUNNING, CANCELLED */
	uint64_t engine_sequence;
	bool deaf;       /* runs until its client leaves */
	int64_t came_at;    /* for the first time */
	uint32_t returns;   /* so often nothing came of its dispatch */
	struct request_spec spec;
	int64_t need_bytes; /* of a lazy model's: the most that its conversation comes to */
	uint32_t slot;
};

enum sim_engine_state { ENGINE_NONE, ENGINE_LOADING, ENGINE_READY, ENGINE_STOPPING, ENGINE_DEAD };

enum { ENGINE_SLOTS = 4 };

struct sim_engine {
	enum sim_engine_state state;
	struct id id;
	uint64_t sequence;
	uint32_t model;
	uint32_t slots;
	bool outside;
	uint32_t running;
	uint32_t permille;
	bool hangs;
	bool grows;           /* it takes more and more while it runs */
	double grown;         /* so far, as a share of its base */
	double swing;         /* what its experts take just now, likewise */
	bool never_ready;
	bool lazy;            /* it keeps what conversations filled */
	bool clearing;        /* ... and was told to give it up */
	bool slot_busy[ENGINE_SLOTS];
	int64_t slot_bytes[ENGINE_SLOTS];
	int64_t back_at;      /* DEAD: its bytes are back */
	struct amount base;   /* true, when ready */
	struct amount each;   /* true, of each request */
	struct amount peak;   /* true, at the end of the load */
	struct amount last;   /* what was measured last, for late samples */
};

struct sim_model {
	struct model_spec spec;
	double ratio;          /* true bytes over estimated */
	double load_s;
	double work_s;
	uint32_t grow_permille;
	uint32_t crash_permille, hang_permille, never_permille, die_permille, leak_permille;
	int pin_command;       /* as the arbiter has it */
	int64_t server_bytes;  /* OUTSIDE: what that server takes of this machine */
	int context_step;      /* so many times it has grown */
};

struct world {
	struct rng rng;
	const struct sim_options *options;
	struct sim_result *result;
	struct arbiter *arbiter;
	struct agenda agenda;
	uint32_t capacity;
	int64_t now;
	struct event_machine machine;
	uint32_t models;
	struct sim_model model[WORLD_MODELS];
	struct sim_request request[WORLD_REQUESTS];
	struct sim_engine engine[WORLD_ENGINES];
	uint64_t request_sequence;
	uint64_t decision_sequence;
	uint64_t timer_life;
	int64_t foreign[POOLS_MAX];
	int64_t foreign_start[POOLS_MAX];
	int64_t leaked[POOLS_MAX];
	enum pressure pressure;
	double gap_s;           /* between arrivals */
	int64_t behind_us;      /* the clock of the next event is behind by so much */
	bool clock_failed;      /* it was: timers may be late */
	bool calm;
	bool shutdown;
	bool drained;
	bool spawned;           /* in this step: the room is checked after it */
	uint32_t spawned_model;
	int64_t others[POOLS_MAX]; /* what is really not ours, at the last sample */
	uint64_t loads;         /* of our own engines */
	uint64_t loads_then;    /* when it had become quiet */
	uint32_t themes;        /* interplay.c; 0: none */
	bool over;
};

/* ---- world.c ---- */
void world_tell(struct world *world, struct event *event);
void world_broken(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_note(struct world *world, double in_s, enum happening_kind kind, uint32_t index, uint64_t life);
double world_draw(struct world *world, double least, double most);
bool world_chance(struct world *world, uint32_t permille); /* never when calm */

/* ---- populate.c ---- */
void world_populate(struct world *world);
void world_tell_model(struct world *world, uint32_t model);
void world_draw_model(struct world *world, uint32_t model);
void world_be_outside(struct model_spec *spec);

/* ---- engines.c ---- */
void engine_spawn(struct world *world, const struct action *action);
void engine_stop(struct world *world, const struct action *action);
struct sim_engine *engine_find(struct world *world, struct id id);
void engine_happens(struct world *world, const struct happening *happening);
void engines_calm(struct world *world);
void engines_sample(struct world *world);

/* ---- clients.c ---- */
void client_arrives(struct world *world);
void client_happens(struct world *world, const struct happening *happening);
void operator_acts(struct world *world);
void noise_happens(struct world *world);
void client_dispatch(struct world *world, const struct action *action);
void client_cancel(struct world *world, const struct action *action);
void client_end(struct world *world, const struct action *action);
/* An operator's; the request's row, WORLD_REQUESTS where there is no more. */
uint32_t client_commands(struct world *world, uint32_t model, enum request_kind kind);
void world_sleep(struct world *world);

/* ---- interplay.c ---- */
void interplay_populate(struct world *world);
/* It was just drawn. */
void interplay_model(struct world *world, uint32_t index);
void interplay_arrives(struct world *world, struct request_spec *spec);
void interplay_dispatched(struct world *world, struct sim_engine *engine, struct sim_request *request);
void interplay_ended(struct world *world, struct sim_engine *engine, const struct sim_request *request);
void interplay_discard(struct world *world, const struct action *action);
void interplay_happens(struct world *world, const struct happening *happening);
/* What an engine's conversations take, and what servers take that nobody has found yet. */
int64_t interplay_held_bytes(const struct sim_engine *engine);
int64_t interplay_servers_bytes(const struct world *world);

#endif
