#ifndef SIM_CLAIRVOYANT_H
#define SIM_CLAIRVOYANT_H

#include "sim/stage.h"

/*
 * clairvoyant - a reference that knows what no policy can know.
 *
 * It knows what each model really takes, how long each request really runs, and
 * what will arrive in the next minutes. Where somebody waits for room, it plays the
 * next six minutes (ROLL_S) once for each thing that it could do (make room for one of those
 * who wait, by idle or by busy models, or wait), on a copy of the stage, and does
 * what had them spend the least weighted time there.
 *
 * It is no bound: the choices are few, within a roll-out it follows one simple
 * rule, it does not load ahead of a request, and what others' memory will do it
 * does not know. Another policy may be better than it, and where one is much
 * worse, there is something left to gain.
 */
struct clairvoyant;

struct clairvoyant *clairvoyant_new(void);
struct stage_player clairvoyant_player(struct clairvoyant *clairvoyant);
void clairvoyant_free(struct clairvoyant *clairvoyant);

#endif
