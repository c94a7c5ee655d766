#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * store - what happened, kept in SQLite.
 *
 * One thread owns the database handle; the loop only puts rows into a bounded
 * queue and never waits. A full queue, a full disk or a damaged file costs rows,
 * which are counted and said once, never requests. The schema has a version
 * (PRAGMA user_version) and migrates forward; a newer file than the program
 * knows is left alone and history is off for this run. Whatever else lies in its
 * place and is no use is moved aside, under a name with the date.
 *
 * Rows reference models by name, never by index: a history outlives a
 * configuration. Times are Unix epoch milliseconds.
 */
struct store;

struct store_decision {
	int64_t at_ms;
	const char *id;         /* <boot>-<sequence> */
	const char *kind;
	const char *reason;
	const char *model;      /* "" = none */
	const char *for_model;  /* "" = none */
	const char *request;    /* public id, "" = none */
	const char *text;       /* the sentence a person reads */
	int64_t need_bytes, room_bytes, held_bytes, foreign_bytes, capacity_bytes, measured_bytes;
	int64_t wait_ms, load_ms;
};

struct store_request {
	int64_t arrived_at_ms;
	const char *id;
	const char *model;
	const char *key_name;   /* "" = none; never the key */
	const char *path;
	const char *priority;
	const char *outcome;    /* an outcome_name() of api/outcome.h */
	int64_t status;         /* HTTP status that was sent, or that its end has */
	int64_t wait_ms, load_ms, first_byte_ms, total_ms;
	int64_t bytes_in, bytes_out, tokens_in, tokens_out;
};

struct store_observation {  /* what a load really took, beside what was predicted */
	int64_t at_ms;
	const char *model;
	const char *file;
	const char *build;
	int64_t estimate_bytes, measured_base_bytes, measured_peak_bytes, load_ms;
};

/*
 * Open (creating) `path` and start the thread. NULL with `err` where the file is of
 * a newer version or no thread is to be had: the daemon says so and goes on without
 * history. What may be over in a while (a full disk, no folder, somebody else's lock)
 * is told by store_take_error(), and tried again with each batch of rows.
 */
struct store *store_open(const char *path, struct err *err);
/*
 * Write what is queued, at most for `wait_ms`, and stop. A disk that hangs for
 * longer keeps the thread and its memory; no callback comes after the return.
 */
void store_close(struct store *store, int wait_ms);

/* Copy the row into the queue; false where it is full (counted). NULL store: false. */
bool store_add_decision(struct store *store, const struct store_decision *row);
bool store_add_request(struct store *store, const struct store_request *row);
bool store_add_observation(struct store *store, const struct store_observation *row);

struct store_counters {
	uint64_t written;
	uint64_t dropped;
	uint64_t failed;        /* SQLite said no: disk full, ... */
};
void store_counters(struct store *store, struct store_counters *out);

/*
 * What went wrong, once for each kind of failure (disk full, read-only, damaged
 * file moved aside, ...): true and `out` filled where something is yet to be
 * said. Ask as often as you like.
 */
bool store_take_error(struct store *store, struct err *out);

/*
 * Learned rows of the arbiter, opaque here but for their keys. store_save_learned
 * queues; store_load_learned reads all at start (before the loop runs), waits
 * for it, calls `each` on the caller's thread, and returns how many there were
 * or a negative errno. Rows of another size were another version's: left out.
 */
bool store_save_learned(struct store *store, uint64_t file_key, uint64_t build_key,
                        const void *row, uint32_t row_bytes);
/* Queued, too: what is no longer kept anywhere else. Nothing where there is no such row of that size. */
bool store_forget_learned(struct store *store, uint64_t file_key, uint64_t build_key, uint32_t row_bytes);
int store_load_learned(struct store *store, uint32_t row_bytes,
                       void (*each)(void *ctx, const void *row), void *ctx);

/*
 * What is queued is written at once, and not together with what the next quarter of a second brings: of a row
 * that matters, the kill that loses it has to come before its commit.
 */
void store_hurry(struct store *store);

/*
 * Run a history query on the store's thread; `done` is called there with a JSON
 * text (an array of objects, newest first) that is valid during the call, or
 * NULL where it failed. kind: "decisions", "requests", "observations".
 * model and since_ms narrow it; limit 1..1000. False where the kind is none of
 * these, the limit is not, or the queue is full: then `done` is never called,
 * else once, at the latest in store_close().
 */
struct store_query {
	const char *kind;
	const char *model;      /* "" = all */
	int64_t since_ms;
	int64_t limit;
};
bool store_query(struct store *store, const struct store_query *query,
                 void (*done)(void *ctx, const char *json), void *ctx);

#endif
