#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim/stage.h"

/*
 * faults - what goes wrong on a stage, where its scene says that something does.
 *
 * Clients leave, loads fail and hang, engines crash in the middle of their work,
 * leak, grow as they run and swing with their experts, samples lie, the clock
 * jumps, others take memory, who holds a reservation vanishes, everything is
 * pinned. Until scene->faults_until_s; then what hangs goes on, what is pinned
 * may go, and what waits must come to an end.
 *
 * What happens to whom depends on the scene's seed alone, not on who decides: the
 * third load of a model fails under each policy, and the same client leaves.
 *
 * Private to stage.c but for faults_scene() and fault_name().
 */

/* A world with faults: there is a reservation in it, and memory swings. */
void faults_scene(struct scene *scene);
/* "client left" and the like; NULL at the end. */
const char *fault_name(uint32_t kind);

void faults_arrived(struct stage *stage, uint32_t request);
void faults_started(struct stage *stage, uint32_t request);
void faults_load(struct stage *stage, uint32_t model);
void faults_unloaded(struct stage *stage, uint32_t model);
void faults_tick(struct stage *stage);

#endif
