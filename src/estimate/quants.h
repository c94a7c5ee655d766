#ifndef ESTIMATE_QUANTS_H
#define ESTIMATE_QUANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * quants - what a model loses with fewer bits a weight, and what it saves.
 *
 * The table is what the authors of llama.cpp measured of Llama 3 8B (its
 * tools/perplexity/README.md, "LLaMA 3 8b Scoreboard", revision f364eb6f):
 * file sizes, and by how much the perplexity rises over 16 bits (6.2332), without
 * an importance matrix except for IQ4_XS, which wants one. Perplexity is one
 * number for one text; larger models lose less, and some tasks more. It ranks
 * the steps well enough to say which model to take the next one for.
 */
struct quant {
	const char *name;
	double bits_per_weight;
	double perplexity_percent; /* more than with 16 bits */
};

/* From the most bits to the fewest; -1: not one of them. */
int quant_index(const char *name);
const struct quant *quant_at(int index); /* NULL beyond the table */

/* One model of those that are to stay resident together. */
struct quant_model {
	const char *quantisation; /* as it is now */
	int64_t weights_bytes;    /* as it is now */
	int64_t rest_bytes;       /* cache, buffers: the same with any quantisation */
	/* chosen: */
	int chosen;               /* of the table; -1 = it stays as it is */
	int64_t chosen_bytes;     /* weights */
};

/*
 * Choose for all: begin with 8 bits, or with what a model has where that is
 * more, and while they do not fit into `room_bytes` together take the step that
 * costs least perplexity for each byte that it saves. False: they do not fit even
 * with the fewest bits. Returns the sum by `out_bytes`.
 */
bool quants_choose(struct quant_model *models, size_t count, int64_t room_bytes, int64_t *out_bytes);

#endif
