#ifndef ESTIMATE_FORMULAS_H
#define ESTIMATE_FORMULAS_H

#include "estimate/estimate.h"
#include "estimate/model_facts.h"

/*
 * formulas - what the engine reserves for a model, part by part.
 *
 * All follow llama.cpp of 2026 (builds from b9952 on: separate sliding-window
 * caches, half-precision masks, one row of logits a sequence, no V for MLA);
 * what older builds did otherwise stands in era.h.
 * Inputs are resolved facts; results are saturated sums (bounded.h).
 */

/* How the context is cut into cells: llama_context's constructor and llama_kv_cache_iswa. */
struct cells {
	int64_t context;  /* as asked for, before rounding */
	int64_t sequences;
	int64_t streams;  /* 1 = one cache for all sequences */
	int64_t full;     /* cells of a stream */
	int64_t window;   /* cells of a stream in layers that see a window; 0 = no such layers */
	int64_t tokens;   /* of one physical batch */
	int64_t outputs;  /* rows of logits of one physical batch */
	int64_t rows;     /* ... and of a logical one, kept beside it */
	bool tells_all;   /* each token is an output: an embedding of its own, with its logits */
	int64_t states;   /* copies of the recurrent state: each sequence's, and its snapshots */
	bool flash;
	bool latent_alone; /* MLA keeps no V, masks are half as wide, two inputs are reserved: not so in older builds */
	bool half_mask;
	bool copies_k, copies_v; /* a quantised cache is turned into f16 for a batch, on the device */
	bool two_inputs;
};

void cells_of(const struct model_facts *facts, const struct estimate_params *params,
              struct cells *out);

/* Rows of a batch from which on a device multiplies what lies on the host. */
enum { STAGED_BATCH = 32 };

/* Which layers compute on the device: the last ones, and after them the output. */
struct placement {
	uint32_t first_device_layer; /* layers from here on; facts->layers = none */
	bool output_on_device;
	uint32_t cpu_expert_layers;  /* the first ones, whose experts stay on the host */
	bool has_device;             /* with a context of the engine's, whatever lies there */
	bool stages;                 /* it computes large batches of what lies on the host, too */
};

void placement_of(const struct model_facts *facts, const struct estimate_params *params,
                  struct placement *out);

static inline bool placement_any(const struct model_facts *facts, const struct placement *placement)
{
	return placement->output_on_device || placement->first_device_layer < facts->layers;
}

/* A full batch is computed on the device. */
static inline bool placement_computes(const struct model_facts *facts, const struct placement *placement)
{
	return placement->stages || placement_any(facts, placement);
}

/* kv.c: of one layer, all streams. */
int64_t kv_layer_bytes(const struct model_facts *facts, const struct cells *cells,
                       const struct estimate_params *params, uint32_t layer);
/* The larger half of that, K or V. */
int64_t kv_layer_half_bytes(const struct model_facts *facts, const struct cells *cells,
                            const struct estimate_params *params, uint32_t layer);
/* Elements that a batch's token adds to it, K and V, where that is most. */
int64_t kv_row_width(const struct model_facts *facts, const struct cells *cells);
int64_t recurrent_layer_bytes(const struct model_facts *facts, const struct cells *cells,
                              uint32_t layer);
/* What the server sets aside to go back to: one conversation's recurrent state and windows; all 0 = it need not. */
void set_aside_of(const struct model_facts *facts, const struct cells *cells, const struct estimate_params *params,
                  struct set_aside *out);
/* With the whole window. */
int64_t set_aside_bytes(const struct set_aside *aside);
/* Growth of one conversation by a token, in the layers that keep every token. */
int64_t kv_token_bytes(const struct model_facts *facts, const struct cells *cells,
                       const struct estimate_params *params);

/* compute.c: the largest set of tensors alive at once in one batch. */
int64_t compute_device_bytes(const struct model_facts *facts, const struct cells *cells,
                             const struct estimate_params *params, const struct placement *placement);
int64_t compute_host_bytes(const struct model_facts *facts, const struct cells *cells,
                           const struct estimate_params *params, const struct placement *placement);

/* Of the host's, where nothing is on a device: masks and scores, larger the more of the context is filled. */
int64_t compute_context_bytes(const struct model_facts *facts, const struct cells *cells);

/* What goes into a product is quantised like the matrix, in a buffer of the CPU backend's own. */
int64_t compute_work_bytes(const struct model_facts *facts, const struct cells *cells);

/* weights.c */
struct weights {
	bool plain;             /* all stay in the file's form: the engine is told not to rewrite any */
	int64_t device_bytes;
	int64_t host_bytes;     /* with the rewritten copy, where there is one beside the file */
	int64_t passing_bytes;  /* held in addition while loading, then given back */
	int64_t kept_bytes;     /* of that, what the allocator keeps */
	int64_t expert_bytes;   /* of all experts; 0 = there are none */
	int64_t resident_bytes; /* of those, in memory */
	int64_t mapped_bytes;   /* of the file in use, where the experts are mapped */
};

void weights_of(const struct model_facts *facts, const struct estimate_params *params,
                const struct placement *placement, struct weights *out);

#endif
