#ifndef CORE_HABIT_H
#define CORE_HABIT_H

#include "core/state.h"

/*
 * habit - what was learned of how a model lives: its true footprint, idle and
 * running, how often it is asked for and by whom, how long it loads and serves.
 *
 * Learning happens under every policy. Claims follow it only under one that
 * learns: there a ready instance claims base * ratio, its requests' needs at the
 * same ratio, and while something runs the largest rest that was seen lately;
 * under the others base + needs, as estimated or measured idle.
 *
 * Pure arithmetic in doubles without contraction: the same on every machine.
 */

/* 4, 2, 1, 1: how much waiting hurts. */
static inline int64_t class_weight(uint32_t priority)
{
	return priority == PRIORITY_INTERACTIVE ? 4 : priority == PRIORITY_NORMAL ? 2 : 1;
}

static inline double habit_seconds(int64_t us)
{
	return (double)us / 1e6;
}

/* ---- learning ---- */
void habit_arrived(struct arbiter *a, struct model *model, const struct request *request);
void habit_served(struct arbiter *a, struct model *model, const struct request *request);
/* It was its key's turn, and its conversation's. */
void habit_turn(struct model *model, const struct request *request);
/* So many tokens of a prompt were read in that time. */
void habit_prefilled(struct model *model, int64_t tokens, int64_t took_us);
void habit_loaded(struct arbiter *a, struct model *model);
/*
 * Its engine was killed, or gave up, for lack of memory: its next loads claim a tenth of its base more for each
 * time, four at most, and its spread counts so much wider. Half of that goes with each life that ends in peace.
 */
void habit_ran_out(struct arbiter *a, struct model *model);
void habit_in_peace(struct arbiter *a, struct model *model);
void habit_sample(struct arbiter *a, struct instance *instance); /* one was measured */
/* What work takes, as learned, kept a request from starting where nothing else was in its way. */
void habit_doubt(struct model *model);
void habit_sampled(struct arbiter *a); /* all were: priors, others' use, claims */
bool habit_foreign_falls(const struct arbiter *a); /* others use clearly less than five seconds ago, in some pool */

/* A model with all that was learned of it comes into what models have in common, or leaves it. */
void habit_join(struct arbiter *a, const struct model *model);
void habit_leave(struct arbiter *a, const struct model *model);

/* ---- what to count with ---- */
/* Loaded and idle. */
struct amount habit_base(const struct arbiter *a, const struct model *model);
/* What runs takes beyond base + needs. */
struct amount habit_swing(const struct arbiter *a, const struct model *model,
                          const struct amount *needs, bool busy);
struct amount habit_sigma(const struct arbiter *a, const struct model *model);
/* Requests that will run as soon as it is ready. */
uint32_t habit_expects(const struct model *model);
/* What a load claims: its peak, and room for so many requests. */
struct amount habit_peak(const struct arbiter *a, const struct model *model, uint32_t expects);
/* Loads in flight claim for those who wait now. */
void habit_expect(struct arbiter *a);

/*
 * How lately its key, and then its conversation, was served: 0 = not of late, more = later.
 * Who is served least lately comes first, so that many calls of one do not own a model.
 */
uint32_t habit_lateness(const struct model *model, const struct request *request);

double habit_load_s(const struct model *model);
/* How long a request is expected to run alone. */
double habit_service_s(const struct model *model, const struct request *request);
double habit_class_weight(const struct model *model);
/* The chance that somebody asks for it within the horizon. */
double habit_wanted(const struct arbiter *a, const struct model *model);
/* Never more than that, and quickly known. */
double habit_wanted_least(const struct arbiter *a, const struct model *model);
/* The chance that what was last asked for so long ago is asked for again within it. */
double habit_again(double age_s);
/* Requests for it in the last hour. */
uint32_t habit_asked(const struct arbiter *a, const struct model *model);

#endif
