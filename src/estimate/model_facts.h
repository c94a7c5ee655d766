#ifndef ESTIMATE_MODEL_FACTS_H
#define ESTIMATE_MODEL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "estimate/family.h"
#include "estimate/gguf.h"
#include "estimate/override.h"

/*
 * model_facts - what a walk over a model's file (or files) collects, and what
 * the formulas ask of it.
 *
 * Nothing grows with the file: scalars, one value a layer, sums of tensors.
 *
 *   1. facts_init(); `override` set, where tensors are placed by name
 *   2. facts_add() for each file, the first part first
 *   3. facts_resolve(): defaults filled in, per-layer values spread, bounds and
 *      shapes checked; only then are the values below `resolved` meaningful
 */
enum { LAYERS_MOST = GGUF_ELEMENTS_KEPT };
_Static_assert(LAYERS_MOST == 512, "LLAMA_MAX_LAYERS of llama-hparams.h");

/* A key that is one number for all layers or an array of one each. */
struct layer_values {
	bool given;
	bool array;
	uint32_t count;
	int32_t value[LAYERS_MOST];
};

/* Matrices that a CPU's own form replaces in memory, the embedding left out. */
struct rewritten {
	int64_t bytes;           /* in that form */
	int64_t added_bytes;     /* of that, more than in the file */
	int64_t largest_bytes;
	int64_t embedding_bytes; /* a tied embedding's second copy, in that form; 0 = needs none */
};

/* Tensors, folded. Bytes are as in the file. */
struct tensor_sums {
	int64_t all_bytes;
	int64_t token_embd_bytes;
	int64_t output_bytes;
	int64_t layer_bytes[LAYERS_MOST];
	int64_t expert_bytes[LAYERS_MOST]; /* part of layer_bytes */
	int64_t kept_bytes[LAYERS_MOST];   /* part of layer_bytes: on the host by name */
	int64_t kept_outside_bytes;        /* likewise, of no layer */
	int64_t largest_kept_bytes;
	bool keeps_experts;
	struct rewritten rewritten[2];     /* without AMX, and with it */
	int64_t largest_expert_bytes;
	bool stacked_tiles;                /* a stack of matrices, no experts, of a type that AMX tiles are made of */
	int64_t largest_bytes;             /* matrix of a layer, experts left out */
	int64_t type_bytes[64];            /* by type id; vectors, which stay F32, left out */
	int64_t elements;
	int64_t file_bytes;
	int64_t missing_bytes;
	int64_t embd_rows;                 /* n_vocab of token_embd; 0 = no matrix seen */
	int64_t embd_width;
	int64_t key_width;                 /* of the first attn_k matrix; 0 = none seen */
	uint32_t key_layer;
	int64_t up_width;                  /* of the first ffn_up matrix; 0 = none seen */
	int32_t key_widths[LAYERS_MOST];   /* of the matrices attn_k and attn_v; 0 = none seen */
	int32_t value_widths[LAYERS_MOST];
	bool attention[LAYERS_MOST];       /* matrices seen: of attention, of recurrent state, of two-matrix feed-forward */
	bool state[LAYERS_MOST];
	bool any_attention;
	bool has_up;
	bool has_gate;
	uint32_t layers;                   /* highest blk.N seen, plus 1 */
};

struct model_facts {
	const struct override *override; /* NULL: none is placed by name */
	char architecture[64];
	char name[128];
	char kind[16];          /* general.type: "model", "adapter", "mmproj"; "" = not given */
	bool architecture_late; /* keys of the architecture may have come before its name */
	int64_t file_type;      /* scalars: -1 = not given */
	int64_t split_count;
	int64_t split_number;
	int64_t split_tensors;
	int64_t block_count;
	int64_t context_length;
	int64_t embedding_length;
	int64_t vocab_size;
	int64_t token_count;    /* elements of tokenizer.ggml.tokens */
	int64_t expert_count;
	int64_t expert_used;
	int64_t expert_shared_ff;
	int64_t expert_shared;
	int64_t leading_dense;
	int64_t moe_step;
	int64_t key_length;
	int64_t value_length;
	int64_t key_length_swa;
	int64_t value_length_swa;
	int64_t key_length_mla;
	int64_t value_length_mla;
	int64_t kv_lora_rank;
	int64_t window;
	int64_t shared_kv_layers;
	int64_t nextn_layers;
	int64_t rope_dimensions;
	int64_t conv_kernel;
	int64_t inner_size;
	int64_t state_size;
	int64_t group_count;
	int64_t time_steps;
	int64_t pooling;        /* of an embedding; 0 = none */
	int64_t full_interval;
	int64_t wkv_head_size;
	int64_t token_shift;
	int64_t short_conv;
	int64_t kda_head_dim;
	int64_t indexer_length; /* sparse attention: keys that are looked through first */
	int64_t hyper_connections; /* streams from layer to layer, where there is more than one */
	int64_t image_size;     /* of a projector, and what follows of its encoder */
	int64_t patch_size;
	int64_t vision_embedding;
	int64_t vision_feed_forward;
	int64_t vision_heads;
	int64_t causal;         /* 0 = an encoder, which keeps no cache */
	struct layer_values heads;
	struct layer_values kv_heads;
	struct layer_values feed_forward;
	struct layer_values window_pattern;
	struct layer_values recurrent_layers;
	struct layer_values expert_widths;
	struct layer_values compress_ratios; /* may go on behind the layers that are counted */
	struct layer_values indexer_full;    /* of sparse attention, the layers that keep keys to look through */
	struct tensor_sums tensors;
	int64_t tensor_count;
	int64_t files;          /* walked */

	/* resolved: */
	const struct family *family; /* the table's row, or `guessed` */
	struct family guessed;
	bool family_known;
	uint32_t layers;             /* block_count */
	int64_t window_untold;       /* a window of layers that the file does not name; 0 = there is none */
	uint32_t cached_layers;      /* from the front: layers that may own a cache */
	int64_t vocab;
	int64_t ff_most;             /* widest feed-forward of a dense layer */
	int64_t expert_ff;           /* of an expert, the widest where layers differ; 0 = there are none */
	int64_t heads_most;
	bool windowed[LAYERS_MOST];
	bool recurrent[LAYERS_MOST];
	bool attends[LAYERS_MOST];   /* has a cache of its own */
	bool sizes_known;            /* false: no hyper-parameters at all, weights only */
	bool inconsistent;           /* keys and shapes disagree */
};

void facts_init(struct model_facts *facts);

/* Walk one file into `facts`. Keys are taken of the first file only. */
int facts_add(struct model_facts *facts, struct gguf_walk *walk, const struct byte_source *source,
              struct err *err);

/* -ENOTSUP, with what to do with it, where the file is no model but goes beside one. */
int facts_resolve(struct model_facts *facts, struct err *err);

/* By what the file says of itself. */
bool facts_are_adapter(const struct model_facts *facts);
bool facts_are_projector(const struct model_facts *facts);

static inline bool facts_trait(const struct model_facts *facts, enum family_trait trait)
{
	return facts->family && (facts->family->traits & (uint32_t)trait) != 0;
}

#endif
