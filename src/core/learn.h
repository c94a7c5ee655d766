#ifndef CORE_LEARN_H
#define CORE_LEARN_H

#include "core/state.h"

/*
 * learn - what a model really takes, from the samples of its instances.
 *
 * One life of an instance is one observation: the most it held idle, and the
 * most it held while loading. The row is always "before this life" combined with
 * what this life has shown so far, so an observation may grow without counting
 * twice. A base rises at once to what was measured and falls slowly.
 */
void learn_sample(struct arbiter *a, struct instance *instance);

/*
 * A prompt of `tokens` was read, so many of them anew. Pages of the compute buffers are
 * there only when a long prompt first touches them: what an instance holds that never
 * read one is less than the model takes.
 */
void learn_prompt(const struct arbiter *a, struct instance *instance, int64_t tokens, int64_t read);
/* What it may still come to take of those buffers, and of a prompt cache. */
int64_t learn_untouched(const struct model *model, const struct instance *instance);
/* A stored row; taken where a model has these keys, and showed nothing in this life. False: there is none. */
bool learn_row(struct arbiter *a, const struct learned_row *row);

#endif
