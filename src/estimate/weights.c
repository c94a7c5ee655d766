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
	if (wanted == 0)
		return;
	out->output_on_device = true;
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
		if (i < placement->cpu_expert_layers)
			sum -= sums->expert_bytes[i];
	}
	if (!placement->output_on_device)
		return sum;
	sum = bounded_sum(sum, outside);
	if (shares_output(facts) && !facts_trait(facts, FAMILY_ENCODER))
		sum = bounded_sum(sum, sums->token_embd_bytes);
	return sum;
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

void weights_of(const struct model_facts *facts, const struct estimate_params *params,
                const struct placement *placement, struct weights *out)
{
	const struct tensor_sums *sums = &facts->tensors;
	bool repack = params->repack != REPACK_OFF && !placement_any(facts, placement);
	bool mapped = params->load == LOAD_MMAP;
	const struct rewritten *rewritten = &sums->rewritten[params->amx];

	*out = (struct weights){ 0 };
	for (uint32_t i = 0; i < LAYERS_MOST; i++)
		out->expert_bytes = bounded_sum(out->expert_bytes, sums->expert_bytes[i]);
	out->resident_bytes = out->expert_bytes;
	if (params->experts_resident_bytes > 0)
		out->resident_bytes = smaller(out->expert_bytes, params->experts_resident_bytes);
	int64_t left_out = out->expert_bytes - out->resident_bytes;
	if (placement_any(facts, placement)) {
		out->device_bytes = device_weights(facts, placement);
		int64_t kept = sums->all_bytes - out->device_bytes;
		out->host_bytes = larger(kept, sums->token_embd_bytes) - left_out;
		out->mapped_bytes = params->experts_resident_bytes > 0 ? out->host_bytes : 0;
		return;
	}
	out->host_bytes = sums->all_bytes - left_out;
	out->mapped_bytes = params->experts_resident_bytes > 0 ? out->host_bytes : 0;
	if (!repack)
		return;
	if (params->experts_resident_bytes > 0) {
		/* Experts stay as they are in the file; the rest is rewritten, and its pages of the file are not used again. */
		int64_t rewritten_here = rewritten->bytes - rewritten->expert_bytes;
		out->mapped_bytes -= rewritten_here - rewritten->added_bytes;
		out->host_bytes = bounded_sum(out->host_bytes, rewritten->added_bytes);
		mapped = false;
	} else {
		out->host_bytes = bounded_sum(out->host_bytes, mapped ? rewritten->bytes : rewritten->added_bytes);
	}
	if (shares_output(facts) && !facts_trait(facts, FAMILY_ENCODER))
		out->host_bytes = bounded_sum(out->host_bytes, rewritten->embedding_bytes);
	if (params->load != LOAD_MMAP) {
		out->passing_bytes = rewritten->largest_bytes;
		if (!params->launched)
			out->kept_bytes = smaller(rewritten->largest_bytes, KEPT_BLOCK_MOST);
	}
}
