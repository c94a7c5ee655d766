#include "app/elastic.h"

#include "engine/adapter.h"

bool elastic_applies(const struct conf_model *model)
{
	return model->engine == CONF_ENGINE_LLAMA_SERVER && model->kv != CONF_KV_FIXED && !model->context_fixed &&
	       model->footprint_bytes == 0 &&
	       !args_have(&model->args, "-c --ctx-size -np --parallel -kvu --kv-unified");
}

uint32_t elastic_contexts(const struct conf_model *model, int64_t most, int64_t out[ELASTIC_MOST])
{
	int64_t floor = model->context_min > 0 ? model->context_min : ELASTIC_FLOOR;
	int64_t down[ELASTIC_MOST];
	uint32_t count = 0;

	if (most <= floor)
		return 0;
	for (int64_t context = most; count < ELASTIC_MOST - 1 && (context == most || context >= 2 * floor);
	     context /= 2)
		down[count++] = context;
	down[count++] = floor;
	for (uint32_t i = 0; i < count; i++)
		out[i] = down[count - 1 - i];
	return count;
}

void elastic_keep(struct elastic_step *step, int64_t context, const struct estimate *e)
{
	*step = (struct elastic_step){
		.context = context,
		.device = e->device,
		.host = e->host,
		.device_beside = e->device_beside,
		.host_beside = e->host_beside,
		.base_bytes = e->base_bytes,
		.steady_bytes = e->steady_bytes,
		.peak_bytes = e->peak_bytes,
		.upper_bytes = e->upper_bytes,
		.lower_bytes = e->lower_bytes,
		.sigma_bytes = e->sigma_bytes,
		.ubatch = e->ubatch,
		.host_layers = e->host_layers,
		.confidence = e->confidence,
		.compute_context_bytes = e->compute_context_bytes,
		.batch_tokens = e->batch_tokens,
	};
}

void elastic_use(const struct elastic_step *step, struct estimate *e)
{
	e->device = step->device;
	e->host = step->host;
	e->device_beside = step->device_beside;
	e->host_beside = step->host_beside;
	e->base_bytes = step->base_bytes;
	e->steady_bytes = step->steady_bytes;
	e->peak_bytes = step->peak_bytes;
	e->upper_bytes = step->upper_bytes;
	e->lower_bytes = step->lower_bytes;
	e->sigma_bytes = step->sigma_bytes;
	e->ubatch = step->ubatch;
	e->host_layers = step->host_layers;
	e->confidence = step->confidence;
	e->compute_context_bytes = step->compute_context_bytes;
	e->batch_tokens = step->batch_tokens;
}

uint32_t elastic_step_for(const struct elastic *elastic, int64_t tokens)
{
	uint32_t step = 0;

	while (step + 1 < elastic->count && elastic->step[step].context < tokens)
		step++;
	return step;
}

uint32_t elastic_step_to_grow(const struct elastic *elastic, const struct elastic_need *need,
                              enum fits (*fits)(void *ctx, uint32_t step), void *ctx)
{
	uint32_t least = elastic_step_for(elastic, need->tokens), top = elastic->count - 1;

	if (fits(ctx, top) == FITS_NOW)
		return top;
	for (uint32_t step = elastic_step_for(elastic, ELASTIC_AHEAD * need->tokens); step > least; step--) {
		enum fits room = fits(ctx, step);
		if (room == FITS_NOW || room == FITS_TIGHT)
			return step;
	}
	while (least > elastic->now && fits(ctx, least) == FITS_NEVER)
		least--;
	return least > elastic->now && elastic->step[least].context > need->prompt ? least : elastic->now;
}

uint32_t elastic_step_to_load(const struct elastic *elastic, uint32_t least,
                              enum fits (*fits)(void *ctx, uint32_t step), void *ctx)
{
	uint32_t step = least > elastic->now ? least : elastic->now;

	while (step > 0 && fits(ctx, step) == FITS_NEVER)
		step--;
	return step;
}
