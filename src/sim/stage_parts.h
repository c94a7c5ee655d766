#ifndef SIM_STAGE_PARTS_H
#define SIM_STAGE_PARTS_H

#include "sim/stage.h"

/* stage_parts - memory, its random processes, and what faults do. Private to the stage's files. */

/* What is true; players are told what is measured. */
double stage_memory_of(const struct stage *stage, uint32_t model);
double stage_used(const struct stage *stage);

/* One tick of the walk, the spikes and the fluctuations, in the order the stream is drawn. */
void stage_drift(struct stage *stage);
/* Files beyond the free memory leave the page cache. */
void stage_trim(struct stage *stage);

/* As it stands now, with those requests alone that wait or run, under another scene and player. stage_free() it. */
void stage_copy(struct stage *to, const struct stage *from, const struct scene *scene,
                const struct stage_player *player);

void stage_hear(struct stage *stage, enum stage_news news, uint32_t index);
/* It is COLD at once; its requests wait again, or have failed where that happened too often. */
void stage_kill(struct stage *stage, uint32_t model);
/* The client of one that waits or runs is gone. */
void stage_leave(struct stage *stage, uint32_t request);

#endif
