#include "gateway/reception.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/units.h"
#include "gateway/call_take.h"
#include "gateway/exchange.h"
#include "http/path_near.h"
#include "http/url.h"

enum { DEADLINE_MIN_MS = 1000, DEADLINE_MAX_MS = 24 * 3600 * 1000 };

static void refuse(struct client *client, enum api api, const struct failure *failure)
{
	answer_failure(client, api, failure);
}

static void refuse_who(struct client *client, enum api api, const struct who *who)
{
	struct failure failure;
	struct buf body = BUF_INIT;
	const struct head_field ask = { STR("WWW-Authenticate"),
		                        api == API_OWN ? STR("Basic realm=\"cotenant\"")
		                                       : STR("Bearer realm=\"cotenant\"") };

	failure_set(&failure, who->status, who->code, "%s", who->text);
	if (who->status != 401) {
		refuse(client, api, &failure);
		return;
	}
	failure_body(&body, api, &failure);
	answer_whole(client, 401, "application/json", buf_str(&body), &ask, 1);
	buf_release(&body);
}

static struct who_ask ask_of(const struct client *client, const struct message *head,
                             enum deed deed)
{
	return (struct who_ask){
		.deed = deed,
		.unix_socket = client->peer.unix_socket,
		.uid = client->peer.uid,
		.in_admin_group = client->in_admin_group,
		.loopback = client->peer.loopback,
		.fd = stream_fd(client->stream),
		.has_body = head->content_length > 0 || head->chunked,
		.host = head->host,
		.origin = message_header(head, "Origin"),
		.authorization = message_header(head, "Authorization"),
		.api_key = message_header(head, "X-Api-Key"),
		.content_type = message_header(head, "Content-Type"),
	};
}

static bool only_reads(enum method method)
{
	return method == METHOD_GET || method == METHOD_HEAD || method == METHOD_OPTIONS;
}

/* Ours, and the lists that name no model. */
static bool is_own(const struct api_shape *shape)
{
	return shape->place == MODEL_NOWHERE;
}

static enum deed deed_of(const struct message *head, const struct api_shape *shape)
{
	if (str_is(head->path, "/healthz"))
		return DEED_HEALTH;
	if (only_reads(head->method) && !head->upgrade)
		return DEED_LOOK;
	return is_own(shape) ? DEED_COMMAND : DEED_WORK;
}

static bool is_preflight(const struct message *head)
{
	return head->method == METHOD_OPTIONS && message_header(head, "Origin").data &&
	       message_header(head, "Access-Control-Request-Method").data;
}

static void answer_preflight(struct client *client, const struct message *head)
{
	struct who_ask ask = ask_of(client, head, DEED_WORK);
	struct str wanted = message_header(head, "Access-Control-Request-Headers");
	struct who who;
	struct head_field fields[3] = {
		{ STR("Access-Control-Allow-Methods"), STR("GET, HEAD, POST, PUT, PATCH, DELETE") },
		{ STR("Access-Control-Max-Age"), STR("600") },
		{ STR("Access-Control-Allow-Headers"), wanted },
	};

	if (!who_may_preflight(client->gateway->rules, &ask, &who)) {
		refuse_who(client, API_OTHER, &who);
		return;
	}
	client->answer.allow_origin = xstrndup(ask.origin.data, ask.origin.length);
	answer_whole(client, 204, NULL, STR(""), fields, wanted.length ? 3 : 2);
}

/* The methods of a path that is not ours, as text; "" where nobody here knows it. */
static const char *options_of(const struct conf *conf, const struct reception *reception, char out[ROUTE_METHODS_TEXT])
{
	struct str path = reception->head->path;
	const struct api_shape *shape = reception->shape;
	char name[BODY_MODEL_MAX + 1];
	int model;

	if (shape->method)
		return shape->method;
	if (shape->api == API_OTHER && path_near(path, NULL))
		return "";
	if (shape->api != API_UPSTREAM)
		return route_methods_text(out, endpoint_methods(conf, reception->who.key, path));
	if (!url_decode(url_segment(path, shape->segment), name, sizeof(name)) ||
	    (model = conf_resolve(conf, str_from(name), NULL)) < 0 ||
	    !who_may_use(conf, reception->who.key, (uint32_t)model))
		return "";
	return route_methods_text(out, route_methods(&conf->models[model], url_after_segments(path, 2)));
}

/* Who asks what may be asked loads nothing. False: the request goes on, to be refused, or to an engine that knows. */
static bool answer_options(struct client *client, const struct reception *reception)
{
	bool is_all = str_is(reception->head->path, "*");
	char text[ROUTE_METHODS_TEXT], allow[ALLOW_TEXT];
	const char *methods = is_all ? "GET, POST, PUT, PATCH, DELETE"
	                             : options_of(client->gateway->conf, reception, text);

	if (!*methods)
		return false;
	struct head_field field = { STR("Allow"), str_from(allow_text(allow, methods)) };
	answer_whole(client, 204, NULL, STR(""), &field, 1);
	return true;
}

/* ---- what the head says about a model's request ---- */

static bool read_deadline(const struct message *head, struct reception *reception)
{
	struct str text = message_header(head, "X-Cotenant-Deadline");
	uint64_t ms;

	if (!text.data)
		return true;
	if (!str_to_u64(text, &ms) || ms < DEADLINE_MIN_MS || ms > DEADLINE_MAX_MS)
		return false;
	reception->deadline_us = (int64_t)ms * US_PER_MS;
	return true;
}

/* The last word of this request on its own class; the key bounds it later. */
static bool read_priority(const struct message *head, struct reception *reception)
{
	static const char *const names[PRIORITY_COUNT] = { "interactive", "normal", "background", "batch" };
	struct str text = message_header(head, "X-Cotenant-Priority");

	reception->priority = PRIORITY_COUNT;
	if (!text.data)
		return true;
	for (uint32_t i = 0; i < PRIORITY_COUNT; i++)
		if (str_is(text, names[i]))
			reception->priority = i;
	return reception->priority != PRIORITY_COUNT;
}

/* Digits, and behind a point at most three. */
static bool read_weight(const struct message *head, struct reception *reception)
{
	struct str fraction, whole = str_cut(message_header(head, "X-Cotenant-Weight"), '.', &fraction);
	uint64_t units = 0, thousandths = 0;

	if (!whole.data)
		return true;
	if (!str_to_u64(whole, &units) || units > CONF_WEIGHT_MAX_MILLI / 1000 ||
	    (fraction.data && (fraction.length > 3 || !str_to_u64(fraction, &thousandths))))
		return false;
	for (size_t digits = fraction.length; digits < 3; digits++)
		thousandths *= 10;
	uint64_t milli = units * 1000 + thousandths;
	reception->weight_milli = (uint32_t)milli;
	return milli >= CONF_WEIGHT_MIN_MILLI && milli <= CONF_WEIGHT_MAX_MILLI;
}

/* The model's name where the path or the query holds it. */
static char *name_in_head(const struct message *head, const struct api_shape *shape)
{
	char name[BODY_MODEL_MAX + 1];

	if (shape->place == MODEL_IN_PATH)
		return url_decode(url_segment(head->path, shape->segment), name, sizeof(name))
		               ? xstrdup(name) : NULL;
	bool may_be_in_query = shape->place != MODEL_IN_JSON || shape->model_optional;
	if (may_be_in_query && url_parameter(head->query, "model", name, sizeof(name)))
		return xstrdup(name);
	return NULL;
}

static bool is_json(const struct message *head)
{
	struct str parameters;
	struct str type = str_cut(message_header(head, "Content-Type"), ';', &parameters);

	return str_equal_nocase(str_trim(type), STR("application/json"));
}

/* The model's name cannot be read in what is compressed; where the path has it the engine may. */
static bool is_compressed(const struct message *head, const struct api_shape *shape)
{
	struct str encoding = message_header(head, "Content-Encoding");
	bool is_read = shape->place == MODEL_IN_JSON || shape->place == MODEL_IN_FORM;

	return is_read && encoding.length && !str_equal_nocase(str_trim(encoding), STR("identity"));
}

/* What can be refused before the body is read, and for an exchange alone. */
static bool is_acceptable(struct client *client, const struct message *head,
                          struct reception *reception)
{
	int64_t most = client->gateway->bodies.each_max;
	struct failure failure;
	char text[UNITS_TEXT];

	if (!read_deadline(head, reception))
		failure_set(&failure, 400, "bad_deadline",
		            "X-Cotenant-Deadline must be milliseconds, from 1000 to 86400000");
	else if (!read_priority(head, reception))
		failure_set(&failure, 400, "bad_priority",
		            "X-Cotenant-Priority must be interactive, normal, background or batch");
	else if (!read_weight(head, reception))
		failure_set(&failure, 400, "bad_weight",
		            "X-Cotenant-Weight must be a number from 0.001 to 1000, with at most three digits behind the point");
	else if (is_compressed(head, reception->shape))
		failure_set(&failure, 415, "unsupported_media_type",
		            "the body is compressed (Content-Encoding), and the model's name is read in it: send it as it is");
	else if (head->content_length > most)
		failure_set(&failure, 413, "body_too_large",
		            "the body is larger than %s ('bodies: each' in cotenant.yaml)",
		            units_size(text, most));
	else
		return true;
	refuse(client, reception->shape->api, &failure);
	return false;
}

static void let_body_come(struct client *client, const struct message *head)
{
	struct str go_on = HEAD_CONTINUE;

	if (head->expect_continue && client->state == CLIENT_BODY)
		stream_write(client->stream, &go_on, 1);
}

/* Did this very request come through us before, on its way to a server that sent it back? */
static bool came_back(const struct client *client, const struct message *head)
{
	char own[64];

	if (!message_header(head, "via").data)
		return false;
	snprintf(own, sizeof(own), VIA_FORM, client->gateway->boot_id);
	return message_header_has(head, "via", str_from(own));
}

void reception_take(struct client *client, const struct message *head)
{
	struct reception reception = { .head = head };
	const char *fault = head->method == METHOD_OPTIONS && str_is(head->path, "*")
	                            ? NULL : url_path_fault(head->path);
	struct failure failure;

	if (fault) {
		failure_set(&failure, 400, "bad_path", "the path is not acceptable: %s", fault);
		refuse(client, API_OTHER, &failure);
		return;
	}
	if (came_back(client, head)) {
		failure_set(&failure, 508, "loop",
		            "this request went through this daemon before: the `url` of a model leads back here");
		refuse(client, API_OTHER, &failure);
		return;
	}
	if (is_preflight(head)) {
		answer_preflight(client, head);
		return;
	}
	reception.shape = api_shape_of(head->method, head->path);
	struct who_ask ask = ask_of(client, head, deed_of(head, reception.shape));
	bool may = who_may(client->gateway->rules, &ask, &reception.who);
	struct str allowed = reception.who.allow_origin;
	if (allowed.length)
		client->answer.allow_origin = xstrndup(allowed.data, allowed.length);
	if (!may) {
		refuse_who(client, reception.shape->api, &reception.who);
		return;
	}
	if (head->method == METHOD_OPTIONS && !is_own(reception.shape) && answer_options(client, &reception))
		return;
	if (is_own(reception.shape)) {
		let_body_come(client, head);
		call_take(client, &reception);
		return;
	}
	if (!is_acceptable(client, head, &reception))
		return;
	reception.json = is_json(head);
	reception.form = body_kind_of_request(head) != BODY_NONE &&
	                 multipart_boundary(message_header(head, "Content-Type"), reception.boundary);
	reception.model = name_in_head(head, reception.shape);
	let_body_come(client, head);
	exchange_take(client, &reception);
}
