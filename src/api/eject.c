/*
 * What the clients of other managers say to free memory: llama-swap's /unload and
 * /api/models/unload, the router's /models/unload. By role use it is a wish: what
 * is idle, unpinned and theirs goes, and the rest is named with who holds it. An
 * admin's word for one model is an unload like any other.
 */
#include <stdlib.h>

#include "api/inside.h"
#include "api/refusal.h"
#include "base/alloc.h"

/* All that are loaded, each asked by itself; it answers when the last is settled. */
struct sweep {
	struct list node;
	struct api *api;
	struct call *call; /* NULL: it left */
	json_t *gone, *kept;
	struct list asked; /* verdicts to come */
	bool asking;       /* there may be more */
};

struct swept {
	struct list node;
	struct sweep *sweep;
	struct id ticket;
	uint32_t model;
};

/* A page anywhere can make a browser send a GET; what acts does not answer to one. */
static bool refuse_page(struct call *call)
{
	bool reads = str_is(call_method(call), "GET") || str_is(call_method(call), "HEAD");

	if (str_is(call_method(call), "HEAD")) {
		call_methods(call, "POST, GET"); /* in this order it says nothing of HEAD */
		return true;
	}
	if (!reads || call_header(call, "Origin").length == 0)
		return false;
	call_error(call, 403, "origin_not_allowed",
	           "a web page may not unload models by GET; use POST", NULL);
	return true;
}

static void free_sweep(struct sweep *sweep)
{
	list_remove(&sweep->node);
	json_decref(sweep->gone);
	json_decref(sweep->kept);
	free(sweep);
}

static void forget(struct swept *swept)
{
	list_remove(&swept->node);
	free(swept);
}

static void settle(struct sweep *sweep)
{
	if (sweep->asking || !list_is_empty(&sweep->asked))
		return;
	bool all = json_array_size(sweep->kept) == 0;
	if (sweep->call) {
		call_on_gone(sweep->call, NULL, NULL);
		api_reply(sweep->call, all ? 200 : 409,
		          json_pack("{s:s, s:b, s:O, s:O}", "msg", all ? "ok" : "some models stay loaded",
		                    "success", all, "unloaded", sweep->gone, "kept", sweep->kept));
	}
	free_sweep(sweep);
}

static void on_verdict(void *owner, struct id ticket, const struct action *action)
{
	struct swept *swept = owner;
	struct sweep *sweep = swept->sweep;
	struct api *api = sweep->api;
	const char *name = api->names.model(api->names.ctx, swept->model);
	char explain[512] = "";

	if (action->type != ACTION_REJECT && action->type != ACTION_DONE) {
		api->host.gone(api->host.ctx, ticket);
		ticket_close(api->options.tickets, ticket);
	}
	if (action->type == ACTION_DONE) {
		json_array_append_new(sweep->gone, json_lossy(str_from(name)));
	} else {
		api->host.explain(api->host.ctx, swept->model, (enum fail)action->fail, explain, sizeof(explain));
		json_array_append_new(sweep->kept,
		                      json_pack("{s:o, s:o}", "model", json_lossy(str_from(name)), "reason",
		                                json_lossy(str_from(explain))));
	}
	forget(swept);
	settle(sweep);
}

static const struct ticket_handler handler = { on_verdict };

static void ask(struct sweep *sweep, uint32_t model, const struct model_view *view)
{
	struct api *api = sweep->api;
	struct swept *swept = xmalloc(sizeof(*swept));
	struct id ticket = ticket_open(api->options.tickets, &handler, swept);

	*swept = (struct swept){ .sweep = sweep, .ticket = ticket, .model = model };
	if (id_is_none(ticket)) {
		free(swept);
		return;
	}
	struct request_spec spec = { .sequence = api->host.sequence(api->host.ctx),
		                     .model = model,
		                     .kind = REQUEST_UNLOAD,
		                     .flags = REQUEST_WISH,
		                     .priority = view->spec->priority,
		                     .weight_milli = 1000,
		                     .deadline_at_us = INT64_MAX };
	list_append(&sweep->asked, &swept->node);
	api->host.submit(api->host.ctx, ticket, &spec);
}

static void on_caller_gone(void *ctx, struct call *call)
{
	(void)call;
	((struct sweep *)ctx)->call = NULL;
}

void handle_eject_all(struct api *api, struct call *call, const char *name)
{
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	struct model_view view;

	(void)name;
	if (refuse_page(call))
		return;
	struct sweep *sweep = xcalloc(1, sizeof(*sweep));
	*sweep = (struct sweep){ .api = api, .call = call, .gone = json_array(), .kept = json_array(), .asking = true };
	list_init(&sweep->asked);
	list_append(&api->sweeps, &sweep->node);
	call_on_gone(call, on_caller_gone, sweep);
	for (uint32_t i = 0; i < arbiter_models(arbiter); i++)
		if (arbiter_model(arbiter, i, &view) && !id_is_none(view.instance) && api_may_see(api, call, i))
			ask(sweep, i, &view);
	sweep->asking = false;
	settle(sweep);
}

void sweeps_end(struct api *api)
{
	while (!list_is_empty(&api->sweeps)) {
		struct sweep *sweep = LIST_ENTRY(api->sweeps.next, struct sweep, node);
		if (sweep->call) {
			call_on_gone(sweep->call, NULL, NULL);
			call_refuse(sweep->call, FAIL_DRAINING, NULL, NULL, "", false);
		}
		while (!list_is_empty(&sweep->asked)) {
			struct swept *swept = LIST_ENTRY(sweep->asked.next, struct swept, node);
			ticket_close(api->options.tickets, swept->ticket);
			forget(swept);
		}
		free_sweep(sweep);
	}
}

void handle_eject(struct api *api, struct call *call, const char *name)
{
	if (!refuse_page(call))
		command_begin(api, call, name, REQUEST_UNLOAD,
		              call_role(call) == CONF_ROLE_ADMIN ? 0 : REQUEST_WISH);
}

/* {"model": NAME}. False after an answer. */
static bool read_name(struct call *call, char *out, size_t out_bytes)
{
	struct str body = call_body(call);
	json_t *json = json_loadb(body.data, body.length, JSON_REJECT_DUPLICATES, NULL);
	const char *name = json_string_value(json_object_get(json, "model"));
	bool good = name && str_copy(out, out_bytes, str_from(name));

	json_decref(json);
	if (!good)
		call_error(call, 400, "bad_request", "the body is {\"model\": NAME}", "cotenant ls");
	return good;
}

void handle_eject_named(struct api *api, struct call *call, const char *name)
{
	char model[300];

	(void)name;
	if (read_name(call, model, sizeof(model)))
		handle_eject(api, call, model);
}

void handle_load_named(struct api *api, struct call *call, const char *name)
{
	char model[300];

	(void)name;
	if (read_name(call, model, sizeof(model)))
		command_begin(api, call, model, REQUEST_LOAD, 0);
}
