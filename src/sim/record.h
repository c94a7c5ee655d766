#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "core/arbiter.h"

/*
 * record - what an arbiter was told, in a file, and played again.
 *
 * A file is a header (format, core version, limits) and then the events in the
 * order in which they were taken, each as {length, the used bytes of struct
 * event}; the machine, the catalogue and learned rows come as the events they
 * were. No bodies, no keys. Integers are little-endian, as both machines we run
 * on have them.
 *
 * The reader trusts nothing: lengths must be those of their type, limits are
 * bounded, and what the events then say is the arbiter's business, which is
 * total. A file that ends within an event (the daemon was killed) is played up
 * to there.
 */
enum { RECORD_FORMAT = 1 };

/* Rises with every change that makes the same events give other actions. */
enum { CORE_VERSION = 27 };

/* 0 or a negative errno. Nothing is flushed. */
int record_begin(FILE *out, const struct arbiter_limits *limits);
int record_event(FILE *out, const struct event *event);

/*
 * Read the header. -EBADMSG: not a recording; -ENOTSUP: of another format or
 * core version; -EFBIG: limits beyond all reason.
 */
int record_open(FILE *in, struct arbiter_limits *out_limits, struct err *err);
/* The next event: 1; at the end: 0; cut short: -ENODATA; nonsense: -EBADMSG. */
int record_next(FILE *in, struct event *out, struct err *err);

struct replay_result {
	uint64_t events;
	uint64_t actions;
	uint64_t hash;       /* over all actions */
	bool cut_short;      /* the file ended within an event */
	struct arbiter_counters counters;
};

/* FNV-1a over the bytes of an action, from where `hash` is; start with ACTION_HASH_START. */
#define ACTION_HASH_START UINT64_C(14695981039346656037)
uint64_t action_hash(uint64_t hash, const struct action *action);

/* Play a recording; `on_event` and `on_action` may be NULL. `check`: arbiter_check() after each step. */
int replay_run(FILE *in, bool check, void (*on_event)(void *ctx, const struct event *event),
               void (*on_action)(void *ctx, const struct action *action), void *ctx,
               struct replay_result *out, struct err *err);

#endif
