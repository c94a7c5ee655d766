#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "core/ledger.h"
#include "core/state.h"

/*
 * place - what wants room, and the one admission that all of it passes.
 *
 * Two things want room: a load (its model's peak), and the head of a ready
 * model's queue whose need does not fit beside what is held. Who is asked, in
 * which order, and who goes where there is no room, is a policy's; what may be
 * let in, and what letting in, evicting and draining are, is said here.
 */

struct want {
	struct model *model;
	struct instance *instance; /* NULL: wants a load; else room for `head` to run */
	struct request *head;      /* NULL: a load that nobody waits for */
	bool may_evict;
	bool measures;             /* to load alone */
	bool beside_all;           /* nobody would go for it: whoever is beside it stays */
	struct amount need;
	struct amount sigma;
	struct amount lower;
	struct amount own_need;    /* a load: without those of its set that come along */
	struct amount own_sigma;
};

/* What `model` needs to load, or, where it has an instance, for `head` to run there. */
struct want place_want(const struct arbiter *a, struct model *model, struct request *head);
bool place_wants_load(const struct arbiter *a, const struct model *model);
/* A server that we do not run is wanted: it needs no room, so nothing stands in its way. */
bool place_attach(struct arbiter *a);
bool place_wants_dispatch(const struct arbiter *a, const struct model *model);

/* It will not go for `want`: it is pinned, or one of its set is, or it is the model's own mate. */
bool place_stays(const struct arbiter *a, const struct want *want, const struct instance *instance);
/* By that account nobody is beside it, or nobody but such. Costs by how many may go and are still there: one is enough. */
bool place_is_sole(const struct arbiter *a, const struct want *want, const struct outlook *outlook);

/*
 * The admission. Who is alone, or beside nobody but those that stay, may take all
 * of B, and there an upper bound does not refuse: a load is judged by the least
 * that it takes, a request not at all. Else a model whose estimate is too high
 * would never be served, for nobody who could go is left.
 */
bool place_admits(const struct arbiter *a, const struct want *want, const struct outlook *outlook,
                  struct verdict *out);
/* Why no load of it may start now, whatever the room. */
enum reason place_load_gate(const struct arbiter *a, const struct model *model);

/* Carrying out; each records the decision with the verdict's numbers. */
void place_start_load(struct arbiter *a, const struct want *want, const struct verdict *verdict);
/* want->model NULL: for nobody, memory is short */
void place_evict(struct arbiter *a, const struct want *want, struct instance *victim,
                 enum reason reason, const struct verdict *verdict);
void place_drain(struct arbiter *a, const struct want *want, struct instance *victim,
                 const struct verdict *verdict);

/* The longest unused instance that runs nothing and may go; NULL: none. */
struct instance *place_idle(const struct arbiter *a, bool with_queue, bool pinned_too);

#endif
