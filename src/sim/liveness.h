#ifndef SIM_LIVENESS_H
#define SIM_LIVENESS_H

#include "sim/stage.h"

/*
 * liveness - that nobody waits without end, seen from outside the policy.
 *
 * A request for a cold model is overdue after 200 s (interactive), 420 s (normal)
 * or 1800 s (batch) at the latest. From then on its model's load may be held up by the turns of
 * all others that were overdue before it, each once: until what runs there has
 * ended, its unload, its load, and the time that a load buys (30 s, or twice the
 * load). That is the stated bound. Time in which it could not be done at all
 * does not count: while a reservation holds its memory, while models are pinned,
 * while others leave too little for the model alone, and until ten minutes after the last fault
 * (who failed to load is tried again later and later).
 */
struct liveness {
	double overdue_s[SCENE_MODELS_MAX];
	double longest_s; /* of any, from overdue to its load */
};

/* Once a tick. */
void liveness_look(struct liveness *liveness, const struct stage *stage);
/* By the scene, and by the longest runs that there were. */
double liveness_bound_s(const struct stage *stage);

#endif
