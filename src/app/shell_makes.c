/* What a model can make, and what a picture of it takes, told before anything is loaded for a request. */
#include "app/shell.h"

#include <string.h>

#include "engine/routes.h"

static bool is_started_for_vectors(const struct conf_model *model)
{
	static const char *const flags[] = { "--embedding", "--embeddings", "--rerank", "--reranking" };

	for (size_t i = 0; i < model->args.count; i++)
		for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
			if (strcmp(model->args.items[i], flags[k]) == 0)
				return true;
	return false;
}

/* Of a file that was read: an encoder makes no text, others make vectors only where they are told to. */
uint32_t shell_lacks(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;
	const struct estimate *estimate = &shell->catalogue.rows[model].estimate;
	const struct conf_model *conf = &shell->conf->models[model];

	if (conf->engine != CONF_ENGINE_LLAMA_SERVER || estimate->base_bytes == 0)
		return 0;
	if (estimate->is_encoder)
		return MAKES_TEXT;
	return is_started_for_vectors(conf) ? 0 : MAKES_VECTORS;
}

void shell_picture(void *ctx, uint32_t model, int64_t pixels, struct picture_need *out)
{
	const struct shell *shell = ctx;
	const struct estimate *estimate = &shell->catalogue.rows[model].estimate;
	int64_t limit = shell->conf->memory_limit_bytes;

	*out = (struct picture_need){ .bytes = estimate_picture(&estimate->picture, pixels),
		                      .model_bytes = estimate->base_bytes };
	if (shell->sample.total_bytes)
		out->room_bytes = topology_capacity(&shell->topology, topology_default_pool(&shell->topology));
	if (limit > 0 && (out->room_bytes == 0 || limit < out->room_bytes))
		out->room_bytes = limit;
}
