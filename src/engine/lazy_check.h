#ifndef ENGINE_LAZY_CHECK_H
#define ENGINE_LAZY_CHECK_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * lazy_check - does the preload library do its work in this engine?
 *
 * Once for each build of an engine: it is started twice with a small model of
 * our own (probe_model.h), plain and with the library, on a socket that nobody
 * else can reach. Works: memory is less by nearly all of the KV cache and no
 * more than the estimate, the answers and their probabilities are the same, and
 * they are the same again after a discard. Whatever else comes of it, the engine
 * is served without the library, and `reason` says why. Seconds at most; blocks.
 *
 * A verdict is kept in `folder`, a file for each engine, keyed by its build (program.h) and the
 * library's file; one that only says "not in time" is not kept.
 * The 90 MiB that a check takes for a moment are inside what is always left free.
 */
struct lazy_verdict {
	bool works;
	bool pending; /* it was never tried out, and only what is known was asked for */
	char reason[200]; /* why not: "it is linked statically" */
};

/* Of an engine that was tried out, and then took the memory all the same. */
#define LAZY_NO_EFFECT "the preload library took no effect in its engine"

struct lazy_check {
	const char *library; /* NULL: not found; `missing` says so */
	const char *missing;
	const char *folder;  /* ours, where verdicts are kept */
	const char *sockets; /* ours and private, with a short path */
	const char *const *environment;
	bool known_only; /* nothing is started: an engine that was never tried out is `pending` */
};

void lazy_check_engine(const struct lazy_check *check, const struct conf_model *model,
                       struct lazy_verdict *out);

/* Whether its model and settings leave KV where the library can reach: on the host. */
bool lazy_applies(const struct conf_model *model, struct lazy_verdict *why_not);

#endif
