/*
 * The engine builds its largest graphs (a full batch against a full cache) and
 * ggml_gallocr places the tensors of it; the buffer is the high-water mark. So
 * it is the largest set of tensors alive at once and does not grow with the
 * layers. Each phase below is one such set, in the order a layer computes;
 * graph_reserve() in llama-context.cpp and the build_*() functions of
 * llama-graph.cpp are where they come from.
 */
#include "estimate/bounded.h"
#include "estimate/formulas.h"

struct sizes {
	int64_t stream;   /* one activation vector a token, f32 */
	int64_t inputs;   /* masks and the indices of cells, where the graph runs */
	int64_t late;     /* ... of them, what is left when a layer comes to its feed-forward */
	int64_t given;    /* ... as they are handed to the graph */
	int64_t indices;
	int64_t heads;    /* queries of a batch */
	int64_t scores;   /* attention scores without flash attention */
};

static int64_t times(int64_t a, int64_t b, int64_t c)
{
	return bounded_product(bounded_product(a, b), c);
}

static int64_t value_width(const struct model_facts *facts)
{
	int64_t most = 0;
	for (uint32_t i = 0; i < facts->cached_layers; i++)
		if (facts->attends[i])
			most = larger(most, facts->kv_heads.value[i] * facts->value_length);
	return most;
}

static bool caches(const struct model_facts *facts)
{
	for (uint32_t i = 0; i < facts->cached_layers; i++)
		if (facts->attends[i])
			return true;
	return false;
}

static struct sizes sizes_of(const struct model_facts *facts, const struct cells *cells)
{
	int64_t tokens = cells->tokens;
	bool cached = caches(facts);
	bool encoder = facts_trait(facts, FAMILY_NO_CACHE);
	int64_t seen = encoder ? tokens : cached ? cells->full : 0;
	int64_t mask = times(bounded_sum(seen, cached ? cells->window : 0), tokens,
	                     cells->flash && cells->half_mask ? 2 : 4);
	/* A mask that came as f32 is there as f16 too, and is freed when that is made. */
	bool cast = cells->flash && !cells->half_mask;
	int64_t index = 0;

	if (cached) {
		/* With V transposed each element of it is placed by an index of its own. */
		index = 8 * tokens;
		index += cells->flash ? 8 * tokens : times(8, tokens, value_width(facts));
		if (cells->window > 0)
			index = bounded_product(index, 2);
	}
	return (struct sizes){
		.stream = bounded_product(times(4, tokens, facts->embedding_length), larger(facts->hyper_connections, 1)),
		.inputs = bounded_sum(cast ? bounded_sum(mask, mask / 2) : mask, index),
		.late = bounded_sum(cast ? mask / 2 : mask, index),
		.given = bounded_sum(mask, index),
		.indices = index,
		.heads = bounded_product(times(4, tokens, facts->heads_most), facts->key_length),
		.scores = cells->flash ? 0 : bounded_product(times(4, seen, tokens), facts->heads_most),
	};
}

/* Of the widest layer that sees everything: ggml_cuda_flash_attn_ext() of builds with ERA_KV_COPIES reserves it. */
static int64_t cache_copies(const struct model_facts *facts, const struct cells *cells)
{
	int64_t heads = 0;

	for (uint32_t i = 0; i < facts->cached_layers; i++)
		if (facts->attends[i])
			heads = larger(heads, facts->kv_heads.value[i]);
	int64_t length = bounded_sum(cells->copies_k ? facts->key_length : 0, cells->copies_v ? facts->value_length : 0);
	return bounded_product(times(2, cells->full, cells->streams), bounded_product(heads, length));
}

static int64_t phase_attention(const struct model_facts *facts, const struct cells *cells,
                               const struct sizes *s)
{
	bool compressed = facts->key_length_mla > 0 && facts->value_length_mla > 0;
	int64_t sum = bounded_sum(bounded_sum(s->inputs, s->scores), cache_copies(facts, cells));

	if (facts->heads_most == 0)
		return 0;
	if (facts_trait(facts, FAMILY_MLA) && compressed) {
		int64_t latent = larger(facts->kv_lora_rank, 0);
		int64_t width = facts->key_length_mla + 2 * latent + larger(facts->rope_dimensions, 0);
		sum = bounded_sum(sum, times(4, cells->tokens, bounded_product(facts->heads_most, width)));
		return bounded_sum(sum, 4 * s->stream);
	}
	int64_t queries = facts_trait(facts, FAMILY_GATED_ATTENTION) ? 3 : 2;
	sum = bounded_sum(sum, bounded_product(queries, s->heads));
	return bounded_sum(sum, 2 * s->stream);
}

static int64_t phase_feed_forward(const struct model_facts *facts, const struct cells *cells,
                                  const struct sizes *s)
{
	if (facts->ff_most == 0)
		return 0;
	bool gated = !facts_trait(facts, FAMILY_NO_GATE);
	int64_t wide = times(4, cells->tokens, facts->ff_most);
	/* An encoder normalises after its layer, so what went in is still there. */
	int64_t streams = facts_trait(facts, FAMILY_ENCODER) && !gated ? 4 : 3;
	int64_t sum = bounded_sum(s->late, bounded_product(gated ? 3 : 1, wide));
	return bounded_sum(sum, streams * s->stream);
}

static int64_t phase_experts(const struct model_facts *facts, const struct cells *cells,
                             const struct sizes *s)
{
	if (facts->expert_count <= 0)
		return 0;
	int64_t used = larger(facts->expert_used, 1);
	int64_t wide = bounded_product(times(4, cells->tokens, used), facts->expert_ff);
	int64_t results = bounded_product(used, s->stream);
	int64_t rest = results > bounded_product(2, wide) ? bounded_sum(results, 4 * s->stream)
	                                                  : 3 * s->stream;
	int64_t routed = bounded_sum(bounded_sum(s->late, bounded_product(3, wide)), rest);
	if (facts->expert_shared_ff <= 0)
		return routed;
	int64_t shared = times(12, cells->tokens, facts->expert_shared_ff);
	return larger(routed, bounded_sum(bounded_sum(s->late, shared), 4 * s->stream));
}

static int64_t phase_state(const struct model_facts *facts, const struct cells *cells)
{
	if (!facts_trait(facts, FAMILY_STATE_SSM))
		return 0;
	return times(24, cells->tokens, larger(facts->inner_size, 0));
}

/*
 * On the CPU the whole of a layer with a state is one graph, the masks of the other layers alive beside it. Measured:
 * Mamba-2's (build_mamba2_layer) to 0.1 %; a gated delta net's, which works in chunks of 64, 0 to 14 % less than this.
 * Without the two streams that every phase has.
 */
static int64_t phase_state_on_host(const struct model_facts *facts, const struct cells *cells, const struct sizes *s)
{
	enum { CHUNK = 64, CHUNK_STATES = 5 };
	int64_t inner = larger(facts->inner_size, 0), state = larger(facts->state_size, 1);
	int64_t groups = bounded_product(larger(facts->group_count, 0), state);
	int64_t taps = bounded_product(larger(facts->conv_kernel - 1, 0), bounded_sum(inner, 2 * groups));
	int64_t states = bounded_product(4 * smaller(cells->sequences, cells->tokens),
	                                 bounded_sum(bounded_product(state, inner), taps));
	bool known = facts->family_known;

	if (!facts_trait(facts, FAMILY_STATE_SSM))
		return 0;
	if (groups == 0)
		return bounded_sum(bounded_sum(phase_state(facts, cells), s->stream), s->inputs);
	int64_t scanned = bounded_sum(bounded_product(8, inner), bounded_product(6, groups));
	scanned = times(4, cells->tokens, bounded_sum(scanned, larger(facts->time_steps, 0)));
	scanned = bounded_sum(scanned, states) - s->stream;
	int64_t chunked = bounded_sum(bounded_product(4, inner), bounded_product(3, groups));
	chunked = times(4, cells->tokens, bounded_sum(chunked, bounded_product(CHUNK, inner / state)));
	chunked = bounded_sum(chunked, bounded_product(CHUNK_STATES, states));
	int64_t most = known && facts_trait(facts, FAMILY_INTERVAL) ? chunked
	               : known                                      ? scanned
	                                                            : larger(scanned, chunked);
	return bounded_sum(most, s->inputs);
}

/*
 * Lightning attention of MiniMax-01: what a token sees of each other one of its batch fades with the distance, by head.
 * The table of that as it is given, as it is taken, and the scores are alive at once. Measured, to 0.1 %.
 */
static int64_t phase_linear(const struct model_facts *facts, const struct cells *cells, const struct sizes *s)
{
	if (!facts_trait(facts, FAMILY_STATE_LINEAR))
		return 0;
	int64_t table = bounded_product(times(4, cells->tokens, cells->tokens), facts->heads_most);
	int64_t sum = bounded_sum(bounded_product(3, table), bounded_product(6, s->heads));
	return bounded_sum(bounded_sum(s->inputs, sum), s->stream);
}

static int64_t phase_output(const struct model_facts *facts, const struct cells *cells)
{
	if (facts_trait(facts, FAMILY_ENCODER))
		return 0;
	return times(4, cells->outputs, bounded_sum(facts->vocab, facts->embedding_length));
}

/* All phases of the layers: without the output. */
static int64_t phases(const struct model_facts *facts, const struct cells *cells,
                      const struct sizes *s)
{
	int64_t most = phase_attention(facts, cells, s);
	most = larger(most, phase_feed_forward(facts, cells, s));
	most = larger(most, phase_experts(facts, cells, s));
	most = larger(most, phase_linear(facts, cells, s));
	return larger(most, phase_state(facts, cells));
}

/*
 * A matrix that lies in host memory is copied into the device's buffer for
 * batches of 32 and more (op_offload), also where no layer lies on the device. Up to three copies of
 * experts are alive at once, by accident of the placing; the bound is what is safe.
 */
static int64_t staged_weights(const struct model_facts *facts, const struct cells *cells,
                              const struct placement *placement)
{
	const struct tensor_sums *sums = &facts->tensors;
	int64_t most = sums->largest_kept_bytes;

	if (!placement->stages)
		return 0;
	bool experts = placement->cpu_expert_layers > 0 || placement->first_device_layer > 0 || sums->keeps_experts;
	if (facts->expert_count > 0 && experts)
		most = bounded_product(3, sums->largest_expert_bytes);
	if (placement->first_device_layer > 0)
		most = larger(most, sums->largest_bytes);
	if (!placement->output_on_device && cells->outputs >= STAGED_BATCH)
		most = larger(most, larger(sums->output_bytes, sums->token_embd_bytes));
	return most;
}

static bool lies_on_host(const struct estimate_params *params, const struct placement *placement, uint32_t layer)
{
	return params->kv_on_host || layer < placement->first_device_layer;
}

/*
 * The cache of a layer that lies on the host is copied as its matrices are. Measured with llama.cpp's Vulkan backend,
 * at contexts of 4,096 and 8,192, one slot: K three times over, and of more slots, of quantised caches and without
 * flash attention between two and three times.
 */
static int64_t staged_cache(const struct model_facts *facts, const struct cells *cells,
                            const struct estimate_params *params, const struct placement *placement)
{
	int64_t most = 0;

	for (uint32_t i = 0; placement->stages && i < facts->layers; i++)
		if (lies_on_host(params, placement, i))
			most = larger(most, kv_layer_half_bytes(facts, cells, params, i));
	return bounded_product(3, most);
}

int64_t compute_device_bytes(const struct model_facts *facts, const struct cells *cells,
                             const struct estimate_params *params, const struct placement *placement)
{
	if (!facts->sizes_known || !placement_computes(facts, placement))
		return 0;
	struct sizes s = sizes_of(facts, cells);
	int64_t attention = bounded_sum(phase_attention(facts, cells, &s), staged_cache(facts, cells, params, placement));
	int64_t most = bounded_sum(larger(phases(facts, cells, &s), attention), staged_weights(facts, cells, placement));
	bool logits = placement->output_on_device || (placement->stages && cells->outputs >= STAGED_BATCH);
	return logits ? larger(most, phase_output(facts, cells)) : most;
}

int64_t compute_host_bytes(const struct model_facts *facts, const struct cells *cells,
                           const struct estimate_params *params, const struct placement *placement)
{
	if (!facts->sizes_known)
		return 0;
	struct sizes s = sizes_of(facts, cells);
	/* The embedding may be given or looked up, so it is there twice. */
	int64_t streams = (cells->two_inputs ? 2 : 1) * s.stream;
	if (placement_computes(facts, placement)) {
		/* The inputs of a batch. */
		int64_t numbers = 8 * cells->tokens + 4 * cells->outputs;
		int64_t rows = times(4, cells->tokens, kv_row_width(facts, cells));
		/* What goes into a cache on the host comes from the device. */
		bool writes = placement->stages && lies_on_host(params, placement, 0);
		int64_t most = writes ? larger(streams, bounded_sum(rows, s.stream)) : streams;
		if (writes) /* a state on the host is changed there */
			most = larger(most, phase_state(facts, cells));
		return bounded_sum(bounded_sum(s.given, numbers), most);
	}
	int64_t most = larger(phases(facts, cells, &s), phase_output(facts, cells));
	most = larger(most, phase_state_on_host(facts, cells, &s));
	/* What the logits and embeddings come of is alive with them: six streams, by accident of the placing five. */
	if (cells->tells_all)
		most = larger(most, bounded_sum(bounded_sum(phase_output(facts, cells), s.inputs), 3 * s.stream));
	return bounded_sum(most, streams);
}

int64_t compute_context_bytes(const struct model_facts *facts, const struct cells *cells)
{
	struct sizes s = sizes_of(facts, cells);

	return facts->sizes_known ? bounded_sum(s.given - s.indices, s.scores) : 0;
}

/* ggml_graph_plan()'s work_size: the widest input of a batch, 34 bytes for 32 numbers. */
int64_t compute_work_bytes(const struct model_facts *facts, const struct cells *cells)
{
	int64_t widest = larger(larger(facts->ff_most, facts->embedding_length), facts->inner_size);

	if (facts->expert_count > 0)
		widest = larger(widest, bounded_product(larger(facts->expert_used, 1), larger(facts->expert_ff, 0)));
	return facts->sizes_known ? times(cells->tokens, widest, 34) / 32 : 0;
}
