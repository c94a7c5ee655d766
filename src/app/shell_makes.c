/* What a model can make, and what a picture of it takes, told before anything is loaded for a request. */
#include "app/shell.h"

#include <string.h>

#include "engine/routes.h"

static bool has_flag(const struct conf_model *model, const char *const flags[], size_t count)
{
	for (size_t i = 0; i < model->args.count; i++)
		for (size_t k = 0; k < count; k++)
			if (strcmp(model->args.items[i], flags[k]) == 0)
				return true;
	return false;
}

static bool is_started_for_vectors(const struct conf_model *model)
{
	static const char *const flags[] = { "--embedding", "--embeddings", "--rerank", "--reranking" };

	return has_flag(model, flags, sizeof(flags) / sizeof(flags[0]));
}

static bool has_projector(const struct conf_model *model)
{
	static const char *const flags[] = { "-mm", "--mmproj", "-mmu", "--mmproj-url" };

	return model->mmproj || has_flag(model, flags, sizeof(flags) / sizeof(flags[0]));
}

/*
 * Of a file that was read: an encoder makes no text, others make vectors only where they are told to,
 * and hear nothing without a projector.
 */
uint32_t shell_lacks(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;
	const struct estimate *estimate = &shell->catalogue.rows[model].estimate;
	const struct conf_model *conf = &shell->conf->models[model];

	if (conf->engine != CONF_ENGINE_LLAMA_SERVER || estimate->base_bytes == 0)
		return 0;
	uint32_t deaf = has_projector(conf) ? 0 : MAKES_SPEECH_TEXT;
	if (estimate->is_encoder)
		return MAKES_TEXT | deaf;
	return (is_started_for_vectors(conf) ? 0 : MAKES_VECTORS) | deaf;
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
