#ifndef SIM_STAGE_PARTS_H
#define SIM_STAGE_PARTS_H

#include "sim/stage.h"

/* stage_parts - memory and its random processes. Private to stage.c. */

/* One tick of the walk, the spikes and the fluctuations, in the order the stream is drawn. */
void stage_drift(struct stage *stage);
/* Files beyond the free memory leave the page cache. */
void stage_trim(struct stage *stage);

#endif
