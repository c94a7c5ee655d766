#ifndef ESTIMATE_ESTIMATE_H
#define ESTIMATE_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * estimate - what a model will take, from its file's header and its flags.
 *
 * Nothing is trusted: a file's header is read through a bounded window by a
 * callback, every product is checked, and what cannot be known is said
 * (`confidence`, `flags`) instead of guessed. Formulas and their sources stand
 * at each function of the .c files.
 */

/* Where the bytes come from: a file, a test's buffer, a download in progress. */
struct byte_source {
	void *ctx;
	/* Read exactly `length` bytes at `offset`; 0 or a negative errno (-ENODATA: beyond the end). */
	int (*read)(void *ctx, uint64_t offset, void *out, uint32_t length);
	uint64_t size; /* of the whole file */
};

enum flash_attn { FLASH_AUTO, FLASH_ON, FLASH_OFF };
enum kv_cache_type { KV_F32, KV_F16, KV_BF16, KV_Q8_0, KV_Q5_1, KV_Q5_0, KV_Q4_1, KV_Q4_0, KV_IQ4_NL, KV_TYPE_COUNT };
enum repack { REPACK_AUTO, REPACK_ON, REPACK_OFF };
enum load_mode { LOAD_MMAP, LOAD_NONE, LOAD_DIO };
enum { OVERRIDE_TEXTS_MOST = 8 };

/* The engine's own parameters; estimate_defaults() gives what the engine itself would do. */
struct estimate_params {
	int64_t context;          /* the engine's -c, over all slots; 0 = the model's trained context */
	int64_t slots;            /* -np; 0 = the engine's own (4, unified) */
	int64_t batch;            /* -b */
	int64_t ubatch;           /* -ub */
	int64_t outputs;          /* logits rows; -1 = the engine's own (one a sequence), 0 = the whole batch */
	enum kv_cache_type kv_k;
	enum kv_cache_type kv_v;
	enum kv_cache_type draft_kv_k; /* of a draft model beside it */
	enum kv_cache_type draft_kv_v;
	int64_t draft_ubatch;     /* 0 = the model's */
	enum flash_attn flash;
	bool unified_kv;
	bool unified_given;
	int64_t gpu_layers;       /* -1 = all, 0 = CPU; the output is the last */
	int64_t host_layers;      /* of those, so many fewer from the front; all of them: the device is left alone */
	bool device_there;        /* the engine has a device, also where gpu_layers is 0 */
	bool no_op_offload;       /* --no-op-offload: what lies on the host is computed there, whatever the batch */
	bool kv_copies;           /* the device computes with CUDA or HIP: there is room for a quantised cache as f16 */
	bool kv_on_host;          /* --no-kv-offload: every cache lies on the host */
	const char *overrides[OVERRIDE_TEXTS_MOST]; /* -ot: tensors kept on the host by name (override.h); borrowed */
	uint32_t override_count;
	bool projector_on_host;   /* --no-mmproj-offload */
	int64_t image_tokens;     /* --image-max-tokens; 0 = as the projector says */
	int64_t cpu_experts;      /* layers whose experts stay on the CPU; -1 = all; 0 = none */
	int64_t experts_resident_bytes; /* all experts are mapped, and so much of them is kept in memory; 0 = not so */
	bool lazy_kv;             /* KV follows use: not part of base */
	enum repack repack;
	bool amx;                 /* the processor has AMX: more matrices get a form of its own */
	enum load_mode load;
	int64_t cache_ram_bytes;  /* --cache-ram, as launched; -1 = without a limit, which cotenant sets itself */
	int64_t checkpoints;      /* --ctx-checkpoints: of recurrent and window layers, for each slot */
	int64_t rollbacks;        /* snapshots of recurrent state a sequence keeps for speculative decoding */
	int64_t build;            /* the engine's, where its rules were others (6900); 0 = of today */
	bool launched;            /* by cotenant: huge pages and a small heap for its allocator, a prompt cache is counted */
	bool swa_full;            /* --swa-full: layers with a window keep every token too */
	const char *image_type;   /* sd-server's --type: what its matrices are turned into; NULL = as the file has them */
	bool image_flash;         /* --diffusion-fa */
	bool image_tiles;         /* --vae-tiling: the decoder works on a part of the picture at a time */
	int64_t decoders;         /* whisper-server's -bs and -bo, the larger; 0 = its own: the best of two */
	int64_t processors;       /* whisper-server's -p: parts of a recording that are heard at once; 0 = one */
	bool embeddings;
	int64_t pooling;          /* --pooling: 0 = none, each token is an output; -1 = as the file says */
};

/*
 * What a turn leaves of a model with recurrent state or windows to go back to: where the question begins,
 * a batch before its end, and at its end. Measured; an engine keeps those of eleven turns unless told not to.
 */
enum { CHECKPOINTS_A_TURN = 3 };

void estimate_defaults(struct estimate_params *params);

/*
 * The flags that cotenant starts an engine with, on top of what is given: slots
 * with a cache each (one, where their number is not given), weights read instead
 * of mapped, no prompt cache on the side, one turn's checkpoints, huge pages for the allocator.
 */
void estimate_as_launched(struct estimate_params *params);

struct footprint {
	int64_t weights_bytes;
	int64_t kv_bytes;
	int64_t recurrent_bytes;
	int64_t compute_bytes;
	int64_t overhead_bytes;
	int64_t total_bytes;
};

/*
 * A checkpoint: what the server sets aside of a conversation to go back to. Recurrent state does not grow; of the
 * layers with a window it has the tokens that there are, at most the window.
 */
struct set_aside {
	int64_t state_bytes, token_bytes, tokens_most;
};

enum estimate_source { ESTIMATE_FORMULA, ESTIMATE_ENGINE, ESTIMATE_MEMO, ESTIMATE_LEARNED, ESTIMATE_DECLARED };

/* What a picture takes while it is made: the larger of a step's buffer and the decoder's. All 0: not known. */
struct picture_cost {
	int64_t constant, by_pixel, per_square; /* a step: constant + pixels x by_pixel + pixels^2 / per_square */
	int64_t decode_by_pixel;
	int64_t decode_pixels_most; /* the decoder has no more before it at once; 0 = all */
};

struct estimate {
	char architecture[64];
	char quantisation[16];
	char name[128];           /* general.name, printable bytes only */
	bool is_encoder;          /* no KV: embeddings, rerank */
	int64_t parameters;
	int64_t trained_context;
	int64_t layers;
	int64_t file_bytes;
	int64_t missing_bytes;    /* of the data behind a whole header; then flags has "incomplete" */
	struct footprint device;
	struct footprint host;
	struct footprint device_beside, host_beside; /* of those, what is loaded beside the model */
	int64_t cache_limit_bytes; /* host prompt cache may grow to this */
	bool cache_limited;       /* ... because cotenant says so: nobody else set a limit */
	struct {
		int64_t total_bytes;    /* 0 = no mixture of experts */
		int64_t resident_bytes; /* of those, kept in memory: all, unless the launch maps them */
		int64_t active_bytes;   /* read for a token */
		int64_t missed_bytes;   /* of those, from the disk, where every expert is as likely as any */
		int64_t mapped_bytes;   /* where the launch maps them: what of the file is in use, experts and the rest */
	} experts;
	int64_t kv_bytes_per_token; /* one conversation, linear part */
	struct set_aside set_aside; /* of a model that cannot go back by itself */
	int64_t set_aside_most;     /* so many of them a slot; counted with the request as full ones */
	int64_t base_bytes;       /* loaded and idle, both pools */
	int64_t per_request_bytes; /* added by one running request at full context */
	int64_t steady_bytes;     /* base + slots x per_request */
	int64_t peak_bytes;
	int64_t upper_bytes;      /* 99 % bound */
	int64_t lower_bytes;      /* it takes at least this */
	int64_t sigma_bytes;
	int64_t largest_part_bytes; /* of an image model: the diffusion model, a text encoder or the decoder; 0 = not one */
	struct picture_cost picture; /* of an image model; per_request_bytes is that of its usual picture */
	double confidence;        /* 0..1 */
	enum estimate_source source;
	int64_t formula_bytes;    /* base as the formulas have it, whatever corrected it since; 0 = nothing did */
	/* Of the host's compute buffer, which is touched only as prompts are read: what goes with the context they fill. */
	int64_t compute_context_bytes;
	int64_t batch_tokens;     /* a text of so many touches the rest of it; 0 = no text does */
	int64_t ubatch;           /* the physical batch chosen so that it fits; 0 = the engine's own */
	int64_t host_layers;      /* kept off the device so that it fits, the output counted as one; 0 = none */
	bool plain_weights;       /* no matrix may be rewritten for the processor */
	char flags[256];          /* comma-separated remarks: "unknown-architecture", ... */
};

/*
 * Where experts are mapped, what its engine may hold of the host's memory, file and all, beyond which the
 * kernel shall take experts back: every conversation full, and the kernel's own tables. 0 = they are not.
 */
int64_t estimate_bound_bytes(const struct estimate *estimate);

/*
 * Footprint of a GGUF file under `params`. 0, or a negative errno with a text
 * that says what is wrong with the file: -ENODATA its header is cut short (the
 * text says how many bytes are missing at least), -EBADMSG not GGUF or
 * malformed, -ENOTSUP a newer or foreign format, -EFBIG over our limits.
 * A whole header is enough for an estimate: what is missing of the data behind
 * it is told in missing_bytes, and no engine will load such a file.
 */
int estimate_gguf(const struct byte_source *source, const struct estimate_params *params,
                  struct estimate *out, struct err *err);

/*
 * The same for a file by path, of any form that is known (forms.h): regular files only (never a FIFO or device),
 * opened without blocking. Of a split model any part may be named; all parts
 * must be there (-ENOENT names the one that is not). -ESTALE: the file changed
 * while it was read.
 */
int estimate_file(const char *path, const struct estimate_params *params, struct estimate *out,
                  struct err *err);

/*
 * An image model: its file first, then those that its engine loads beside it (text
 * encoders, the decoder, ...), each of any form. Errors name the file.
 */
int estimate_image(const char *const *paths, uint32_t count, const struct estimate_params *params,
                   struct estimate *out, struct err *err);

/*
 * What an engine loads beside the model. Its share is added to `out`, which
 * holds the model's own; on an error `out` is as it was.
 */
enum companion {
	COMPANION_PROJECTOR, /* --mmproj: weights, and what the largest picture computes */
	COMPANION_LORA,      /* tensors alone */
	COMPANION_DRAFT,     /* a second model with the same context */
};

int estimate_companion(const char *path, enum companion kind, const struct estimate_params *params,
                       struct estimate *out, struct err *err);

/* Bytes that a picture of so many pixels takes beside the model, at most; 0 where that is not known. */
int64_t estimate_picture(const struct picture_cost *cost, int64_t pixels);

/*
 * What of the sums lies on the device; the host's is the rest. A cache on the device is base (there is
 * none that follows use), and what is kept of a conversation beside it is on the host.
 */
struct device_share {
	int64_t base_bytes, peak_bytes, sigma_bytes, lower_bytes;
};
void estimate_on_device(const struct estimate *estimate, struct device_share *out);

const char *estimate_source_name(enum estimate_source source);

#endif
