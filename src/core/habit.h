#ifndef CORE_HABIT_H
#define CORE_HABIT_H

#include "core/state.h"

/*
 * habit - what was learned of how a model is used: how often it is asked for and
 * by whom, whose turn it is, how long it loads and serves. What it takes meanwhile
 * is footprint.h.
 *
 * Learning happens under every policy. Pure arithmetic in doubles without
 * contraction: the same on every machine.
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

/* ---- what is to be expected ---- */
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
