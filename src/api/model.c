#include <string.h>

#include "api/argv.h"
#include "api/estimate_json.h"
#include "api/experts.h"
#include "api/inside.h"
#include "api/progress.h"
#include "base/units.h"

/* At most: while it loads, or with all its slots busy and their contexts full. */
static int64_t full_bytes(const struct model_view *model)
{
	const struct model_spec *spec = model->spec;
	int64_t busy = model->base_bytes + (int64_t)spec->slots * amount_total(&spec->per_request);

	return busy > model->load_peak_bytes ? busy : model->load_peak_bytes;
}

const char *api_estimate_source(const struct api *api, const struct model_view *model, uint32_t index)
{
	const struct conf_model *conf = api_conf_model(api, index);
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	bool declared = conf && conf->footprint_bytes > 0;

	if (model->observed && !(declared && model->base_bytes == amount_total(&model->spec->base)))
		return "learned";
	return declared ? "declared" : estimate ? estimate_source_name(estimate->source) : "none";
}

/* What the model's file alone says that it takes, loaded and idle; 0 = it says nothing. */
static int64_t formula_bytes(const struct api *api, uint32_t index)
{
	const struct conf_model *conf = api_conf_model(api, index);
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);

	if (!estimate || (conf && conf->footprint_bytes > 0))
		return 0;
	return estimate->formula_bytes ? estimate->formula_bytes : estimate->base_bytes;
}

/* Without a plan: whether a load would be admitted, by the numbers alone; ever, as it would be refused. */
static enum fits rough_fit(const struct api *api, const struct model_view *model, uint32_t index)
{
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	struct decision never;
	struct pool_view pool;

	if (!id_is_none(model->instance) || arbiter_pools(arbiter) == 0)
		return FITS_NOW;
	if (arbiter_never(arbiter, index, &never))
		return FITS_NEVER;
	const struct topology *topology = api->host.topology(api->host.ctx);
	arbiter_pool(arbiter, topology ? topology_default_pool(topology) : 0, &pool);
	if (model->load_peak_bytes <= pool.free_bytes)
		return FITS_NOW;
	return FITS_AFTER_EVICTION;
}

/* Where there are several pools: how much of each. */
static void add_by_pool(const struct api *api, json_t *json, const char *key, const struct amount *amount)
{
	const struct topology *topology = api->host.topology(api->host.ctx);

	if (!topology || topology->pools < 2)
		return;
	json_t *by_pool = json_object();
	for (uint32_t pool = 0; pool < topology->pools; pool++)
		json_object_set_new(by_pool, topology->pool[pool].name, json_integer(amount_in_pool(amount, pool)));
	json_object_set_new(json, key, by_pool);
}

static bool is_at_work(const struct model_view *model)
{
	return model->state != MODEL_UNLOADED || model->queued > 0;
}

static json_t *strings_json(const struct conf_strings *strings)
{
	json_t *array = json_array();

	for (size_t i = 0; i < strings->count; i++)
		json_array_append_new(array, json_lossy(str_from(strings->items[i])));
	return array;
}

static void add_settings(const struct api *api, json_t *json, const struct model_view *model,
                         uint32_t index)
{
	const struct conf_model *conf = api_conf_model(api, index);
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	int64_t context_max = conf && conf->context_max > 0 ? conf->context_max
	                      : estimate                    ? estimate->trained_context
	                                                    : 0;

	json_object_set_new(json, "engine", json_string(conf ? conf_engine_name(conf->engine) : ""));
	json_object_set_new(json, "managed", json_boolean(!conf || !conf_is_outside(conf)));
	json_object_set_new(json, "device", json_name(conf ? conf->device : NULL));
	json_object_set_new(json, "context", json_integer(model->context_tokens ? model->context_tokens
	                                                                        : model->spec->context_tokens));
	json_object_set_new(json, "context_max", json_integer(context_max));
	json_object_set_new(json, "slots", json_integer(model->slots ? model->slots : model->spec->slots));
	json_object_set_new(json, "priority", json_string(priority_name(model->spec->priority)));
	json_object_set_new(json, "weight", json_real(model->spec->weight_milli / 1000.0));
	json_object_set_new(json, "aliases", conf ? strings_json(&conf->aliases) : json_array());
	json_object_set_new(json, "file_bytes", json_integer(estimate ? estimate->file_bytes : 0));
}

static json_t *duration_json(int64_t us)
{
	return us < 0 ? json_null() : json_integer(us / US_PER_MS);
}

/* How far a load is; null where there is none. */
static json_t *load_json(const struct api *api, const struct model_view *model)
{
	struct load_progress progress;
	struct buf text = BUF_INIT;
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	if (!load_progress(api->options.supervisor, model, now.now_us, &progress))
		return json_null();
	load_progress_text(&progress, &text);
	json_t *json = json_object();
	json_object_set_new(json, "permille", json_integer(progress.permille));
	json_object_set_new(json, "bytes", json_integer(progress.bytes));
	json_object_set_new(json, "total_bytes", progress.total_bytes ? json_integer(progress.total_bytes)
	                                                              : json_null());
	json_object_set_new(json, "elapsed_ms", json_integer(progress.elapsed_us / US_PER_MS));
	json_object_set_new(json, "expected_ms", progress.expected_us
	                                                 ? json_integer(progress.expected_us / US_PER_MS)
	                                                 : json_null());
	json_object_set_new(json, "left_ms", duration_json(progress.left_us));
	json_object_set_new(json, "text", json_lossy(buf_str(&text)));
	buf_release(&text);
	return json;
}

static json_t *speed_json(const struct metrics *metrics, uint32_t model)
{
	double speed = model < metrics->models ? metrics->tokens_per_s[model] : 0;
	return speed > 0 ? json_real(speed) : json_null();
}

static int64_t room_now(const struct api *api, uint32_t index)
{
	return api->host.context_now ? api->host.context_now(api->host.ctx, index) : 0;
}

/* 0: its context is not elastic. */
static int64_t elastic_now(const struct api *api, const struct model_view *model, uint32_t index)
{
	return model->spec->flags & MODEL_LAZY ? 0 : room_now(api, index);
}

int64_t api_context_now(const struct api *api, const struct model_view *model, uint32_t index)
{
	const char *not_lazy = api->host.not_lazy ? api->host.not_lazy(api->host.ctx, index) : "";
	int64_t now = room_now(api, index);

	if (now > 0 || !not_lazy)
		return now;
	return model->context_tokens ? model->context_tokens : model->spec->context_tokens;
}

/* Of the cache that conversations fill. */
static void add_kv(const struct api *api, json_t *json, const struct model_view *model, uint32_t index)
{
	const char *not_lazy = api->host.not_lazy ? api->host.not_lazy(api->host.ctx, index) : "";

	json_object_set_new(json, "cached_tokens", json_integer(not_lazy ? model->cached_tokens : model->kept_tokens));
	json_object_set_new(json, "growths", json_integer((json_int_t)model->growths));
	json_object_set_new(json, "growths_ms", json_integer(model->growths_us / US_PER_MS));
	json_object_set_new(json, "kv_growths", json_integer((json_int_t)model->kept_growths));
	json_object_set_new(json, "kv", !not_lazy                     ? json_string("lazy")
	                                : elastic_now(api, model, index) > 0 ? json_string("elastic")
	                                : not_lazy[0]                 ? json_string("fixed")
	                                                              : json_null());
	json_object_set_new(json, "context_now", json_integer(api_context_now(api, model, index)));
	json_object_set_new(json, "kv_reason", json_name(not_lazy));
	json_object_set_new(json, "kv_kept_bytes", json_integer(model->kept_bytes));
	json_object_set_new(json, "kv_claim_bytes", json_integer(model->kv_bytes));
}

static void put_elastic(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out)
{
	char took[UNITS_TEXT];

	buf_printf(out, "; its context is %u tokens and may grow to %lld now",
	           model->context_tokens ? model->context_tokens : model->spec->context_tokens,
	           (long long)elastic_now(api, model, index));
	if (model->growths > 0)
		buf_printf(out, "; it has grown %llu time%s, in %s altogether", (unsigned long long)model->growths,
		           model->growths == 1 ? "" : "s", units_duration(took, model->growths_us));
}

void api_kv_text(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out)
{
	const char *not_lazy = api->host.not_lazy ? api->host.not_lazy(api->host.ctx, index) : "";
	char kept[UNITS_TEXT], claimed[UNITS_TEXT];

	if (!not_lazy && !id_is_none(model->instance))
		buf_printf(out, "; its KV follows use: %lld tokens held in %s, %s claimed",
		           (long long)model->kept_tokens, units_size(kept, model->kept_bytes),
		           units_size(claimed, model->kv_bytes));
	else if (elastic_now(api, model, index) > 0)
		put_elastic(api, model, index, out);
	else if (not_lazy && not_lazy[0])
		buf_printf(out, "; its KV is reserved whole: %s", not_lazy);
}

static const char *replaced(const struct api *api, uint32_t index)
{
	return api->host.replaced ? api->host.replaced(api->host.ctx, index) : "";
}

void api_replaced_text(const struct api *api, uint32_t index, struct buf *out)
{
	if (*replaced(api, index))
		buf_printf(out, "; %s", replaced(api, index));
}

json_t *fault_json(const struct api *api, uint32_t model)
{
	const char *fault = api->host.fault ? api->host.fault(api->host.ctx, model) : "";

	return *fault ? json_lossy(str_from(fault)) : json_null();
}

/* What `ps` prints, and what the numbers were made of. */
json_t *api_model_json(const struct api *api, const struct model_view *model, uint32_t index)
{
	char id[API_ID_BYTES];
	const struct model_spec *spec = model->spec;
	json_t *json = json_object();

	json_object_set_new(json, "name", json_lossy(str_from(spec->name)));
	json_object_set_new(json, "state", json_string(model_state_name(model->state)));
	json_object_set_new(json, "reason", model->reason ? json_string(reason_name(model->reason))
	                                                  : json_null());
	json_object_set_new(json, "pid", model->pid > 0 ? json_integer(model->pid) : json_null());
	add_settings(api, json, model, index);
	json_object_set_new(json, "slots_used", json_integer(model->running));
	add_kv(api, json, model, index);
	json_object_set_new(json, "tokens_per_s", speed_json(&api->metrics, index));
	json_object_set_new(json, "estimate_bytes", json_integer(model->base_bytes));
	json_object_set_new(json, "measured_bytes", json_integer(model->measured_bytes));
	json_object_set_new(json, "experts", experts_json(api, model, index));
	json_object_set_new(json, "settled", json_boolean(model->settled));
	add_by_pool(api, json, "by_pool", &model->measured);
	add_by_pool(api, json, "claim_by_pool", &model->claim);
	json_object_set_new(json, "running", json_integer(model->running));
	json_object_set_new(json, "queued", json_integer(model->queued));
	json_object_set_new(json, "last_used_at_ms", json_integer(api_epoch_ms(api, model->last_used_at_us)));
	json_object_set_new(json, "pinned", json_boolean(model->pinned));
	const struct conf_set *set = conf_set_of(api->host.conf(api->host.ctx), spec->name);
	json_object_set_new(json, "set", json_name(set ? set->name : NULL));
	json_object_set_new(json, "warm_bytes", json_integer(model->warm_bytes));

	json_object_set_new(json, "instance", model->instance_sequence
	                                              ? json_string(api_id(api, id, model->instance_sequence))
	                                              : json_null());
	json_object_set_new(json, "progress", json_real(model->permille / 1000.0));
	json_object_set_new(json, "load", load_json(api, model));
	json_object_set_new(json, "fits", json_string(fits_name(rough_fit(api, model, index))));
	json_object_set_new(json, "fault", fault_json(api, index));
	json_object_set_new(json, "replaced", *replaced(api, index) ? json_string(replaced(api, index)) : json_null());
	json_object_set_new(json, "claim_bytes", json_integer(model->claim_bytes));
	json_object_set_new(json, "measured_peak_bytes", json_integer(model->peak_bytes));
	json_object_set_new(json, "estimate_source", json_string(api_estimate_source(api, model, index)));
	json_object_set_new(json, "base_bytes", json_integer(model->base_bytes));
	json_object_set_new(json, "lower_bytes", json_integer(model->lower_bytes));
	int64_t formula = formula_bytes(api, index);
	json_object_set_new(json, "formula_base_bytes", formula ? json_integer(formula) : json_null());
	json_object_set_new(json, "per_request_bytes", json_integer(amount_total(&spec->per_request)));
	json_object_set_new(json, "peak_bytes", json_integer(model->load_peak_bytes));
	json_object_set_new(json, "full_bytes", json_integer(full_bytes(model)));
	json_object_set_new(json, "loads", json_integer(model->loads));
	json_object_set_new(json, "failures", json_integer(model->failures));
	json_object_set_new(json, "last_load_ms", json_integer(model->last_load_us / US_PER_MS));
	json_object_set_new(json, "retry_at_ms", json_integer(api_epoch_ms(api, model->retry_at_us)));
	return json;
}

void handle_models(struct api *api, struct call *call, const char *name)
{
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	json_t *models = json_array();
	struct model_view model;
	char loaded[8];

	(void)name;
	bool working_only = call_parameter(call, "loaded", loaded, sizeof(loaded)) &&
	                    strcmp(loaded, "0") != 0;
	for (uint32_t i = 0; i < arbiter_models(arbiter); i++)
		if (arbiter_model(arbiter, i, &model) && api_may_see(api, call, i) &&
		    (!working_only || is_at_work(&model)))
			json_array_append_new(models, api_model_json(api, &model, i));
	api_reply(call, 200, json_pack("{s:o}", "models", models));
}

/* ---- one model ---- */

static json_t *configuration_json(const struct conf *conf, const struct conf_model *m)
{
	json_t *json = json_object();

	json_object_set_new(json, "file", json_name(m->file));
	json_object_set_new(json, "cmd", argv_line_json(conf, &m->cmd_argv));
	json_object_set_new(json, "url", json_name(m->url));
	json_object_set_new(json, "args", argv_json(conf, &m->args));
	json_object_set_new(json, "context_min", json_integer(m->context_min));
	json_object_set_new(json, "context_max", m->context_max < 0 ? json_null()
	                                                            : json_integer(m->context_max));
	json_object_set_new(json, "slots", m->slots_given ? json_integer(m->slots) : json_null());
	json_object_set_new(json, "kv_type", json_name(m->kv_type));
	json_object_set_new(json, "footprint_bytes", m->footprint_bytes ? json_integer(m->footprint_bytes)
	                                                                : json_null());
	json_object_set_new(json, "preload", json_boolean(m->preload));
	json_object_set_new(json, "autoload", json_boolean(m->autoload));
	json_object_set_new(json, "queue", json_integer(m->queue));
	json_object_set_new(json, "unload_after_ms", duration_json(m->unload_after_us));
	json_object_set_new(json, "stall_timeout_ms", duration_json(m->stall_timeout_us));
	json_object_set_new(json, "start_timeout_ms", duration_json(m->start_timeout_us));
	json_object_set_new(json, "drain_timeout_ms", duration_json(m->drain_timeout_us));
	return json;
}

/* Its state in words. */
/* Where something else is reckoned with than its file says: both, and why. */
static void estimate_text(const struct api *api, const struct model_view *model, uint32_t index, struct buf *out)
{
	const char *origin = api_estimate_source(api, model, index);
	int64_t formula = formula_bytes(api, index);
	char reckoned[UNITS_TEXT], said[UNITS_TEXT];

	if (formula == 0 || model->base_bytes == 0 || strcmp(origin, "formula") == 0)
		return;
	const char *why = strcmp(origin, "engine") == 0 ? "its engine says"
	                  : strcmp(origin, "memo") == 0 ? "the same launch took before"
	                                                : "its loads taught";
	units_size(reckoned, model->base_bytes);
	units_size(said, formula);
	if (strcmp(reckoned, said) != 0)
		buf_printf(out, "; idle it is reckoned with %s, as %s, where its file alone says %s", reckoned, why, said);
}

static json_t *state_json(const struct api *api, const struct model_view *model, uint32_t index)
{
	struct buf text = BUF_INIT;
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	model_text(model, now.now_us, &text);
	estimate_text(api, model, index, &text);
	api_kv_text(api, model, index, &text);
	experts_text(api, model, index, &text);
	api_replaced_text(api, index, &text);
	json_t *json = json_lossy(buf_str(&text));
	buf_release(&text);
	return json;
}

void handle_model(struct api *api, struct call *call, const char *name)
{
	struct model_view model;
	char error[512] = "";

	uint32_t index = api_resolve(api, call, name, &model);
	if (index == MODEL_NONE)
		return;
	const struct conf_model *conf = api_conf_model(api, index);
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	api->host.explain(api->host.ctx, index, FAIL_LOAD_FAILED, error, sizeof(error));
	json_t *json = api_model_json(api, &model, index);
	json_object_set_new(json, "text", state_json(api, &model, index));
	json_object_set_new(json, "error", json_name(error));
	json_object_set_new(json, "configured", conf ? configuration_json(api->host.conf(api->host.ctx), conf) : json_null());
	json_object_set_new(json, "estimate", estimate ? estimate_json(estimate) : json_null());
	api_reply(call, 200, json);
}
