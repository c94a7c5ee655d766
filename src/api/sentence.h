#ifndef API_SENTENCE_H
#define API_SENTENCE_H

#include <stdint.h>

#include "base/buf.h"
#include "core/arbiter.h"

/*
 * sentence - what the arbiter did, in words and with its numbers.
 *
 * One sentence a decision, without a full stop and without line breaks, for
 * events, `why`, history and the log. It says what happened to which model,
 * why, and the figures that decided it, in units a person reads.
 */
struct names {
	void *ctx;
	/* The name of a model; NULL where it is gone. */
	const char *(*model)(void *ctx, uint32_t model);
};

void decision_text(const struct decision *decision, const struct names *names, struct buf *out);

/*
 * Of an eviction or a drain, what was weighed: how often both were asked for, and what it costs to be without the one.
 * "asked for in the last hour: chat twice, image once; bringing chat back was expected to cost 24.1 s of waiting, ..."
 */
void going_text(const struct decision *decision, const struct names *names, struct buf *out);

/* Of arbiter_never(), of "it": "it can never fit on this machine: needs at least ..., at most ... can be free; ..." */
void never_text(const struct decision *never, struct buf *out);

/* What a model is doing now and what it waits for: "chat is loading since 3.1 s (40 %), 2 wait for it". */
void model_text(const struct model_view *model, int64_t now_us, struct buf *out);

/* What a plan means: "fits after small (350 MiB) goes: needs ..., ... free". */
void plan_text(const struct plan *plan, const char *model, const struct names *names, struct buf *out);

#endif
