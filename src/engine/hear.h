#ifndef ENGINE_HEAR_H
#define ENGINE_HEAR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/adapter.h"

/*
 * hear - a program that is started for what it tells, and ended when it told.
 *
 * A process group of its own, with a deadline and a bound on how much it may say: it may hang, crash, or
 * never stop talking. Blocks: not for the loop's thread.
 */
struct hear {
	int deadline_ms;
	const atomic_bool *given_up; /* turned true: soon over; may be NULL */
	/* A whole line, without its end. True: enough was said. */
	bool (*line)(void *ctx, struct str line);
	void *ctx;
};

/*
 * 0: it said enough, or ended by itself with status 0. -ETIMEDOUT, -ENOEXEC where it cannot be started, -ENODATA
 * where it ended otherwise or said too much, -ECANCELED; each with a text.
 */
int hear(const struct launch *launch, const struct hear *how, struct err *err);

#endif
