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
/* A stored row; taken where a model has these keys, and showed nothing in this life. False: there is none. */
bool learn_row(struct arbiter *a, const struct learned_row *row);

#endif
