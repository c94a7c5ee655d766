#ifndef APP_TOP_DATA_H
#define APP_TOP_DATA_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * top_data - what `top` shows, taken from the daemon's answers.
 *
 * Each take replaces its part as a whole, so a picture never mixes two answers
 * of one kind. Everything is bounded: what lies beyond a table is counted, not
 * shown. Texts are as the daemon sent them; the screen cleans them.
 */
enum { TOP_MODELS_MAX = 256, TOP_OWNERS_MAX = 256, TOP_EVENTS_MAX = 64, TOP_NAME_BYTES = 80 };

struct top_model {
	char name[TOP_NAME_BYTES];
	char state[16];
	char note[160];       /* how the load goes, why it waits or failed; "" = nothing to say */
	bool pinned;
	int permille;         /* of its load; -1 = it does not load */
	bool holds;           /* memory: `memory_bytes` is measured, else what it would take */
	int64_t memory_bytes;
	int64_t context;
	int64_t slots, running, queued;
	double tokens_per_s;  /* negative = unknown */
	int64_t last_used_at_ms;
};

enum top_owner_kind { TOP_SYSTEM, TOP_FOREIGN, TOP_MODEL, TOP_OTHER };

struct top_owner {
	enum top_owner_kind kind;
	char name[TOP_NAME_BYTES];
	int64_t bytes;        /* the larger of claim and measurement */
};

struct top_event {
	uint64_t number;      /* rises */
	int64_t at_ms;
	char text[320];
};

struct top_data {
	struct top_model model[TOP_MODELS_MAX];
	int models, models_left_out;
	struct top_owner owner[TOP_OWNERS_MAX];
	int owners;
	int64_t size_bytes, free_bytes; /* of the machine; for one more model. 0 = not known yet */
	char warning[160];              /* the first of the memory's warnings, "" = none */
	struct top_event event[TOP_EVENTS_MAX]; /* the newest first */
	int events;
};

void top_take_models(struct top_data *data, const json_t *answer);
void top_take_memory(struct top_data *data, const json_t *answer);
/* GET /api/v1/decisions, newest first; and one decision of the event stream. Known ones are left out. */
void top_take_decisions(struct top_data *data, const json_t *answer);
void top_take_decision(struct top_data *data, const json_t *decision);
/* The daemon was started anew: its numbers begin again. */
void top_forget_events(struct top_data *data);

#endif
