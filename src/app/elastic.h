#ifndef APP_ELASTIC_H
#define APP_ELASTIC_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "core/arbiter.h"
#include "estimate/estimate.h"

/*
 * elastic - the contexts that a model may be started with, and what each takes.
 *
 * From the largest downwards each is half of the one above, as long as that is at
 * least twice the floor; below it is the floor. So every step up at least doubles, but for one
 * from the floor to a largest that is less than twice as much.
 * What each takes is reckoned when the model's file is looked at: a context is
 * chosen while a request waits, and no file is read then.
 */
enum { ELASTIC_MOST = 14, ELASTIC_FLOOR = 4096 };

/* A growth looks so many times as far as its request, which is not the last of its conversation. */
enum { ELASTIC_AHEAD = 4 };

/* The numbers of an estimate that change with the context. */
struct elastic_step {
	int64_t context; /* per conversation */
	struct footprint device, host, device_beside, host_beside;
	int64_t base_bytes, steady_bytes, peak_bytes, upper_bytes, lower_bytes, sigma_bytes;
	int64_t ubatch, host_layers, compute_context_bytes, batch_tokens;
	double confidence;
};

struct elastic {
	uint32_t count; /* 0: the context is what it is */
	uint32_t now;   /* the step that the next load takes */
	bool chosen;    /* by somebody; else it is the smallest because the file was just looked at */
	struct elastic_step step[ELASTIC_MOST]; /* smallest first */
};

/* Whether its settings leave the context to us. */
bool elastic_applies(const struct conf_model *model);
/* The contexts for a model whose largest is `most`; returns how many. */
uint32_t elastic_contexts(const struct conf_model *model, int64_t most, int64_t out[ELASTIC_MOST]);
void elastic_keep(struct elastic_step *step, int64_t context, const struct estimate *estimate);
/* The estimate as it is with that context. */
void elastic_use(const struct elastic_step *step, struct estimate *estimate);
/* The smallest step that holds so many tokens; the largest where none does. */
uint32_t elastic_step_for(const struct elastic *elastic, int64_t tokens);

/* What a request comes to: all its tokens, and those of its prompt, without which it cannot be served at all. */
struct elastic_need {
	int64_t tokens, prompt;
};

/*
 * The step for a request; `fits` tells of each whether there is room for it, and as much again for the others.
 * What is loaded and has to be started anew gets the largest, where room is plenty: so no conversation is
 * interrupted twice. Else it gets what the request needs, whoever has to go for it, or more, up to ELASTIC_AHEAD
 * times that, as far as that finds room without anybody's going. Where what is needed could never be had it is the
 * largest that could, if that holds the prompt: its answer then ends where any engine's does, at the end of the context.
 * Else it stays as it is.
 */
uint32_t elastic_step_to_grow(const struct elastic *elastic, const struct elastic_need *need,
                              enum fits (*fits)(void *ctx, uint32_t step), void *ctx);
/*
 * What is yet to be loaded has nothing to be interrupted, and others beside it: it gets `least`, or what was
 * chosen before. But never what has no room at all: one long request would leave none for the short ones.
 */
uint32_t elastic_step_to_load(const struct elastic *elastic, uint32_t least,
                              enum fits (*fits)(void *ctx, uint32_t step), void *ctx);

#endif
