#ifndef CORE_REGRET_H
#define CORE_REGRET_H

#include "core/place.h"

/*
 * regret - what it would cost to make others go, and who should.
 *
 * Of an idle one: the chance that it is asked for again soon, times its load and
 * what its conversations would have to be read again (held.h), in weighted seconds. Of a busy one: its load for certain, what its queue waits
 * longer, and what the beneficiary's queue waits until it has drained.
 */
enum { REMOVAL_MAX = 12, REMOVED_MAX = 96 }; /* candidates, which may be whole sets; instances */

struct removal {
	uint32_t count; /* 0: it cannot be done */
	struct instance *victim[REMOVED_MAX];
	double regret;  /* of all */
	double drain_s; /* until the last one runs nothing */
};

enum removal_kind {
	REMOVE_IDLE,
	REMOVE_BUSY,    /* busy ones too */
	REMOVE_OVERDUE, /* ... but none that was ready for less than its load is worth */
};

double regret_idle(const struct arbiter *a, const struct model *model);
/* The numbers behind letting it go, for `for_model` (NULL: for nobody). */
void regret_tell(const struct arbiter *a, const struct model *model, const struct model *for_model,
                 struct decision *out);
/* Longest time that something running there is expected to take yet. */
double regret_drain_s(const struct arbiter *a, const struct instance *instance);
/* Time to serve everything that waits for a model, once it is ready. */
double regret_queue_s(const struct arbiter *a, const struct model *model);

/* The set with the least regret that makes room for `want` in `coming`. */
struct removal regret_choose(const struct arbiter *a, const struct want *want,
                             const struct outlook *coming, enum removal_kind kind);

/*
 * Of those that run nothing, may go and are not for `except`, the one with the
 * least regret a byte; with_queue: also those somebody waits for. NULL: none.
 */
struct instance *regret_cheapest(const struct arbiter *a, const struct model *except,
                                 bool with_queue);

#endif
