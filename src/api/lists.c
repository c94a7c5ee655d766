#include <stdio.h>

#include "api/inside.h"
#include "base/units.h"

/* Lists of models as clients of other servers expect them: OpenAI's and Ollama's. */

struct each_model {
	struct api *api;
	struct call *call;
	json_t *array;
	bool running_only;
};

static bool is_running(const struct model_view *model)
{
	return model->state == MODEL_IDLE || model->state == MODEL_BUSY || model->state == MODEL_DRAINING;
}

static void for_each(struct each_model *each,
                     json_t *(*make)(struct each_model *each, const struct model_view *model,
                                     uint32_t index))
{
	const struct arbiter *arbiter = each->api->host.arbiter(each->api->host.ctx);
	struct model_view model;

	for (uint32_t i = 0; i < arbiter_models(arbiter); i++)
		if (arbiter_model(arbiter, i, &model) && api_may_see(each->api, each->call, i) &&
		    (!each->running_only || is_running(&model)))
			json_array_append_new(each->array, make(each, &model, i));
}

/* ---- OpenAI ---- */

static json_t *openai_json(const struct api *api, const char *id, json_t *meta)
{
	return json_pack("{s:o, s:s, s:I, s:s, s:o}", "id", json_lossy(str_from(id)), "object", "model",
	                 "created", (json_int_t)(api_epoch_ms(api, api->options.started_at_us) / 1000),
	                 "owned_by", "cotenant", "meta", meta);
}

static json_t *openai_model(struct each_model *each, const struct model_view *model, uint32_t index)
{
	const struct conf_model *conf = api_conf_model(each->api, index);
	json_t *aliases = json_array();

	for (size_t i = 0; conf && i < conf->aliases.count; i++)
		json_array_append_new(aliases, json_lossy(str_from(conf->aliases.items[i])));
	json_t *meta = json_pack(
		"{s:s, s:o, s:I, s:I, s:b}", "state", model_state_name(model->state), "aliases", aliases,
		"context", (json_int_t)(model->context_tokens ? model->context_tokens
	                                                      : model->spec->context_tokens),
		"context_now", (json_int_t)api_context_now(each->api, model, index),
		"pinned", model->pinned);
	const struct estimate *estimate = each->api->host.estimate(each->api->host.ctx, index);
	json_int_t now = api_context_now(each->api, model, index);
	if (now > 0) /* by the name that llama-server's clients read */
		json_object_set_new(meta, "n_ctx", json_integer(now));
	if (estimate && estimate->trained_context > 0)
		json_object_set_new(meta, "n_ctx_train", json_integer(estimate->trained_context));
	json_t *json = openai_json(each->api, model->spec->name, meta);
	if (now > 0) /* ... and vLLM's */
		json_object_set_new(json, "max_model_len", json_integer(now));
	return json;
}

/* Personalities (`aliases:`) can be asked for by name as well. */
static void add_named_aliases(struct each_model *each)
{
	const struct conf *conf = each->api->host.conf(each->api->host.ctx);

	for (size_t i = 0; i < conf->alias_count; i++) {
		const struct conf_alias *alias = &conf->aliases[i];
		int index = conf_resolve(conf, str_from(alias->name), NULL);
		if (index < 0 || !api_may_see(each->api, each->call, (uint32_t)index))
			continue;
		json_t *models = json_array();
		for (size_t k = 0; k < alias->models.count; k++)
			json_array_append_new(models, json_lossy(str_from(alias->models.items[k])));
		json_array_append_new(each->array, openai_json(each->api, alias->name,
		                                               json_pack("{s:o}", "alias_of", models)));
	}
}

void handle_openai_models(struct api *api, struct call *call, const char *name)
{
	struct each_model each = { .api = api, .call = call, .array = json_array() };

	(void)name;
	for_each(&each, openai_model);
	add_named_aliases(&each);
	api_reply(call, 200, json_pack("{s:s, s:o}", "object", "list", "data", each.array));
}

void handle_openai_model(struct api *api, struct call *call, const char *name)
{
	struct each_model each = { .api = api, .call = call };
	struct model_view model;

	uint32_t index = api_resolve(api, call, name, &model);
	if (index != MODEL_NONE)
		api_reply(call, 200, openai_model(&each, &model, index));
}

/* ---- Ollama ---- */

/* "2025-01-31T12:00:00Z" */
static json_t *rfc3339(int64_t epoch_ms)
{
	time_t seconds = (time_t)(epoch_ms / 1000);
	struct tm utc;
	char text[32];

	if (!gmtime_r(&seconds, &utc) || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
		return json_string("1970-01-01T00:00:00Z");
	return json_string(text);
}

static json_t *details_json(const struct estimate *estimate)
{
	char parameters[24] = "";

	if (estimate && estimate->parameters >= 1000000000)
		snprintf(parameters, sizeof(parameters), "%.1fB", (double)estimate->parameters / 1e9);
	else if (estimate && estimate->parameters > 0)
		snprintf(parameters, sizeof(parameters), "%.0fM", (double)estimate->parameters / 1e6);
	const char *family = estimate ? estimate->architecture : "";
	return json_pack("{s:s, s:s, s:o, s:[o], s:s, s:o}", "parent_model", "", "format", "gguf", "family",
	                 json_lossy(str_from(family)), "families", json_lossy(str_from(family)),
	                 "parameter_size", parameters, "quantization_level",
	                 json_lossy(str_from(estimate ? estimate->quantisation : "")));
}

/* Clients compare digests for equality alone; ours tells the file's identity. */
static json_t *digest_json(const struct model_spec *spec)
{
	char text[80];

	snprintf(text, sizeof(text), "%016llx%048d", (unsigned long long)spec->file_key, 0);
	return json_string(text);
}

static json_t *ollama_model(struct each_model *each, const struct model_view *model, uint32_t index)
{
	struct api *api = each->api;
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	json_t *json = json_object();
	int64_t size = each->running_only ? model->measured_bytes
	               : estimate         ? estimate->file_bytes
	                                  : amount_total(&model->spec->base);

	json_object_set_new(json, "name", json_lossy(str_from(model->spec->name)));
	json_object_set_new(json, "model", json_lossy(str_from(model->spec->name)));
	json_object_set_new(json, "size", json_integer(size));
	json_object_set_new(json, "digest", digest_json(model->spec));
	json_object_set_new(json, "details", details_json(estimate));
	if (each->running_only) {
		const struct conf_model *conf = api_conf_model(api, index);
		int64_t idle_us = conf ? conf->unload_after_us : CONF_NEVER;
		/* "Never" has no form there; Ollama itself answers with a far future. */
		int64_t end_us = idle_us == CONF_NEVER ? INT64_C(3153600000) * US_PER_S
		                                       : model->last_used_at_us + idle_us;
		json_object_set_new(json, "expires_at", rfc3339(api_epoch_ms(api, end_us)));
		json_object_set_new(json, "size_vram", json_integer(0));
		json_object_set_new(json, "context_length", json_integer(model->context_tokens));
	} else {
		json_object_set_new(json, "modified_at",
		                    rfc3339(api_epoch_ms(api, api->options.started_at_us)));
	}
	return json;
}

static void reply_ollama(struct api *api, struct call *call, bool running_only)
{
	struct each_model each = { api, call, json_array(), running_only };

	for_each(&each, ollama_model);
	api_reply(call, 200, json_pack("{s:o}", "models", each.array));
}

void handle_ollama_tags(struct api *api, struct call *call, const char *name)
{
	(void)name;
	reply_ollama(api, call, false);
}

void handle_ollama_ps(struct api *api, struct call *call, const char *name)
{
	(void)name;
	reply_ollama(api, call, true);
}

void handle_ollama_version(struct api *api, struct call *call, const char *name)
{
	(void)name;
	api_reply(call, 200, json_pack("{s:s}", "version", api->options.version));
}

/* What clients size their prompts by: the largest context that could be had now, not the file's. */
static json_t *model_info_json(const struct estimate *estimate, int64_t context)
{
	json_t *info = json_object();
	char key[96];

	if (!estimate)
		return info;
	json_object_set_new(info, "general.architecture", json_lossy(str_from(estimate->architecture)));
	json_object_set_new(info, "general.parameter_count", json_integer(estimate->parameters));
	snprintf(key, sizeof(key), "%s.context_length", estimate->architecture);
	if (context > 0 && estimate->architecture[0])
		json_object_set_new(info, key, json_integer(context));
	return info;
}

/* The model's name out of {"model": ...}, or as older clients say, {"name": ...}. NULL: none. */
static json_t *named_in(struct call *call)
{
	struct str body = call_body(call);
	json_error_t error;
	json_t *json = json_loadb(body.data, body.length, JSON_REJECT_DUPLICATES, &error);
	json_t *name = json_object_get(json, "model");

	if (!json_is_string(name))
		name = json_object_get(json, "name");
	name = json_is_string(name) ? json_incref(name) : NULL;
	json_decref(json);
	return name;
}

void handle_ollama_show(struct api *api, struct call *call, const char *unused)
{
	json_t *name = named_in(call);
	struct model_view model;
	char parameters[64] = "";

	(void)unused;
	if (!name) {
		call_error(call, 400, "model_missing", "the body is a JSON object with \"model\"", NULL);
		return;
	}
	uint32_t index = api_resolve(api, call, json_string_value(name), &model);
	json_decref(name);
	if (index == MODEL_NONE)
		return;
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	int64_t context = api_context_now(api, &model, index);
	if (context > 0)
		snprintf(parameters, sizeof(parameters), "num_ctx                        %lld", (long long)context);
	bool embeds = estimate && estimate->is_encoder;
	api_reply(call, 200,
	          json_pack("{s:s, s:s, s:s, s:o, s:o, s:[s], s:o}", "modelfile", "", "parameters", parameters, "template",
	                    "", "details", details_json(estimate), "model_info", model_info_json(estimate, context),
	                    "capabilities", embeds ? "embedding" : "completion", "modified_at",
	                    rfc3339(api_epoch_ms(api, api->options.started_at_us))));
}
