#ifndef CORE_SET_H
#define CORE_SET_H

#include "core/place.h"

/*
 * set - models that are used together: ears, mind and voice.
 *
 * One without the others is of no use, so they come and go as one: a load asks for room for all that are
 * missing and starts them together, one is no victim where another of them could not be, and when one has
 * gone for room, by command or for idleness, the others follow. Use of one is use of all. Of their own
 * they never make room for each other. Whom nobody has measured yet loads alone, outside its set;
 * and where all together are more than the machine by their estimates, the first is tried alone.
 *
 * The models of a set are a ring through model.mate; it is made anew when one comes or leaves.
 */

/* The next of its set; NULL: it is in none, or alone there. */
static inline struct model *set_next(const struct arbiter *a, const struct model *model)
{
	return model_link(a, model->mate);
}
#define SET_MATES(a, of, mate)                                                                   \
	for (struct model *mate = set_next(a, of); mate && mate != (of); mate = set_next(a, mate))

void set_link(struct arbiter *a, uint32_t set);
bool set_mates(const struct model *x, const struct model *y);

/* Missing mates that its load would bring along; each adds to `want`. */
void set_want(const struct arbiter *a, struct want *want);
/* Its load was decided: so are theirs. */
void set_load(struct arbiter *a, const struct model *model, const struct verdict *verdict);
/* It was used now, and so were they. */
void set_used(struct arbiter *a, const struct model *model);
/* May none of its mates go? For `idle` one that runs something may not. */
bool set_holds(const struct arbiter *a, const struct model *model, bool idle);
/* It, or one of its set that is loaded, is pinned: then none of them goes. */
bool set_pinned(const struct arbiter *a, const struct model *model);
/* One unit of work: a mate follows one that leaves. */
bool set_follow(struct arbiter *a);
/*
 * Mates of what is loaded come back when they are missing, where there is room. Who went for idleness or by command
 * waits for the next use of the set: one that stays, pinned or not ours, would have it back and gone for ever.
 */
bool set_calls(const struct arbiter *a, const struct model *model);

#endif
