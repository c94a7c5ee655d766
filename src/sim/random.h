#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/arbiter.h"

/*
 * random - a random world from one seed, to break the arbiter with.
 *
 * The machine, its models and their faults are drawn from the seed: clients come
 * and leave, loads crash, hang or never get ready, engines die, samples lie,
 * memory leaks, others take it, engines grow as they run, experts swing, operators
 * pin (now and then everything), unload and change the catalogue, the machine
 * sleeps, its clock goes back and jumps ahead, who holds a reservation vanishes.
 * Then the faults stop: what waits must come to an end. At last the world shuts
 * down, and everything must come back.
 *
 * With `interplay` the parts of a daemon meet as well: conversations in lazy engines,
 * contexts that grow, others' servers on this machine, sets, pins, experts, sudden
 * shortages, sleep; some of these in each world, and plans are tried all along.
 *
 * arbiter_check() runs after every step (it aborts where an invariant of the
 * arbiter's own rows is broken); beside it the world checks from outside what a
 * shell relies on: one end for each request, no dispatch to what is not ready, no
 * load beyond the room there is, nothing left half-way or coming and going once all is
 * quiet, and others' use known to the byte then. Same seed, same run, on every machine.
 */
enum { SIM_PROBLEM_BYTES = 256 };

struct sim_result {
	uint64_t seed;
	uint64_t steps;
	uint64_t actions;
	uint64_t hash;          /* over all actions */
	uint64_t requests;      /* that arrived */
	uint64_t finished;
	uint64_t rejected;
	uint64_t left;          /* clients that gave up */
	uint64_t cancelled;
	uint64_t kernel_kills;  /* the machine ran out of memory */
	double simulated_s;
	struct arbiter_counters counters;
	char problem[SIM_PROBLEM_BYTES]; /* "" where all held */
};

struct sim_options {
	uint64_t seed;
	FILE *trace;        /* each event and action as a line; or NULL */
	FILE *record;       /* a recording, for replay; or NULL */
	uint32_t capacity;  /* of one `out`; 0 = drawn from the seed */
	bool interplay;     /* conversations, growing contexts, others' servers, sets and more meet */
};

/* 0, or -1 where something was broken: result->problem says what. */
int sim_run(const struct sim_options *options, struct sim_result *result);
/* The same with a trace alone. */
int sim_run_random(uint64_t seed, FILE *trace, struct sim_result *result);

#endif
