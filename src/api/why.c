#include <stdlib.h>
#include <string.h>

#include "api/estimate_json.h"
#include "api/inside.h"
#include "base/units.h"

/* ---- plan ---- */

/* A load that pins stand in the way of is refused like one that never fits: say whose they are. */
static void add_pins(const struct api *api, const struct call *call, struct buf *text)
{
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	struct model_view model;
	bool first = true;

	for (uint32_t i = 0; i < arbiter_models(arbiter); i++) {
		if (!arbiter_model(arbiter, i, &model) || !model.pinned || !api_may_see(api, call, i))
			continue;
		buf_printf(text, "%s%s", first ? "; pinned: " : ", ", model.spec->name);
		first = false;
	}
}

/* What its start does otherwise than usual, so that it fits. */
static void add_choices(const struct api *api, const struct estimate *e, double bytes_per_s, struct buf *text)
{
	if (e->ubatch)
		buf_printf(text, "; started with a physical batch of %lld tokens, so that it fits (prompts take longer)",
		           (long long)e->ubatch);
	if (e->host_layers)
		buf_printf(text, "; started with %lld of its %lld layers on the GPU, as many as fit there (the CPU "
		                 "computes the others)",
		           (long long)(e->layers + 1 - e->host_layers), (long long)e->layers + 1);
	estimate_tell_experts(text, e, bytes_per_s, supervisor_bound_refused(api->options.supervisor));
}

/* How fast its file came in when it was last loaded; 0 = not in this life. */
static double load_speed(const struct model_view *model, const struct estimate *e)
{
	return model->last_load_us > 0 ? (double)e->file_bytes * 1e6 / (double)model->last_load_us : 0;
}

static json_t *plan_json(const struct api *api, const struct call *call, const struct plan *plan,
                         const struct model_view *model, uint32_t index)
{
	const struct estimate *estimate = api->host.estimate(api->host.ctx, index);
	const char *name = model->spec->name;
	struct seen seen = { api, call };
	struct names names = api_names_for(&seen);
	json_t *evict = json_array(), *json = json_object();
	struct buf text = BUF_INIT;

	for (uint32_t i = 0; i < plan->victims; i++) {
		const char *victim = names.model(names.ctx, plan->victim[i]);
		json_array_append_new(evict,
		                      json_pack("{s:o, s:I, s:f, s:I}", "model", json_name(victim), "bytes",
		                                (json_int_t)plan->victim_bytes[i], "regret",
		                                (double)plan->victim_regret_milli[i] / 1000, "prefill_lost_ms",
		                                (json_int_t)(plan->victim_prefill_us[i] / US_PER_MS)));
	}
	plan_text(plan, name, &names, &text);
	if (estimate)
		add_choices(api, estimate, load_speed(model, estimate), &text);
	if (plan->fits == FITS_NEVER)
		add_pins(api, call, &text);
	/* Having to wait for busy models is a room that others leave: the answer has no sixth word for it. */
	bool waits = plan->fits == FITS_NOT_NOW;
	json_object_set_new(json, "model", json_name(name));
	json_object_set_new(json, "fits", json_string(fits_name(waits ? FITS_AFTER_EVICTION : plan->fits)));
	json_object_set_new(json, "waits", json_boolean(waits));
	json_object_set_new(json, "need_bytes", json_integer(plan->need_bytes));
	json_object_set_new(json, "peak_bytes", json_integer(plan->peak_bytes));
	json_object_set_new(json, "free_bytes", json_integer(plan->free_bytes));
	json_object_set_new(json, "estimate_source", json_string(api_estimate_source(api, model, index)));
	json_object_set_new(json, "loads_measured", json_integer(model->observed));
	json_object_set_new(json, "ubatch", json_integer(estimate ? estimate->ubatch : 0));
	if (estimate)
		estimate_add_placing(json, estimate);
	if (estimate)
		estimate_add_experts(json, estimate, load_speed(model, estimate),
		                     supervisor_bound_refused(api->options.supervisor));
	json_object_set_new(json, "asked_bytes", json_integer(plan->asked_bytes));
	json_object_set_new(json, "room_bytes", json_integer(plan->room_bytes));
	json_object_set_new(json, "loaded", json_boolean(plan->loaded));
	json_object_set_new(json, "evict", evict);
	json_object_set_new(json, "wait_estimate_ms",
	                    plan->fits == FITS_NEVER ? json_null() : json_integer(plan->wait_estimate_us / US_PER_MS));
	json_object_set_new(json, "reason", json_lossy(buf_str(&text)));
	json_object_set_new(json, "binds", plan->reason ? json_string(reason_name(plan->reason))
	                                                : json_null());
	buf_release(&text);
	return json;
}

/* The model to plan for: ?model=, or a body {"model": ...}. False where neither names one. */
static bool planned_model(const struct call *call, char *out, size_t out_bytes)
{
	if (call_parameter(call, "model", out, (uint32_t)out_bytes))
		return true;
	struct str body = call_body(call);
	json_t *json = json_loadb(body.length ? body.data : "", body.length, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(json, "model"));
	bool found = name && str_copy(out, out_bytes, str_from(name));
	json_decref(json);
	return found;
}

void handle_plan(struct api *api, struct call *call, const char *name)
{
	struct model_view model;
	struct plan plan;
	char wanted[300];

	(void)name;
	if (!planned_model(call, wanted, sizeof(wanted))) {
		call_error(call, 400, "bad_request", "name a model: /api/v1/plan?model=NAME", "cotenant ls");
		return;
	}
	uint32_t index = api_resolve(api, call, wanted, &model);
	if (index == MODEL_NONE)
		return;
	if (!api->host.plan(api->host.ctx, index, &plan)) {
		api_no_model(api, call, wanted);
		return;
	}
	json_t *json = plan_json(api, call, &plan, &model, index);
	json_object_set_new(json, "state", json_string(model_state_name(model.state)));
	json_object_set_new(json, "fault", fault_json(api, index));
	api_reply(call, 200, json);
}

/* ---- decisions ---- */

static int newest_first(const void *a, const void *b)
{
	const struct decision *x = a, *y = b;
	return x->sequence < y->sequence ? 1 : x->sequence > y->sequence ? -1 : 0;
}

enum { ABOUT_MAX = 2 * DECISIONS_KEPT };

/* The last decisions about a model, and those by which others made room for it; newest first. */
static json_t *model_decisions(const struct api *api, const struct call *call, uint32_t model)
{
	struct decision about[ABOUT_MAX];
	const struct decision *decision;
	json_t *array = json_array();

	uint32_t count = arbiter_decisions(api->host.arbiter(api->host.ctx), model, about);
	for (uint64_t i = 0; (decision = past_decision(&api->past, i)) && count < ABOUT_MAX; i++)
		if (decision->for_model == model && decision->model != model)
			about[count++] = *decision;
	qsort(about, count, sizeof(about[0]), newest_first);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, api_decision_json(api, call, &about[i]));
	return array;
}

void handle_decisions(struct api *api, struct call *call, const char *name)
{
	const struct decision *decision;
	struct model_view model;
	char wanted[300];

	(void)name;
	if (call_parameter(call, "model", wanted, sizeof(wanted))) {
		uint32_t index = api_resolve(api, call, wanted, &model);
		if (index != MODEL_NONE)
			api_reply(call, 200, json_pack("{s:s, s:o}", "model", model.spec->name, "decisions",
			                               model_decisions(api, call, index)));
		return;
	}
	json_t *array = json_array();
	for (uint64_t i = 0; (decision = past_decision(&api->past, i)); i++)
		if (api_may_see(api, call, decision->model))
			json_array_append_new(array, api_decision_json(api, call, decision));
	api_reply(call, 200, json_pack("{s:o}", "decisions", array));
}

/* ---- why ---- */

static void why_model(struct api *api, struct call *call, uint32_t index, const struct model_view *model)
{
	struct buf text = BUF_INIT;
	struct decision never;
	struct api_now now;
	char error[512] = "";

	api->host.now(api->host.ctx, &now);
	model_text(model, now.now_us, &text);
	if (arbiter_never(api->host.arbiter(api->host.ctx), index, &never)) {
		buf_printf(&text, "; ");
		never_text(&never, &text);
	}
	api_kv_text(api, model, index, &text);
	api_replaced_text(api, index, &text);
	api->host.explain(api->host.ctx, index, FAIL_LOAD_FAILED, error, sizeof(error));
	if (error[0])
		buf_printf(&text, "; last failure: %s", error);
	api_reply(call, 200,
	          json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "id", model->spec->name, "kind", "model",
	                    "state", model_state_name(model->state), "reason",
	                    model->reason ? json_string(reason_name(model->reason)) : json_null(), "text",
	                    json_lossy(buf_str(&text)), "decisions", model_decisions(api, call, index)));
	buf_release(&text);
}

static json_t *request_decisions(const struct api *api, const struct call *call, uint64_t sequence)
{
	const struct decision *decision;
	json_t *array = json_array();

	for (uint64_t i = 0; (decision = past_decision(&api->past, i)); i++)
		if (decision->request == sequence)
			json_array_append_new(array, api_decision_json(api, call, decision));
	return array;
}

void handle_why(struct api *api, struct call *call, const char *name)
{
	struct model_view model;
	uint64_t sequence;

	if (api_parse_id(api, name, &sequence)) {
		json_t *request = api_request_json(api, call, sequence);
		if (!request) {
			api_no_request(call, name);
			return;
		}
		json_object_set_new(request, "kind", json_string("request"));
		json_object_set_new(request, "decisions", request_decisions(api, call, sequence));
		api_reply(call, 200, request);
		return;
	}
	uint32_t index = api_resolve(api, call, name, &model);
	if (index != MODEL_NONE)
		why_model(api, call, index, &model);
}
