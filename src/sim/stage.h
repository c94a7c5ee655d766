#ifndef SIM_STAGE_H
#define SIM_STAGE_H

#include "base/rng.h"
#include "sim/scene.h"

/*
 * stage - the physics under a scene: time, memory, disk, interference, OOM.
 *
 * It plays a scene for one player, who is told what happened and then decides
 * once; what it orders takes effect at once. The player sees measured memory,
 * estimates and hints, never a ratio or true work. The rules are those of the
 * scheduling study, to the order of simultaneous events.
 *
 *   COLD -> stage_load() -> LOADING -> READY -> stage_unload() -> UNLOADING -> COLD
 *   an aborted load goes through UNLOADING too; an OOM kill is COLD at once
 */
enum stage_state { STAGE_COLD, STAGE_LOADING, STAGE_READY, STAGE_UNLOADING };

enum stage_request_state { STAGE_WAITS, STAGE_RUNS, STAGE_ENDED, STAGE_FAILED, STAGE_LEFT };

struct stage_request {
	uint32_t model;
	uint32_t class;
	double weight;
	double work_s;
	double hint_s;
	double arrived_s, started_s, ended_s;
	double left_s; /* solo seconds */
	double leaves_at; /* its client; INFINITY: stays */
	uint32_t restarts;
	enum stage_request_state state;
	uint32_t session, step;
	uint64_t start_order;
};

/* Requests in order. */
struct stage_line {
	uint32_t *item;
	uint32_t count, room;
};

struct stage_model {
	const struct scene_model *is;
	enum stage_state state;
	double progress;
	double load_s;      /* at full speed, fixed at its start */
	double unloaded_at;
	double cached;      /* fraction of its file */
	double cached_at;
	double last_use;
	double fluct_gb;
	uint64_t loads;
	bool pinned;
	double stops_at;    /* progress at which its load fails or hangs; INFINITY: never */
	bool hangs;
	double hung_s;
	bool grows;         /* takes more and more while it runs */
	double grown_gb;
	struct stage_line queue;   /* by arrival; restarts come first */
	struct stage_line running; /* by start */
};

enum stage_news {
	NEWS_TICK,
	NEWS_ARRIVED, /* request */
	NEWS_ENDED,   /* request */
	NEWS_FAILED,  /* request: an OOM too many */
	NEWS_READY,   /* model */
	NEWS_COLD,    /* model: unloaded */
	NEWS_KILLED,  /* model: by an OOM, or by itself; its requests wait again */
	NEWS_LEFT,    /* request: its client is gone */
	NEWS_PINNED,  /* model: or no longer */
};

struct stage;

struct stage_player {
	void *ctx;
	void (*hear)(void *ctx, struct stage *stage, enum stage_news news, uint32_t index);
	void (*decide)(void *ctx, struct stage *stage);
};

struct stage_spike {
	double start_s, end_s, gb;
};

struct stage_follow {
	double at_s;
	uint32_t session, step;
};

enum { STAGE_SPIKES_MAX = 64 };

enum fault {
	FAULT_CLIENT_LEFT,
	FAULT_HOLDER_VANISHED,
	FAULT_LOAD_FAILED,
	FAULT_LOAD_HUNG,
	FAULT_CRASH,
	FAULT_LEAK,
	FAULT_ENGINE_GREW,
	FAULT_LIE,
	FAULT_CLOCK,
	FAULT_OTHERS_GREW,
	FAULT_PINNED,
	FAULT_KINDS,
};

/* faults.h */
struct stage_faults {
	uint64_t count[FAULT_KINDS];
	double leaked_gb;
	double pinned_until;
	uint32_t lie_about;   /* model whose sample lies until the next tick */
	double lie;           /* by this factor */
	double lie_total;     /* the same of the whole */
	double clock_ahead_s; /* what the clock shows too much */
	double clock_behind_s; /* too little, at the next event */
};

struct stage {
	const struct scene *scene;
	struct stage_player player;
	struct rng rng;
	double now;
	double next_tick;
	double stalled_until;
	double walk_gb;
	struct stage_spike spike[STAGE_SPIKES_MAX];
	uint32_t spikes;
	uint32_t models;
	struct stage_model model[SCENE_MODELS_MAX];
	struct stage_request *request;
	uint32_t requests, requests_room;
	struct stage_follow *follow;
	uint32_t follows, follows_room;
	uint32_t next_session;
	uint64_t starts;
	uint32_t open;    /* requests that wait or run */
	uint64_t loads;   /* of models that are no reservations */
	uint64_t ooms;
	uint64_t failed;
	double memory_s;  /* integral of used memory */
	struct stage_faults faults;
	/*
	 * Whether files fill free memory by the player's wish (warm files): then the
	 * trim takes from the lowest value first.
	 */
	const double *file_value;
};

void stage_init(struct stage *stage, const struct scene *scene, const struct stage_player *player);
void stage_run(struct stage *stage);
void stage_free(struct stage *stage);

/* ---- what a player may ask ---- */
double stage_background(const struct stage *stage);
double stage_measured_of(const struct stage *stage, uint32_t model);
double stage_measured(const struct stage *stage); /* all that is in use */
/* How long a load would take now at full speed. */
double stage_load_time(const struct stage *stage, uint32_t model);
uint32_t stage_loading(const struct stage *stage); /* but for reservations */

/* ---- what it may order; each must be possible ---- */
void stage_load(struct stage *stage, uint32_t model);
void stage_unload(struct stage *stage, uint32_t model); /* READY, nothing running; pinned ones in an emergency alone */
void stage_abort(struct stage *stage, uint32_t model);  /* LOADING */
void stage_start(struct stage *stage, uint32_t request);
void stage_refuse(struct stage *stage, uint32_t request); /* one that waits: it fails */

#endif
