#ifndef ESTIMATE_FAMILY_H
#define ESTIMATE_FAMILY_H

#include <stdint.h>

/*
 * family - what an architecture's name says that its file's keys do not.
 *
 * One row an architecture the engine knows (llm_arch of llama-arch.cpp; the
 * rules are those of load_arch_hparams() for each). An architecture without a
 * row gets one from its keys and tensors (guess.h): never too little.
 */
enum family_trait {
	FAMILY_NO_CACHE = 1 << 0,      /* encoders and diffusion models: llama_model::create_memory() makes none */
	FAMILY_NO_GATE = 1 << 1,       /* feed-forward of two matrices */
	FAMILY_FULL_WINDOW = 1 << 2,   /* the sliding window key is there and not used */
	FAMILY_DENSE_FIRST = 1 << 3,   /* of a pattern of layers the first is the full one, not the last */
	FAMILY_ALL_RECURRENT = 1 << 4,
	FAMILY_SOME_RECURRENT = 1 << 5, /* the layers whose head_count_kv is 0 */
	FAMILY_MLP_LAYERS = 1 << 6,    /* of those, the ones with a feed-forward length are neither */
	FAMILY_INTERVAL = 1 << 7,      /* all but each n-th layer, n = `interval` or full_attention_interval */
	FAMILY_BOTH = 1 << 8,          /* attention and state in every layer */
	FAMILY_STATE_SSM = 1 << 9,     /* n_embd_r() and n_embd_s() of llama-hparams.cpp, by kind */
	FAMILY_STATE_RWKV = 1 << 10,
	FAMILY_STATE_CONV = 1 << 11,
	FAMILY_STATE_KDA = 1 << 12,
	FAMILY_STATE_LINEAR = 1 << 13,
	FAMILY_GATED_ATTENTION = 1 << 14, /* the query projection is twice as wide */
	FAMILY_SHARED_BY_KEY = 1 << 15, /* expert_shared_feed_forward_length is the whole of it */
	FAMILY_MLA = 1 << 16,
	FAMILY_ENCODER = 1 << 17,      /* answers with embeddings, has no logits */
	FAMILY_INDEX_LATE = 1 << 19,   /* sparse attention begins behind the dense layers */
	FAMILY_TIED = 1 << 18,         /* no output matrix of its own, whatever the file holds */
	FAMILY_COMPRESSED = 1 << 20,   /* each layer a window of keys alone, and of some every 4th or 128th token beside it */
};

enum { PATTERN_OF_FILE = -1 };

struct family {
	const char *name;
	uint32_t traits;
	int32_t pattern;   /* sliding window: one full layer in this many; 0 = no such layers */
	                   /* PATTERN_OF_FILE = only where the file has a pattern */
	int32_t window;    /* where the file names none; 0 = then the window is not used */
	int32_t own_cache; /* layers with a cache of their own; the rest reuse; 0 = all */
	int32_t interval;  /* FAMILY_INTERVAL: one full layer in this many, where the file does not say; 0 = 4 */
};

/* The row of `name`; NULL = unknown to us. */
const struct family *family_find(const char *name);

#endif
