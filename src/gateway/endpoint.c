/*
 * A door that leads nowhere is told apart from a model that does not exist: who
 * mistyped a path, or took the path of another kind of model, named the right
 * model and is helped by other words.
 */
#include <string.h>

#include "base/alloc.h"
#include "engine/adapter.h"
#include "gateway/exchange.h"
#include "http/path_near.h"

enum { LIST_BYTES = 200, PATH_SHOWN = 160 };

static struct str shown_path(const struct exchange *exchange)
{
	struct str path = exchange->engine_path;

	path.length = path.length < PATH_SHOWN ? path.length : PATH_SHOWN;
	return path;
}

static bool may_name(const struct exchange *exchange, size_t model)
{
	return !exchange->conf->models[model].absent &&
	       who_may_use(exchange->conf, exchange->key, (uint32_t)model);
}

static struct route_row route_at(const struct exchange *exchange, size_t model)
{
	return route_find(&exchange->conf->models[model], str_from(method_text(exchange->method)),
	                  exchange->engine_path);
}

/* What the model would have to make for this request, and cannot. */
static uint32_t lacking(const struct exchange *exchange, size_t model, struct route_row row)
{
	const struct gateway_host *host = &exchange->gateway->host;

	return row.makes && host->lacks ? row.makes & host->lacks(host->ctx, (uint32_t)model) : 0;
}

/* Models whose engines are known to do it. */
static void list_who_does(const struct exchange *exchange, struct buf *out)
{
	const struct conf *conf = exchange->conf;

	for (size_t i = 0; i < conf->model_count && buf_length(out) < LIST_BYTES; i++) {
		struct route_row row = route_at(exchange, i);
		if (may_name(exchange, i) && row.route == ROUTE_WORK && !row.unknown && !lacking(exchange, i, row))
			buf_printf(out, "%s%s", buf_length(out) ? ", " : "", conf->models[i].name);
	}
}

/* Could this path, without a model's name, be meant for some model? */
static bool anybody_knows(const struct exchange *exchange)
{
	for (size_t i = 0; i < exchange->conf->model_count; i++)
		if (may_name(exchange, i) && !route_at(exchange, i).unknown)
			return true;
	return false;
}

static void refuse_method(struct exchange *exchange, const char *allowed)
{
	struct failure failure;

	failure_of_method(&failure, exchange->engine_path, allowed, str_from(method_text(exchange->method)));
	exchange_refuse(exchange, &failure);
}

static void refuse_path(struct exchange *exchange)
{
	const struct conf_model *model = exchange_model(exchange);
	const char *near = path_near(exchange->engine_path, NULL);
	struct buf text = BUF_INIT;
	struct failure failure;

	buf_printf(&text, "there is no endpoint %s %.*s", method_text(exchange->method),
	           STR_ARG(shown_path(exchange)));
	if (near)
		buf_printf(&text, "; did you mean %s?", near);
	else if (model)
		buf_printf(&text, "; if the engine of model '%s' has it, name it in the model's `routes`", model->name);
	else
		buf_append_str(&text, STR("; GET / tells what there is, and what is an engine's own is at /upstream/MODEL"));
	failure_set(&failure, 404, "not_found", "%s", buf_cstr(&text));
	buf_release(&text);
	exchange_refuse(exchange, &failure);
}

/* What the model is, and what can be asked of it. */
static void describe_kind(const struct exchange *exchange, uint32_t lacks, struct buf *out)
{
	const struct adapter *adapter = adapter_of(exchange_model(exchange));

	if (lacks & MAKES_TEXT)
		buf_append_str(out, STR("it makes embeddings, and takes POST /v1/embeddings and /v1/rerank"));
	else if (lacks & MAKES_SPEECH_TEXT)
		buf_printf(out, "it has no `mmproj` to hear with, and takes %s", adapter->takes);
	else if (lacks & MAKES_VECTORS)
		buf_printf(out, "it runs in %s without --embeddings in its `args`, which takes %s", adapter->name,
		           adapter->takes);
	else
		buf_printf(out, "it runs in %s, which takes %s", adapter->name, adapter->takes);
}

/* The right door of another kind of model. */
static void refuse_kind(struct exchange *exchange, uint32_t lacks)
{
	const struct conf_model *model = exchange_model(exchange);
	struct failure failure;
	struct buf others = BUF_INIT, kind = BUF_INIT;

	list_who_does(exchange, &others);
	bool any = buf_length(&others) > 0;
	describe_kind(exchange, lacks, &kind);
	failure_set(&failure, 400, "wrong_endpoint", "model '%s' does not answer %s %.*s: %s; %s%s", model->name,
	            method_text(exchange->method), STR_ARG(shown_path(exchange)), buf_cstr(&kind), any ? "models that answer it: " : "no model here is known to answer it",
	            any ? buf_cstr(&others) : "");
	failure.param = "model";
	buf_release(&others);
	buf_release(&kind);
	exchange_refuse(exchange, &failure);
}

bool exchange_suits(struct exchange *exchange)
{
	uint32_t lacks = lacking(exchange, exchange->model, exchange->route);

	if (lacks)
		refuse_kind(exchange, lacks);
	return !lacks;
}

uint32_t endpoint_methods(const struct conf *conf, const struct conf_key *key, struct str path)
{
	uint32_t methods = 0;

	for (size_t i = 0; i < conf->model_count; i++)
		if (!conf->models[i].absent && who_may_use(conf, key, (uint32_t)i))
			methods |= route_methods(&conf->models[i], path);
	return methods;
}

/* Where it names no model: the method that it should have come by, as far as any engine knows the path. */
static const char *other_methods(const struct exchange *exchange, char out[ROUTE_METHODS_TEXT])
{
	if (exchange->shape->method)
		return exchange->shape->method;
	return anybody_knows(exchange)
	               ? NULL
	               : route_methods_text(out, endpoint_methods(exchange->conf, exchange->key,
	                                                          exchange->engine_path));
}

bool exchange_knows_path(struct exchange *exchange)
{
	bool is_other = exchange->shape->api == API_OTHER;
	char text[ROUTE_METHODS_TEXT];
	const char *methods = exchange->upgrade ? NULL : other_methods(exchange, text);

	if (methods && *methods) {
		refuse_method(exchange, methods);
		return false;
	}
	if (!is_other || (!path_near(exchange->engine_path, NULL) && anybody_knows(exchange)))
		return true;
	refuse_path(exchange);
	return false;
}

void exchange_refuse_endpoint(struct exchange *exchange)
{
	struct str method = str_from(method_text(exchange->method));
	char allowed[ROUTE_METHODS_TEXT];

	uint32_t methods = route_methods(exchange_model(exchange), exchange->engine_path);
	if (methods)
		refuse_method(exchange, route_methods_text(allowed, methods));
	else if (exchange->shape->api != API_OTHER || route_is_work_somewhere(method, exchange->engine_path))
		refuse_kind(exchange, 0);
	else
		refuse_path(exchange);
}
