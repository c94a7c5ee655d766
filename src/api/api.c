#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "api/outcome.h"
#include "base/alloc.h"
#include "http/path_near.h"
#include "http/url.h"

/*
 * Every endpoint. "{}" is one segment of the path, decoded for the handler. A
 * key that is limited to its models still reads: the handlers leave out what it
 * may not see.
 */
struct route {
	const char *method;
	const char *path;
	enum conf_role role;
	api_handler *handle;
};

static const struct route routes[] = {
	{ "GET", "/", CONF_ROLE_USE, handle_root },
	{ "GET", "/healthz", CONF_ROLE_USE, handle_health },
	{ "GET", "/metrics", CONF_ROLE_USE, handle_metrics },
	{ "GET", "/v1/models", CONF_ROLE_USE, handle_openai_models },
	{ "GET", "/v1/models/{}", CONF_ROLE_USE, handle_openai_model },
	{ "GET", "/models", CONF_ROLE_USE, handle_openai_models },
	{ "POST", "/models/load", CONF_ROLE_ADMIN, handle_load_named },
	{ "POST", "/models/unload", CONF_ROLE_USE, handle_eject_named },
	{ "GET", "/unload", CONF_ROLE_USE, handle_eject_all },
	{ "POST", "/unload", CONF_ROLE_USE, handle_eject_all },
	{ "POST", "/api/models/unload", CONF_ROLE_USE, handle_eject_all },
	{ "POST", "/api/models/unload/{}", CONF_ROLE_USE, handle_eject },
	{ "GET", "/api/version", CONF_ROLE_USE, handle_ollama_version },
	{ "GET", "/api/tags", CONF_ROLE_USE, handle_ollama_tags },
	{ "GET", "/api/ps", CONF_ROLE_USE, handle_ollama_ps },
	{ "POST", "/api/show", CONF_ROLE_USE, handle_ollama_show },
	{ "GET", "/api/v1/models", CONF_ROLE_USE, handle_models },
	{ "GET", "/api/v1/models/{}", CONF_ROLE_USE, handle_model },
	{ "POST", "/api/v1/models/{}/load", CONF_ROLE_ADMIN, handle_load },
	{ "POST", "/api/v1/models/{}/unload", CONF_ROLE_ADMIN, handle_unload },
	{ "POST", "/api/v1/models/{}/stop", CONF_ROLE_ADMIN, handle_stop },
	{ "POST", "/api/v1/models/{}/pin", CONF_ROLE_ADMIN, handle_pin },
	{ "POST", "/api/v1/models/{}/unpin", CONF_ROLE_ADMIN, handle_unpin },
	{ "GET", "/api/v1/models/{}/logs", CONF_ROLE_USE, handle_logs },
	{ "GET", "/api/v1/memory", CONF_ROLE_USE, handle_memory },
	{ "GET", "/api/v1/calibration", CONF_ROLE_USE, handle_calibration },
	{ "GET", "/api/v1/plan", CONF_ROLE_USE, handle_plan },
	{ "POST", "/api/v1/plan", CONF_ROLE_USE, handle_plan },
	{ "GET", "/api/v1/why/{}", CONF_ROLE_USE, handle_why },
	{ "GET", "/api/v1/decisions", CONF_ROLE_USE, handle_decisions },
	{ "GET", "/api/v1/conversations", CONF_ROLE_USE, handle_conversations },
	{ "GET", "/api/v1/requests", CONF_ROLE_USE, handle_requests },
	{ "GET", "/api/v1/requests/{}", CONF_ROLE_USE, handle_request },
	{ "DELETE", "/api/v1/requests/{}", CONF_ROLE_ADMIN, handle_cancel },
	{ "GET", "/api/v1/events", CONF_ROLE_USE, handle_events },
	{ "GET", "/api/v1/history", CONF_ROLE_USE, handle_history },
	{ "GET", "/api/v1/config", CONF_ROLE_ADMIN, handle_config },
	{ "POST", "/api/v1/config/reload", CONF_ROLE_ADMIN, handle_reload },
	{ "POST", "/api/v1/memory/compact", CONF_ROLE_ADMIN, handle_compact },
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))
enum { NAME_BYTES = 300 };

/* Whether the path is the route's; its "{}" goes to `name`, still encoded. */
static bool path_matches(const char *pattern, struct str path, struct str *name)
{
	const char *hole = strstr(pattern, "{}");

	if (!hole)
		return str_is(path, pattern);
	size_t before = (size_t)(hole - pattern), after = strlen(hole + 2);
	if (path.length <= before + after || memcmp(path.data, pattern, before) != 0 ||
	    !str_ends(path, hole + 2))
		return false;
	*name = (struct str){ path.data + before, path.length - before - after };
	return !memchr(name->data, '/', name->length);
}

/* A state-changing call's body must be JSON: a form that a web page sends across origins cannot be. */
static bool body_is_json(const struct call *call)
{
	struct str rest, type = str_trim(str_cut(call_header(call, "content-type"), ';', &rest));

	return call_body(call).length == 0 || str_equal_nocase(type, STR("application/json"));
}

static void run_route(struct api *api, struct call *call, const struct route *route, struct str name)
{
	char decoded[NAME_BYTES];

	if (route->role == CONF_ROLE_ADMIN && call_role(call) != CONF_ROLE_ADMIN) {
		call_error(call, 403, "admin_needed",
		           "this needs role admin: the control socket, or a key of that role", NULL);
		return;
	}
	if (!str_is(call_method(call), "GET") && !body_is_json(call)) {
		call_error(call, 415, "unsupported_media_type", "the body must be application/json", NULL);
		return;
	}
	if (!url_decode(name, decoded, sizeof(decoded))) {
		call_error(call, 400, "bad_request", "the path is not well percent-encoded", NULL);
		return;
	}
	route->handle(api, call, decoded);
}

static void no_endpoint(struct call *call, struct str path)
{
	const char *near = NULL;
	char message[400];

	for (size_t i = 0; i < ROUTES; i++)
		near = path_nearer(path, near, routes[i].path);
	near = path_near(path, near);
	bool is_page = str_is(path, "/ui") || str_starts(path, "/ui/");
	snprintf(message, sizeof(message), "there is no endpoint '%.*s'%s%s%s",
	         (int)(path.length < 200 ? path.length : 200), path.data,
	         is_page ? ": the web page is not built yet; `cotenant top` shows the same in a terminal"
	         : near  ? "; did you mean "
	                 : "; GET / tells what there is",
	         !is_page && near ? near : "", !is_page && near ? "?" : "");
	call_error(call, 404, "not_found", message, is_page ? "cotenant top" : NULL);
}

void api_handle(struct api *api, struct call *call)
{
	struct str path = call_path(call), method = call_method(call), name = { NULL, 0 };
	char methods[64] = "";

	/* HEAD is GET whose body the gateway leaves out. */
	if (str_is(method, "HEAD"))
		method = STR("GET");
	for (size_t i = 0; i < ROUTES; i++) {
		if (!path_matches(routes[i].path, path, &name))
			continue;
		if (str_is(method, routes[i].method)) {
			run_route(api, call, &routes[i], name);
			return;
		}
		size_t length = strlen(methods);
		snprintf(methods + length, sizeof(methods) - length, "%s%s", length ? ", " : "",
		         routes[i].method);
	}
	if (methods[0])
		call_methods(call, methods);
	else
		no_endpoint(call, path);
}

/* ---- life ---- */

static const char *model_name(void *ctx, uint32_t model)
{
	const struct api *api = ctx;

	return arbiter_name(api->host.arbiter(api->host.ctx), model);
}

struct api *api_new(const struct api_options *options, const struct api_host *host)
{
	struct api *api = xcalloc(1, sizeof(*api));

	api->options = *options;
	api->host = *host;
	api->names = (struct names){ api, model_name };
	list_init(&api->followers);
	list_init(&api->log_followers);
	list_init(&api->commands);
	list_init(&api->sweeps);
	list_init(&api->queries);
	list_init(&api->waiting);
	past_init(&api->past);
	metrics_init(&api->metrics, (uint32_t)host->conf(host->ctx)->limit_models);
	return api;
}

void api_free(struct api *api)
{
	if (!api)
		return;
	events_end(api);
	logs_end(api);
	commands_end(api);
	sweeps_end(api);
	queries_end(api);
	callers_end(api);
	past_release(&api->past);
	metrics_release(&api->metrics);
	free(api);
}

/* ---- what happened ---- */

void api_on_decision(struct api *api, const struct decision *decision)
{
	past_add_decision(&api->past, decision);
	keep_decision(api, decision);
	if (decision->cause)
		api->metrics.endings[decision->cause]++;
	if (decision->kind == DECISION_READY)
		histogram_add(&api->metrics.load, decision->load_us);
	events_publish(api, decision);
}

void api_decision_text(const struct api *api, const struct decision *decision, struct buf *out)
{
	decision_text(decision, &api->names, out);
}

/* A stream's tokens come after its first byte, those of a whole answer all before. */
static void count_speed(struct api *api, const struct exchange_end *end)
{
	int64_t streamed_us = end->ended_at_us - end->first_byte_at_us;
	int64_t whole_us = end->ended_at_us - end->dispatched_at_us;

	if (end->fail || !end->first_byte_at_us || !end->dispatched_at_us)
		return;
	metrics_speed(&api->metrics, end->model, end->tokens_out,
	              streamed_us > whole_us / 10 ? streamed_us : whole_us);
}

/* A target that a set has for its first byte; one that never came, or came late, missed it. */
static void count_begin(struct api *api, const struct exchange_end *end)
{
	const struct conf *conf = api->host.conf(api->host.ctx);
	const struct conf_set *set = end->model < conf->model_count
	                                     ? conf_set_of(conf, conf->models[end->model].name) : NULL;

	if (!set || !set->first_byte_us || end->fail == FAIL_CLIENT_GONE || end->fail == FAIL_CANCELLED)
		return;
	metrics_begun(&api->metrics, end->model,
	              end->first_byte_at_us ? end->first_byte_at_us - end->arrived_at_us : INT64_MAX,
	              set->first_byte_us);
}

void api_on_request_end(struct api *api, const struct exchange_end *end)
{
	if (id_is_none(end->ticket) && end->model == MODEL_NONE) {
		/* Refused before it named a model that there is: the gateway counts those, by status. */
		if (end->fail)
			metrics_count(&api->metrics, end->model, outcome_of(end));
		return;
	}
	keep_request(api, past_add_request(&api->past, end));
	metrics_count(&api->metrics, end->model, outcome_of(end));
	histogram_add(&api->metrics.duration, end->ended_at_us - end->arrived_at_us);
	count_speed(api, end);
	if (end->dispatched_at_us)
		histogram_add(&api->metrics.wait, end->dispatched_at_us - end->arrived_at_us);
	if (end->first_byte_at_us)
		histogram_add(&api->metrics.first_byte, end->first_byte_at_us - end->arrived_at_us);
	count_begin(api, end);
}

uint64_t api_decision_of(const struct api *api, uint64_t request)
{
	const struct decision *decision;

	for (uint64_t i = 0; (decision = past_decision(&api->past, i)); i++)
		if (decision->request == request)
			return decision->sequence;
	return 0;
}

void api_on_step(struct api *api, int64_t us)
{
	histogram_add(&api->metrics.step, us);
}

const char *api_id(const struct api *api, char out[API_ID_BYTES], uint64_t sequence)
{
	return str_put_numbered(out, API_ID_BYTES, api->options.boot_id, sequence);
}
