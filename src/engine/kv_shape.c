#include "engine/kv_shape.h"

#include "engine/estimate_params.h"

enum { PAGE_BYTES = 4096, PAGE_VALUES = PAGE_BYTES / 2 };

void kv_shape_of(const struct conf_model *model, const struct estimate *estimate, int64_t context,
                 struct kv_shape *out)
{
	struct estimate_params params;

	const struct launch_choice choice = { .context = context, .slots = model->slots, .lazy = true };

	engine_estimate_params(model, &choice, &params);
	int64_t cache = (estimate->host.kv_bytes + estimate->device.kv_bytes) / (model->slots > 0 ? model->slots : 1);
	*out = (struct kv_shape){
		.token_bytes = estimate->kv_bytes_per_token,
		.full_bytes = estimate->per_request_bytes,
		.beside_bytes = estimate->per_request_bytes > cache ? estimate->per_request_bytes - cache : 0,
		.step_tokens = params.flash == FLASH_OFF ? PAGE_VALUES : 1,
	};
	int64_t linear = context * estimate->kv_bytes_per_token;
	int64_t window = out->full_bytes > linear ? out->full_bytes - linear : 0;
	out->first_bytes = window + 2 * estimate->layers * PAGE_BYTES;
}

int64_t kv_shape_bytes(const struct kv_shape *shape, int64_t tokens)
{
	if (tokens <= 0)
		return 0;
	int64_t most = shape->token_bytes > 0 ? shape->full_bytes / shape->token_bytes + shape->step_tokens : 0;
	if (tokens > most)
		return shape->full_bytes;
	int64_t steps = (tokens + shape->step_tokens - 1) / shape->step_tokens;
	int64_t bytes = shape->first_bytes + steps * shape->step_tokens * shape->token_bytes;
	return bytes < shape->full_bytes ? bytes : shape->full_bytes;
}
