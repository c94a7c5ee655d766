/*
 * What lies beside a model: a projector (clip.cpp), LoRA adapters. Their tensors
 * lie on one pool, the device where there is one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estimate/bounded.h"
#include "estimate/model_facts.h"
#include "estimate/parts.h"

/* The engine encodes no larger picture than 46 x 46 merged tokens of four patches by itself. */
enum { PATCHES_A_TOKEN = 4, PATCHES_MOST = 46 * 46 * PATCHES_A_TOKEN, IMAGE_TOKENS_MOST = 1 << 20, STREAMS = 6 };

/*
 * A picture's patches through one layer: its streams, the widened middle, and
 * without flash attention the scores of each head, patches squared.
 */
static int64_t picture_bytes(const struct model_facts *facts, const struct estimate_params *params)
{
	if (facts->image_size <= 0 || facts->patch_size <= 0)
		return 0;
	int64_t side = (facts->image_size + facts->patch_size - 1) / facts->patch_size;
	int64_t patches = smaller(bounded_product(side, side), PATCHES_MOST);
	/* Where a picture may be larger than the engine warms up with, its buffer grows to that. */
	patches = larger(patches, bounded_product(PATCHES_A_TOKEN, smaller(params->image_tokens, IMAGE_TOKENS_MOST)));
	int64_t width = bounded_sum(bounded_product(STREAMS, larger(facts->vision_embedding, 0)),
	                            larger(facts->vision_feed_forward, 0));
	int64_t scores = params->flash == FLASH_ON
	                         ? 0
	                         : bounded_product(bounded_product(4 * patches, patches),
	                                           larger(facts->vision_heads, 1));
	return bounded_sum(bounded_product(4 * patches, width), scores);
}

/* A file of the other kind would be taken by no engine. */
static int check_kind(const struct model_facts *facts, enum companion kind, struct err *err)
{
	bool right = kind == COMPANION_LORA ? facts_are_adapter(facts) : facts_are_projector(facts);

	if (right)
		return 0;
	return err_set(err, -ENOTSUP, "is none: %s of the architecture '%s'",
	               facts_are_adapter(facts)     ? "it is a LoRA adapter"
	               : facts_are_projector(facts) ? "it is a projector"
	                                            : "it is a model",
	               facts->architecture);
}

int estimate_beside(const struct byte_source *parts, uint32_t count, enum companion kind,
                    const struct estimate_params *params, struct estimate *out, struct err *err)
{
	struct gguf_walk *walk = gguf_walk_new();
	struct model_facts *facts = xmalloc(sizeof *facts);
	int rc = 0;

	facts_init(facts);
	memset(out, 0, sizeof *out);
	for (uint32_t i = 0; rc == 0 && i < count; i++)
		rc = facts_add(facts, walk, &parts[i], err);
	if (rc == 0)
		rc = check_kind(facts, kind, err);
	if (rc == 0) {
		bool on_host = params->gpu_layers == 0 || (kind == COMPANION_PROJECTOR && params->projector_on_host);
		struct footprint *pool = on_host ? &out->host : &out->device;
		pool->weights_bytes = facts->tensors.all_bytes;
		pool->compute_bytes = picture_bytes(facts, params);
		pool->total_bytes = bounded_sum(pool->weights_bytes, pool->compute_bytes);
		out->base_bytes = out->steady_bytes = out->peak_bytes = pool->total_bytes;
		out->lower_bytes = pool->weights_bytes;
		out->sigma_bytes = larger(pool->total_bytes / 20, pool->compute_bytes / 2);
		out->file_bytes = facts->tensors.file_bytes;
		out->missing_bytes = facts->tensors.missing_bytes;
		out->confidence = 1;
	}
	free(facts);
	free(walk);
	return rc;
}

static void join_pool(struct footprint *to, const struct footprint *from, int64_t less_overhead)
{
	to->weights_bytes = bounded_sum(to->weights_bytes, from->weights_bytes);
	to->kv_bytes = bounded_sum(to->kv_bytes, from->kv_bytes);
	to->recurrent_bytes = bounded_sum(to->recurrent_bytes, from->recurrent_bytes);
	to->compute_bytes = bounded_sum(to->compute_bytes, from->compute_bytes);
	to->overhead_bytes = bounded_sum(to->overhead_bytes, from->overhead_bytes - less_overhead);
	to->total_bytes = bounded_sum(to->total_bytes, from->total_bytes - less_overhead);
}

void estimate_join(struct estimate *model, const struct estimate *beside)
{
	/* What only pictures touch no text shows. */
	if (beside->host.compute_bytes > 0 && beside->batch_tokens == 0)
		model->batch_tokens = 0;
	model->compute_context_bytes = bounded_sum(model->compute_context_bytes, beside->compute_context_bytes);
	/* Of a draft model the process and the device's context are the model's; its vocabulary and graphs are not. */
	int64_t on_host = smaller(beside->host.overhead_bytes, SHARED_OVERHEAD_BYTES);
	int64_t shared = beside->device.overhead_bytes + on_host;

	join_pool(&model->device, &beside->device, beside->device.overhead_bytes);
	join_pool(&model->host, &beside->host, on_host);
	join_pool(&model->device_beside, &beside->device, beside->device.overhead_bytes);
	join_pool(&model->host_beside, &beside->host, on_host);
	model->file_bytes = bounded_sum(model->file_bytes, beside->file_bytes);
	model->missing_bytes = bounded_sum(model->missing_bytes, beside->missing_bytes);
	model->kv_bytes_per_token = bounded_sum(model->kv_bytes_per_token, beside->kv_bytes_per_token);
	model->base_bytes = bounded_sum(model->base_bytes, beside->base_bytes - shared);
	model->per_request_bytes = bounded_sum(model->per_request_bytes, beside->per_request_bytes);
	model->steady_bytes = bounded_sum(model->steady_bytes, beside->steady_bytes - shared);
	model->peak_bytes = bounded_sum(model->peak_bytes, beside->peak_bytes - shared);
	model->sigma_bytes = bounded_sum(model->sigma_bytes, beside->sigma_bytes);
	model->upper_bytes = bounded_sum(larger(model->steady_bytes, model->peak_bytes),
	                                 model->sigma_bytes / 3 * 7);
	model->lower_bytes = bounded_sum(model->lower_bytes, larger(beside->lower_bytes - shared, 0));
	model->confidence = model->confidence < beside->confidence ? model->confidence : beside->confidence;
}
