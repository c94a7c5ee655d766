#include "estimate/bounded.h"
#include "estimate/era.h"
#include "estimate/formulas.h"

enum {
	CELL_STEP = 256,      /* GGML_PAD(n_ctx, 256) in llama_context's constructor and the caches */
	CELL_STEP_BEFORE = 32, /* without flash attention, of older builds */
	SLOTS_OWN = 4,        /* llama-server without -np: four slots on one cache */
	RATIO_FINE = 4,       /* FAMILY_COMPRESSED: one cell for so many tokens, which an indexer looks through */
	RATIO_COARSE = 128,
};

static bool has_window(const struct model_facts *facts)
{
	for (uint32_t i = 0; i < facts->cached_layers; i++)
		if (facts->windowed[i] && facts->attends[i])
			return true;
	return false;
}

/* llama_context: what nobody gave, the file gives; a decoder's without the key does not pool. */
static bool unpooled(const struct model_facts *facts, const struct estimate_params *params)
{
	int64_t pooling = params->pooling >= 0 ? params->pooling : facts->pooling;

	return !facts_trait(facts, FAMILY_ENCODER) && pooling <= 0;
}

void cells_of(const struct model_facts *facts, const struct estimate_params *params,
              struct cells *out)
{
	bool unified = params->unified_given ? params->unified_kv : params->slots <= 0;

	out->sequences = params->slots > 0 ? params->slots : build_has(params->build, ERA_FOUR_SLOTS) ? SLOTS_OWN : 1;
	out->context = params->context > 0 ? params->context : larger(facts->context_length, CELL_STEP);
	int64_t ubatch = smaller(smaller(params->ubatch, params->batch), out->context);
	ubatch = larger(ubatch, 1);
	out->flash = params->flash != FLASH_OFF;
	bool old = !build_has(params->build, ERA_ONE_STEP) && !out->flash;
	int64_t step = old ? CELL_STEP_BEFORE : CELL_STEP;
	int64_t rounded = bounded_round(out->context, step);
	out->streams = unified ? 1 : out->sequences;
	out->full = unified ? rounded : bounded_round(rounded / out->sequences, step);
	out->window = 0;
	/* llama_kv_cache_dsv4: a stream for each sequence, also where the context is shared. */
	bool apart = facts_trait(facts, FAMILY_COMPRESSED);
	if (apart)
		out->streams = out->sequences;
	if (has_window(facts)) {
		int64_t seen = bounded_product(facts->window, unified && !apart ? out->sequences : 1);
		int64_t wanted = bounded_round(bounded_sum(seen, ubatch), step);
		bool whole = params->swa_full || !build_has(params->build, ERA_WINDOW_CACHE);
		out->window = whole ? out->full : smaller(wanted, out->full);
	}
	out->tokens = bounded_round(ubatch, out->sequences);
	/* n_outputs_max: the server reserves a row for each sequence; 0 = all tokens of a batch. */
	int64_t own = build_has(params->build, ERA_FEW_OUTPUTS) ? out->sequences : 0;
	int64_t outputs = params->outputs < 0 ? own : params->outputs;
	out->tells_all = params->embeddings && unpooled(facts, params);
	if (out->tells_all)
		outputs = 0;
	out->outputs = outputs == 0 ? out->tokens : smaller(outputs, out->tokens);
	/* No text is longer than a physical batch there; one of each sequence may be in a logical one. */
	out->rows = out->tells_all ? smaller(larger(params->batch, ubatch), bounded_product(out->sequences, ubatch))
	                           : out->sequences;
	out->latent_alone = build_has(params->build, ERA_LATENT_ALONE);
	bool copies = params->kv_copies && out->flash && build_has(params->build, ERA_KV_COPIES);
	out->copies_k = copies && params->kv_k > KV_BF16;
	out->copies_v = copies && params->kv_v > KV_BF16;
	out->half_mask = build_has(params->build, ERA_HALF_MASK);
	out->two_inputs = build_has(params->build, ERA_TWO_INPUTS);
	out->states = bounded_product(out->sequences, 1 + larger(params->rollbacks, 0));
}

static const struct type_info *kv_type(enum kv_cache_type type)
{
	static const uint32_t ids[KV_TYPE_COUNT] = {
		[KV_F32] = 0, [KV_F16] = 1, [KV_BF16] = 30, [KV_Q8_0] = 8, [KV_Q5_1] = 7,
		[KV_Q5_0] = 6, [KV_Q4_1] = 3, [KV_Q4_0] = 2, [KV_IQ4_NL] = 20,
	};
	return type_find(ids[type]);
}

/*
 * Widths of a token's K and V in one layer: n_embd_k_gqa() and n_embd_v_gqa()
 * of llama-hparams.cpp. With the keys of MLA the cache holds the compressed
 * latent once, as K, and no V (before ERA_LATENT_ALONE the latent again); without
 * them the heads are stored whole.
 */
static void widths(const struct model_facts *facts, const struct cells *cells, uint32_t layer, int64_t *key,
                   int64_t *value)
{
	bool latent = facts->key_length_mla > 0 && facts->value_length_mla > 0;
	int64_t heads = facts->kv_heads.value[layer];
	int64_t length = facts->windowed[layer] ? facts->key_length_swa : facts->key_length;
	if (facts_trait(facts, FAMILY_MLA) && latent) {
		*key = length;
		*value = cells->latent_alone ? 0 : larger(facts->kv_lora_rank, 0);
		return;
	}
	*key = heads * length;
	*value = heads * (facts->windowed[layer] ? facts->value_length_swa : facts->value_length);
	if (facts_trait(facts, FAMILY_COMPRESSED))
		*value = 0;
	if (facts->family_known)
		return;
	/* What we do not know takes the wider of what keys and shapes say. */
	*key = larger(*key, facts->tensors.key_widths[layer]);
	*value = larger(*value, facts->tensors.value_widths[layer]);
	if (*key == 0)
		*key = facts->tensors.key_width > 0 ? facts->tensors.key_width : facts->embedding_length;
	if (*value == 0)
		*value = *key;
}

/* Without flash attention V lies transposed, and rows of unequal layers get the widest's length. */
static int64_t widest_value(const struct model_facts *facts, const struct cells *cells)
{
	int64_t most = 0;
	for (uint32_t i = 0; i < facts->cached_layers; i++) {
		int64_t key, value;
		if (!facts->attends[i])
			continue;
		widths(facts, cells, i, &key, &value);
		most = larger(most, value);
	}
	return most;
}

static bool has_cache(const struct model_facts *facts, uint32_t layer)
{
	return layer < facts->cached_layers && facts->attends[layer];
}

/* hparams.is_indexer_full(): all of those that see everything, but for the leading ones of some and where the file tells. */
static bool indexes(const struct model_facts *facts, uint32_t layer)
{
	if (facts->indexer_length <= 0 || facts->windowed[layer])
		return false;
	if (facts->indexer_full.array && layer < facts->indexer_full.count)
		return facts->indexer_full.value[layer] != 0;
	return !facts_trait(facts, FAMILY_INDEX_LATE) || (int64_t)layer >= facts->leading_dense;
}

static int64_t cell_bytes(const struct model_facts *facts, const struct cells *cells,
                          const struct estimate_params *params, uint32_t layer)
{
	int64_t key, value;
	widths(facts, cells, layer, &key, &value);
	if (!cells->flash && value > 0)
		value = widest_value(facts, cells);
	int64_t sum = bounded_sum(type_row_bytes(kv_type(params->kv_k), key),
	                          type_row_bytes(kv_type(params->kv_v), value));
	/* The indexer's cache of sparse attention: one head, keys alone, beside the layer's own. */
	return indexes(facts, layer) ? bounded_sum(sum, type_row_bytes(kv_type(params->kv_k), facts->indexer_length)) : sum;
}

/* Of so many tokens one is kept beside the window; 0 = none is. */
static int64_t ratio_of(const struct model_facts *facts, uint32_t layer)
{
	bool told = facts_trait(facts, FAMILY_COMPRESSED) && layer < facts->compress_ratios.count;

	return told ? facts->compress_ratios.value[layer] : 0;
}

/* kv_csa and kv_hca of llama_kv_cache_dsv4: a key; where it is every fourth, the indexer's beside it. */
static int64_t compressed_cell_bytes(const struct model_facts *facts, const struct estimate_params *params,
                                     uint32_t layer)
{
	int64_t key = type_row_bytes(kv_type(params->kv_k), facts->kv_heads.value[layer] * facts->key_length);
	bool fine = ratio_of(facts, layer) == RATIO_FINE;

	return fine ? bounded_sum(key, type_row_bytes(kv_type(params->kv_k), larger(facts->indexer_length, 0))) : key;
}

/* llama_dsv4_comp_state: what waits to be made one key of, and its scores; of the fine ones twice as wide and long. */
static int64_t compressor_elements(const struct model_facts *facts, uint32_t layer)
{
	int64_t ratio = ratio_of(facts, layer);
	int64_t width = ratio == RATIO_FINE ? bounded_sum(facts->key_length, larger(facts->indexer_length, 0))
	                                    : facts->key_length;

	return bounded_product(2 * ratio, ratio == RATIO_FINE ? 4 * width : width);
}

int64_t kv_layer_bytes(const struct model_facts *facts, const struct cells *cells,
                       const struct estimate_params *params, uint32_t layer)
{
	if (!facts->sizes_known || !has_cache(facts, layer))
		return 0;
	int64_t count = facts->windowed[layer] ? cells->window : cells->full;
	int64_t bytes = bounded_product(count, cell_bytes(facts, cells, params, layer));
	int64_t ratio = ratio_of(facts, layer);
	if (ratio > 0) {
		int64_t cells_kept = bounded_round((bounded_sum(cells->full, ratio - 1)) / ratio, CELL_STEP);
		bytes = bounded_sum(bytes, bounded_product(cells_kept, compressed_cell_bytes(facts, params, layer)));
	}
	return bounded_product(bytes, cells->streams);
}

int64_t kv_layer_half_bytes(const struct model_facts *facts, const struct cells *cells,
                            const struct estimate_params *params, uint32_t layer)
{
	int64_t key, value;

	if (!facts->sizes_known || !has_cache(facts, layer))
		return 0;
	widths(facts, cells, layer, &key, &value);
	int64_t count = bounded_product(facts->windowed[layer] ? cells->window : cells->full, cells->streams);
	return bounded_product(count, larger(type_row_bytes(kv_type(params->kv_k), key),
	                                     type_row_bytes(kv_type(params->kv_v), value)));
}

int64_t kv_row_width(const struct model_facts *facts, const struct cells *cells)
{
	int64_t most = 0;

	for (uint32_t i = 0; facts->sizes_known && i < facts->layers; i++) {
		int64_t key, value;
		if (!has_cache(facts, i))
			continue;
		widths(facts, cells, i, &key, &value);
		most = larger(most, bounded_sum(key, value));
	}
	return most;
}

int64_t kv_token_bytes(const struct model_facts *facts, const struct cells *cells,
                       const struct estimate_params *params)
{
	int64_t sum = 0;
	for (uint32_t i = 0; facts->sizes_known && i < facts->layers; i++) {
		if (has_cache(facts, i) && !facts->windowed[i])
			sum = bounded_sum(sum, cell_bytes(facts, cells, params, i));
		else if (has_cache(facts, i) && ratio_of(facts, i) > 0)
			sum = bounded_sum(sum, compressed_cell_bytes(facts, params, i) / ratio_of(facts, i));
	}
	return sum;
}

/* n_embd_r() + n_embd_s() of llama-hparams.cpp, in elements of one sequence. */
static int64_t state_elements(const struct model_facts *facts)
{
	int64_t inner = larger(facts->inner_size, 0);
	int64_t state = larger(facts->state_size, 0);
	int64_t taps = larger(facts->conv_kernel - 1, 0);

	if (facts_trait(facts, FAMILY_STATE_SSM)) {
		int64_t groups = bounded_product(2 * larger(facts->group_count, 0), state);
		return bounded_sum(bounded_product(taps, bounded_sum(inner, groups)),
		                   bounded_product(state, inner));
	}
	if (facts_trait(facts, FAMILY_STATE_RWKV)) {
		int64_t shifts = facts->token_shift > 0 ? facts->token_shift : 2;
		return bounded_product(facts->embedding_length,
		                       shifts + larger(facts->wkv_head_size, 0));
	}
	if (facts_trait(facts, FAMILY_STATE_CONV))
		return bounded_product(facts->embedding_length, larger(facts->short_conv - 1, 0));
	if (facts_trait(facts, FAMILY_STATE_KDA)) {
		int64_t head = larger(facts->kda_head_dim, 0);
		int64_t wide = bounded_product(facts->heads_most, head);
		return bounded_product(wide, 3 * taps + head);
	}
	if (facts_trait(facts, FAMILY_STATE_LINEAR))
		return bounded_product(bounded_product(facts->key_length, facts->key_length),
		                       facts->heads_most);
	return 0;
}

int64_t recurrent_layer_bytes(const struct model_facts *facts, const struct cells *cells,
                              uint32_t layer)
{
	if (!facts->sizes_known || layer >= facts->cached_layers)
		return 0;
	int64_t compressor = ratio_of(facts, layer) > 0 ? compressor_elements(facts, layer) : 0;
	int64_t state = facts->recurrent[layer] ? state_elements(facts) : compressor;
	return bounded_product(4 * cells->states, state);
}

/* server_context's checkpoints: what llama_state_seq_get_data() gives of the layers that forget. */
void set_aside_of(const struct model_facts *facts, const struct cells *cells, const struct estimate_params *params,
                  struct set_aside *out)
{
	bool untold = facts->window_untold > 0;
	int64_t seen = smaller(larger(untold ? facts->window_untold : facts->window, 0), cells->full);

	*out = (struct set_aside){ .tokens_most = facts->sizes_known && !params->swa_full ? seen : 0 };
	for (uint32_t i = 0; facts->sizes_known && i < facts->cached_layers; i++) {
		out->state_bytes = bounded_sum(out->state_bytes,
		                               recurrent_layer_bytes(facts, cells, i) / cells->states);
		if ((facts->windowed[i] || untold) && has_cache(facts, i) && out->tokens_most > 0)
			out->token_bytes = bounded_sum(out->token_bytes, cell_bytes(facts, cells, params, i));
	}
	if (out->token_bytes == 0)
		out->tokens_most = 0;
}

int64_t set_aside_bytes(const struct set_aside *aside)
{
	return bounded_sum(aside->state_bytes, bounded_product(aside->tokens_most, aside->token_bytes));
}
