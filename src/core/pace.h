#ifndef CORE_PACE_H
#define CORE_PACE_H

#include "core/state.h"

/*
 * pace - how much models slow one another, and how many should run at once.
 *
 * What runs in one memory shares its bandwidth. An answer tells how fast it was made; made while no
 * other model ran, it tells the model's speed alone, and made beside others, what it lost. Of that
 * follows for how many models at once all together are fastest: n for which n times the share that
 * each keeps is largest. Until enough answers told, two; interactive ones may always be two more, and
 * so it is found out what a third would do.
 *
 * Only answers count that had their engine nearly for themselves: requests of one model slow each
 * other too, and that is another thing.
 */

/* Time has moved. */
void pace_advance(struct arbiter *a);
/* Something began or ended to run. */
void pace_changed(struct arbiter *a);
void pace_begin(struct arbiter *a, struct request *request);
/* It ended: `tokens` in `decode_us`, as the engine told; 0: it did not. */
void pace_end(struct arbiter *a, const struct request *request, int64_t tokens, int64_t decode_us);

/* What it takes of the bandwidth while it runs; 1 = all it can get. */
static inline double pace_bandwidth(const struct model *model)
{
	return model->spec.bandwidth_permille ? model->spec.bandwidth_permille / 1000.0 : 1;
}
/* What was learned of a pool, to be kept, and as it was kept. */
void pace_export(struct pace *pace, uint32_t pool, struct learned_row *out);
void pace_import(struct arbiter *a, const struct learned_row *row);
/* How many models gain by running at once. */
double pace_most(const struct arbiter *a, uint32_t pool);

#endif
