#include <stdlib.h>
#include <string.h>

#include "api/inside.h"
#include "base/alloc.h"

/*
 * A question to the history: it crosses to the store's thread and comes back.
 * The caller may leave in between; the row then only waits for its answer. Only
 * the loop's thread touches `call`; `json` changes hands with the post.
 */
struct query {
	struct list node;
	struct api *api;
	struct call *call; /* NULL: nobody waits */
	char kind[16];
	char model[96];
	char *json;        /* NULL: it failed */
};

static void forget(struct query *query)
{
	list_remove(&query->node);
	free(query->json);
	free(query);
}

/* A key of role use sees its own requests and its own models' rows. */
static bool may_see_row(const struct query *query, const json_t *row)
{
	const struct api *api = query->api;
	const char *model = json_string_value(json_object_get(row, "model"));
	const char *key = json_string_value(json_object_get(row, "key_name"));

	if (strcmp(query->kind, "requests") == 0 && !api_may_see_key(query->call, key))
		return false;
	int index = model ? conf_resolve(api->host.conf(api->host.ctx), str_from(model), NULL) : -1;
	return api_may_see(api, query->call, index < 0 ? MODEL_NONE : (uint32_t)index);
}

/* Who had to go for whom is told with names; a key that is bound to some models reads none of others. */
static void hide_other(const struct query *query, json_t *row)
{
	const struct api *api = query->api;
	const char *other = json_string_value(json_object_get(row, "for_model"));
	int index = other ? conf_resolve(api->host.conf(api->host.ctx), str_from(other), NULL) : -1;

	if (!other || !*other || api_may_see(api, query->call, index < 0 ? MODEL_NONE : (uint32_t)index))
		return;
	json_object_set_new(row, "for_model", json_string("another model"));
	json_object_set_new(row, "text", json_null());
}

static json_t *visible_rows(const struct query *query)
{
	json_t *all = json_loads(query->json, 0, NULL), *rows = json_array(), *row;
	size_t i;

	json_array_foreach(all, i, row) {
		if (!may_see_row(query, row))
			continue;
		hide_other(query, row);
		json_array_append(rows, row);
	}
	json_decref(all);
	return rows;
}

static void answer(void *arg)
{
	struct query *query = arg;

	if (query->call) {
		call_on_gone(query->call, NULL, NULL);
		if (query->json)
			api_reply(query->call, 200,
			          json_pack("{s:o}", query->kind, visible_rows(query)));
		else
			call_error(query->call, 503, "history_failed", "the history could not be read",
			           "cotenant events");
	}
	forget(query);
}

/* On the store's thread. Where the loop is going away, queries_end() frees the row. */
static void on_rows(void *ctx, const char *json)
{
	struct query *query = ctx;

	query->json = json ? xstrdup(json) : NULL;
	if (query->api->host.post(query->api->host.ctx, answer, query))
		return;
	free(query->json);
	query->json = NULL;
}

static void on_caller_gone(void *ctx, struct call *call)
{
	struct query *query = ctx;

	(void)call;
	query->call = NULL;
}

/* A number of the query; false where it is there and is none. */
static bool number_parameter(const struct call *call, const char *name, int64_t *out)
{
	char text[24];
	uint64_t number;

	if (!call_parameter(call, name, text, sizeof(text)))
		return true;
	if (!str_to_u64(str_from(text), &number) || number > INT64_MAX)
		return false;
	*out = (int64_t)number;
	return true;
}

static bool is_kind(const char *kind)
{
	return strcmp(kind, "decisions") == 0 || strcmp(kind, "requests") == 0 ||
	       strcmp(kind, "observations") == 0;
}

/* The rows carry the model's own name, so an alias is looked up; of a model that is gone the name is as asked. */
static void own_name(const struct api *api, char *model, size_t model_bytes)
{
	const struct conf *conf = api->host.conf(api->host.ctx);
	int index = model[0] ? conf_resolve(conf, str_from(model), NULL) : -1;

	if (index >= 0)
		str_copy(model, model_bytes, str_from(conf->models[index].name));
}

void handle_history(struct api *api, struct call *call, const char *name)
{
	int64_t since_ms = 0, limit = 100;

	(void)name;
	if (!api->options.store) {
		call_error(call, 503, "no_history", "this daemon runs without history", "cotenant events");
		return;
	}
	struct query *query = xcalloc(1, sizeof(*query));
	query->api = api;
	list_init(&query->node);
	if (!call_parameter(call, "kind", query->kind, sizeof(query->kind)))
		str_copy(query->kind, sizeof(query->kind), STR("decisions"));
	call_parameter(call, "model", query->model, sizeof(query->model));
	if (!is_kind(query->kind) || !number_parameter(call, "since", &since_ms) ||
	    !number_parameter(call, "limit", &limit)) {
		free(query);
		call_error(call, 400, "bad_request",
		           "kind is decisions, requests or observations; since is a Unix time in "
		           "milliseconds; limit a number",
		           "cotenant history --help");
		return;
	}
	own_name(api, query->model, sizeof(query->model));
	list_append(&api->queries, &query->node);
	query->call = call;
	call_on_gone(call, on_caller_gone, query);
	struct store_query wanted = { .kind = query->kind,
		                      .model = query->model,
		                      .since_ms = since_ms,
		                      .limit = limit < 1 ? 1 : limit > 1000 ? 1000 : limit };
	if (!store_query(api->options.store, &wanted, on_rows, query)) {
		call_on_gone(call, NULL, NULL);
		call_error(call, 503, "history_busy", "the history is busy or broken", "cotenant history");
		forget(query);
	}
}

void queries_end(struct api *api)
{
	while (!list_is_empty(&api->queries)) {
		struct query *query = LIST_ENTRY(api->queries.next, struct query, node);
		if (query->call) {
			call_on_gone(query->call, NULL, NULL);
			call_error(query->call, 503, "draining", "the daemon goes down", NULL);
		}
		forget(query);
	}
}
