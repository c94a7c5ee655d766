#ifndef CORE_FOOTPRINT_H
#define CORE_FOOTPRINT_H

#include "core/state.h"

/*
 * footprint - what a model really takes, as far as samples have told.
 *
 * Of each model: the ratio of its measured idle bytes to the estimate's, how much
 * that varies, and the largest rest that was seen of late while it ran. A model
 * never measured has the ratio that those that were have in common. How much others'
 * use rises within half a minute is learned as well: a load takes about that.
 *
 * Learning happens under every policy. Claims follow it only under one that
 * learns: there a ready instance claims base * ratio, its requests' needs at the
 * same ratio, and while something runs the rest; under the others base + needs, as
 * estimated or measured idle.
 *
 * Pure arithmetic in doubles without contraction: the same on every machine.
 */

/* ---- learning ---- */
/*
 * Its engine was killed, or gave up, for lack of memory: its next loads claim a tenth of its base more for each
 * time, four at most, and its spread counts so much wider. Half of that goes with each life that ends in peace.
 */
void footprint_ran_out(struct arbiter *a, struct model *model);
void footprint_in_peace(struct arbiter *a, struct model *model);
void footprint_sample(struct arbiter *a, struct instance *instance); /* one was measured */
/* What work takes, as learned, kept a request from starting where nothing else was in its way. */
void footprint_doubt(struct model *model);
void footprint_sampled(struct arbiter *a); /* all were: priors, others' use, claims */
bool footprint_foreign_falls(const struct arbiter *a); /* others use clearly less than five seconds ago, in some pool */

/* A model with all that was learned of it comes into what models have in common, or leaves it. */
void footprint_join(struct arbiter *a, const struct model *model);
void footprint_leave(struct arbiter *a, const struct model *model);

/* ---- what to count with ---- */
/* Loaded and idle. */
struct amount footprint_base(const struct arbiter *a, const struct model *model);
/* What runs takes beyond base + needs. */
struct amount footprint_swing(const struct arbiter *a, const struct model *model,
                               const struct amount *needs, bool busy);
struct amount footprint_sigma(const struct arbiter *a, const struct model *model);
/* Requests that will run as soon as it is ready. */
uint32_t footprint_expects(const struct model *model);
/* What a load claims: its peak, and room for so many requests. */
struct amount footprint_peak(const struct arbiter *a, const struct model *model, uint32_t expects);
/* Loads in flight claim for those who wait now. */
void footprint_expect(struct arbiter *a);

#endif
