#include "estimate/bounded.h"
#include "estimate/formulas.h"

/* llama_model_base::load_tensors(): -ngl counts layers from the end, the output last of all. */
void placement_of(const struct model_facts *facts, const struct estimate_params *params,
                  struct placement *out)
{
	int64_t layers = facts->layers;
	int64_t wanted = params->gpu_layers < 0 ? layers + 1 : smaller(params->gpu_layers, layers + 1);

	wanted = larger(wanted - params->host_layers, 0);
	*out = (struct placement){ .first_device_layer = facts->layers };
	out->has_device = wanted > 0 || (params->device_there && params->host_layers == 0);
	out->stages = out->has_device && !params->no_op_offload && smaller(params->ubatch, params->batch) >= STAGED_BATCH;
	out->output_on_device = wanted > 0;
	if (wanted > 0)
		out->first_device_layer = (uint32_t)(layers + 1 - wanted);
	int64_t experts = params->cpu_experts < 0 ? layers : smaller(params->cpu_experts, layers);
	if (facts->expert_count > 0)
		out->cpu_expert_layers = (uint32_t)experts;
}

/* An output matrix that is the embedding has a second copy where it is multiplied elsewhere. */
static bool shares_output(const struct model_facts *facts)
{
	return facts->tensors.output_bytes == 0 || facts_trait(facts, FAMILY_TIED);
}

/* What lies there instead of on the host. */
static int64_t device_weights(const struct model_facts *facts, const struct placement *placement)
{
	const struct tensor_sums *sums = &facts->tensors;
	int64_t outside = sums->all_bytes - sums->token_embd_bytes;
	int64_t sum = 0;

	for (uint32_t i = 0; i < LAYERS_MOST; i++) {
		outside -= sums->layer_bytes[i];
		if (i < placement->first_device_layer)
			continue;
		sum = bounded_sum(sum, sums->layer_bytes[i]);
		int64_t experts = i < placement->cpu_expert_layers ? sums->expert_bytes[i] : 0;
		sum -= larger(experts, sums->kept_bytes[i]);
	}
	outside -= sums->kept_outside_bytes;
	return placement->output_on_device ? bounded_sum(sum, outside) : sum;
}

/* The second copy, for the output; the embedding itself is looked up on the host. */
static int64_t copy_on_device(const struct model_facts *facts, const struct placement *placement)
{
	bool copied = placement->output_on_device && shares_output(facts) && !facts_trait(facts, FAMILY_ENCODER);

	return copied ? facts->tensors.token_embd_bytes : 0;
}

/*
 * Where the engine must not rewrite a matrix (--no-repack).
 *
 * Mapped experts: --cpu-moe names the CPU, and what lies there is rewritten all the same, into plain memory, every
 * expert of it (llama_model_loader asks the same list of buffer types). And with AMX the products of a stack of
 * matrices (latent attention: attn_k_b, attn_v_b) find no backend, which ends the engine with a failed assertion.
 */
static bool stays_plain(const struct model_facts *facts, const struct estimate_params *params,
                        const struct placement *placement)
{
	if (params->repack != REPACK_AUTO)
		return params->repack == REPACK_OFF;
	if (params->experts_resident_bytes > 0 && params->load == LOAD_MMAP)
		return true;
	return params->amx && facts->tensors.stacked_tiles && !placement->has_device;
}

/*
 * On the host. Mapped, the file counts whole and the matrices that the CPU
 * backend rewrites (ggml-cpu/repack.cpp) count again; read into buffers, each
 * lies there once. A tied embedding of such a type is needed in both forms.
 *
 * Reading passes each rewritten matrix through a block as large as it; the C
 * library keeps blocks of up to 32 MiB (M_MMAP_THRESHOLD's upper end) when
 * they are freed, unless it is told not to.
 */
enum { KEPT_BLOCK_MOST = 32 * 1024 * 1024 };

static void add_rewritten(const struct model_facts *facts, const struct estimate_params *params, struct weights *out)
{
	const struct rewritten *rewritten = &facts->tensors.rewritten[params->amx];
	bool mapped = params->load == LOAD_MMAP;

	out->host_bytes = bounded_sum(out->host_bytes, mapped ? rewritten->bytes : rewritten->added_bytes);
	if (shares_output(facts) && !facts_trait(facts, FAMILY_ENCODER))
		out->host_bytes = bounded_sum(out->host_bytes, rewritten->embedding_bytes);
	if (mapped)
		return;
	out->passing_bytes = rewritten->largest_bytes;
	if (!params->launched)
		out->kept_bytes = smaller(rewritten->largest_bytes, KEPT_BLOCK_MOST);
}

void weights_of(const struct model_facts *facts, const struct estimate_params *params,
                const struct placement *placement, struct weights *out)
{
	const struct tensor_sums *sums = &facts->tensors;
	bool on_device = placement_any(facts, placement);

	*out = (struct weights){ .plain = stays_plain(facts, params, placement) };
	/* Experts that are read or rewritten are nobody's pages of a file: all of them are kept. */
	bool part = params->experts_resident_bytes > 0 && out->plain && params->load == LOAD_MMAP;
	for (uint32_t i = 0; i < LAYERS_MOST; i++)
		out->expert_bytes = bounded_sum(out->expert_bytes, sums->expert_bytes[i]);
	out->resident_bytes = part ? smaller(out->expert_bytes, params->experts_resident_bytes) : out->expert_bytes;
	int64_t left_out = out->expert_bytes - out->resident_bytes;
	out->host_bytes = sums->all_bytes;
	if (on_device) {
		int64_t moved = device_weights(facts, placement);
		out->device_bytes = bounded_sum(moved, copy_on_device(facts, placement));
		out->host_bytes = sums->all_bytes - moved;
	}
	out->host_bytes -= left_out;
	out->mapped_bytes = part ? out->host_bytes : 0;
	/* With a device there the host's buffers are those that it reads from, and nothing is rewritten. */
	if (!out->plain && !placement->has_device)
		add_rewritten(facts, params, out);
}
