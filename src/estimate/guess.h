#ifndef ESTIMATE_GUESS_H
#define ESTIMATE_GUESS_H

#include "estimate/model_facts.h"

/*
 * guess - a family for an architecture that nobody has described.
 *
 * The keys below an architecture's name mean the same for all of them, and the
 * tensors say what each layer has. What neither tells is taken as what costs
 * more: attention over the whole context in every layer, a gated feed-forward.
 * Fills `guessed` and points `family` at it; needs keys, tensors and `layers`.
 */
void guess_family(struct model_facts *facts);

#endif
