#ifndef ESTIMATE_CORRECT_H
#define ESTIMATE_CORRECT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * correct - what was observed corrects what is estimated.
 *
 * Sizes that a file dictates are exact and never learned. Two things are: the
 * factor between the closed form of the compute buffer and the engine's, and
 * the constant that no file tells (a driver's context, libraries). What was
 * observed for the very same build, model and parameters is remembered; a new
 * pair leans on other parameters of the model, and those on the build's other
 * models (shrunk means, weights 2 and 3). A bound is stated with its coverage:
 * from the last scores of this build, each taken before it was learned from
 * (split conformal), with the level adapted to the misses; before there are
 * enough scores, from the closed form's spread.
 *
 * The engine's build is in every key: a new build starts with its own scores and
 * a tenth of the weight of what the one before taught.
 *
 * All state is a fold over observations: keep them, observe them again in their
 * order, and the corrector is the same. It corrects an estimate before a load and
 * is told once what came of it; what a live instance takes is the arbiter's.
 */

struct correction_keys {
	uint64_t build;  /* of the engine, with its backend */
	uint64_t model;  /* the file */
	uint64_t params; /* what it is launched with */
};

/* The closed form's sum, in its two parts. */
struct formula_parts {
	int64_t fixed_bytes;   /* weights, caches, and the constant as far as it is known */
	int64_t compute_bytes;
	bool on_device;        /* then the constant is hardly known */
};

/* What became of one load. Plain bytes: this is what is kept. */
struct observation {
	struct correction_keys keys;
	struct formula_parts formula;
	int64_t compute_bytes; /* the engine's own word; 0 = it did not say */
	int64_t total_bytes;   /* measured; 0 where it was killed */
	int64_t killed_bytes;  /* what was free for it when it was killed for memory; 0 = it was not */
	bool touched;          /* all its buffers were in use when it was measured */
};

enum correction_source { CORRECTION_NONE, CORRECTION_LEARNED, CORRECTION_MEMO };

struct correction {
	int64_t best_bytes;
	int64_t upper_bytes;    /* at 95 % */
	int64_t upper99_bytes;
	bool is_conformal;      /* false: too few scores, the bound is the closed form's spread */
	uint32_t observations;  /* of this build */
	double factor;          /* on the compute buffer */
	int64_t constant_bytes; /* added */
	enum correction_source source;
};

struct corrector;

struct corrector *corrector_new(void);
void corrector_free(struct corrector *corrector);

void correct(const struct corrector *corrector, const struct correction_keys *keys,
             const struct formula_parts *formula, struct correction *out);

/* What correct() said for it just before is in `said` (may be NULL). */
void corrector_observe(struct corrector *corrector, const struct observation *observation,
                       struct correction *said);

#endif
