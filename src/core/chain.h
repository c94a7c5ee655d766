#ifndef CORE_CHAIN_H
#define CORE_CHAIN_H

#include "core/state.h"

/*
 * chain - a list of requests: a model's queue, an instance's running ones.
 *
 * A request is in one chain at most, so one pair of links in its row is enough;
 * leaving from the middle costs no search.
 */
void chain_append(struct arbiter *a, struct chain *chain, struct request *request);
/* By arrival: last, but for who came before and was given back. */
void chain_insert(struct arbiter *a, struct chain *chain, struct request *request);
void chain_remove(struct arbiter *a, struct chain *chain, struct request *request);

#endif
