#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include "core/ledger.h"
#include "core/state.h"

/*
 * place - who gets room next, and who goes for it.
 *
 * Two things want room: a load (its model's peak), and the head of a ready
 * model's queue whose need does not fit beside what is held. Both pass the same
 * admission. For one that is blocked others go: idle ones where that makes the
 * room suffice, never in vain; when its head is overdue, busy ones are drained as
 * well. What is on its way to it, and all that may go once it is overdue, is not
 * given to those behind it.
 */

struct want {
	struct model *model;
	struct instance *instance; /* NULL: wants a load; else room for `head` to run */
	struct request *head;      /* NULL: a load that nobody waits for */
	bool may_evict;
	bool measures;             /* to load alone */
	uint32_t pinned;           /* holders that will not go for it */
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

/*
 * The admission. Who is alone may take all of B, and there an upper bound does
 * not refuse: a load is judged by the least it takes, a request not at all.
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
/* Were all gone that may go, it would not be let in either, or not before `victim` is back. */
bool place_in_vain(const struct arbiter *a, const struct want *want, const struct outlook *coming,
                   const struct instance *victim);
/* Reject its head where nothing that may go would help; `coming` is the account without who leaves. */
bool place_refuse_hopeless(struct arbiter *a, const struct want *want, const struct outlook *coming);

/* Memory has been short for long and none that may go is left: who waits for a load is told so. */
bool place_refuse_pressed(struct arbiter *a);

/* One unit of work each; false: there was nothing to do. */
bool place_dispatch(struct arbiter *a);
bool place_one(struct arbiter *a);
/* A drain whose beneficiary no longer needs it: serve again. */
bool place_undrain(struct arbiter *a);

/*
 * Not on this machine: not even beside nothing but the pinned, at the least foreign use ever seen. Where KV
 * follows conversations, one of `need` has to have room as well; NULL: as large as one that had none.
 */
bool place_never(const struct arbiter *a, const struct model *model, const struct amount *need,
                 struct verdict *out);

/* The longest unused instance that runs nothing and may go; NULL: none. */
struct instance *place_idle(const struct arbiter *a, bool with_queue, bool pinned_too);

#endif
