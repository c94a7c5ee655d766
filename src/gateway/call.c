#include "gateway/call_take.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "http/url.h"

enum { HEADERS_MAX = 4 };

struct call {
	struct gateway *gateway;
	struct client *client;
	struct str head;          /* ours: the message points into it */
	struct message message;
	const struct api_shape *shape;
	struct who who;
	struct intake intake;
	char id[REQUEST_ID_BYTES];
	struct {
		char *name, *value;
	} headers[HEADERS_MAX];
	uint32_t header_count;
	void (*on_gone)(void *ctx, struct call *call);
	void *gone_ctx;
};

static void free_call(struct call *call)
{
	call->gateway->call_count--;
	intake_clear(&call->intake);
	for (uint32_t i = 0; i < call->header_count; i++) {
		free(call->headers[i].name);
		free(call->headers[i].value);
	}
	free((char *)(uintptr_t)call->head.data);
	free(call);
}

/* ---- what was asked ---- */

static struct str or_empty(struct str text)
{
	return text.data ? text : STR("");
}

struct str call_method(const struct call *call)
{
	return call->message.method_text;
}

struct str call_path(const struct call *call)
{
	return call->message.path;
}

struct str call_query(const struct call *call)
{
	return or_empty(call->message.query);
}

struct str call_header(const struct call *call, const char *name)
{
	return or_empty(message_header(&call->message, name));
}

struct str call_body(const struct call *call)
{
	return intake_slice(&call->intake, 0, SIZE_MAX);
}

enum conf_role call_role(const struct call *call)
{
	return call->who.role;
}

const struct conf_key *call_key(const struct call *call)
{
	return call->who.key;
}

enum call_from call_from(const struct call *call)
{
	return call->client->peer.unix_socket ? CALL_FROM_UNIX : CALL_FROM_TCP;
}

const char *call_id(const struct call *call)
{
	return call->id;
}

bool call_parameter(const struct call *call, const char *name, char *out, uint32_t out_bytes)
{
	return url_parameter(call->message.query, name, out, out_bytes);
}

/* ---- the answer ---- */

void call_answer_header(struct call *call, const char *name, const char *value)
{
	assert(call->header_count < HEADERS_MAX);
	call->headers[call->header_count].name = xstrdup(name);
	call->headers[call->header_count].value = xstrdup(value);
	call->header_count++;
}

static bool has_header(const struct call *call, const char *name)
{
	for (uint32_t i = 0; i < call->header_count; i++)
		if (strcmp(call->headers[i].name, name) == 0)
			return true;
	return false;
}

static void begin(struct call *call, int status, const char *content_type, int64_t length)
{
	struct head_field fields[HEADERS_MAX];

	for (uint32_t i = 0; i < call->header_count; i++)
		fields[i] = (struct head_field){ str_from(call->headers[i].name),
			                         str_from(call->headers[i].value) };
	answer_begin(call->client, status, content_type, length, fields, call->header_count);
}

void call_end(struct call *call)
{
	struct client *client = call->client;

	free_call(call);
	answer_end(client);
}

void call_reply(struct call *call, int status, const char *content_type, struct str body)
{
	begin(call, status, content_type, (int64_t)body.length);
	if (body.length)
		answer_write(call->client, &body, 1);
	call_end(call);
}

void call_error(struct call *call, int status, const char *code, const char *message,
                const char *help)
{
	struct buf text = BUF_INIT, body = BUF_INIT;

	if (status < 500 && !has_header(call, "Retry-After"))
		call_answer_header(call, "x-should-retry", "false");
	buf_printf(&text, "%s%s%s", message, help ? "; try: " : "", help ? help : "");
	api_error_body(&body, call->shape->api,
	               &(struct api_error){ .status = status, .code = code,
	                                    .message = buf_str(&text) });
	call_reply(call, status, "application/json", buf_str(&body));
	buf_release(&text);
	buf_release(&body);
}

void call_methods(struct call *call, const char *methods)
{
	struct client *client = call->client;
	enum api api = call->shape->api;
	struct failure failure;

	failure_of_method(&failure, call_path(call), methods, call_method(call));
	bool asks = str_is(call_method(call), "OPTIONS");
	struct head_field allow = { STR("Allow"), str_from(failure.allow) };
	free_call(call);
	if (asks)
		answer_whole(client, 204, NULL, STR(""), &allow, 1);
	else
		answer_failure(client, api, &failure);
}

void call_begin(struct call *call, int status, const char *content_type)
{
	begin(call, status, content_type, ANSWER_UNKNOWN);
	answer_flush(call->client);
}

void call_write(struct call *call, struct str bytes)
{
	if (bytes.length)
		answer_write(call->client, &bytes, 1);
}

uint64_t call_pending(const struct call *call)
{
	return client_pending(call->client);
}

void call_on_gone(struct call *call, void (*on_gone)(void *ctx, struct call *call), void *ctx)
{
	call->on_gone = on_gone;
	call->gone_ctx = ctx;
}

/* ---- what the client's side tells ---- */

static void on_body(void *ctx)
{
	struct call *call = ctx;
	call->gateway->host.on_call(call->gateway->host.ctx, call);
}

static void on_bad_body(void *ctx, const struct failure *failure)
{
	struct call *call = ctx;
	struct client *client = call->client;
	enum api api = call->shape->api;

	free_call(call);
	answer_failure(client, api, failure);
}

static void on_gone(void *ctx)
{
	struct call *call = ctx;

	if (call->on_gone)
		call->on_gone(call->gone_ctx, call);
	free_call(call);
}

static void on_nothing(void *ctx)
{
	(void)ctx; /* a call looks at call_pending() when it has something to write */
}

static const struct exchange_ops ops = {
	.on_body = on_body,
	.on_bad_body = on_bad_body,
	.on_gone = on_gone,
	.on_drained = on_nothing,
	.on_alarm = on_nothing,
};

void call_take(struct client *client, const struct reception *reception)
{
	struct gateway *gateway = client->gateway;
	struct call *call = xcalloc(1, sizeof(*call));
	struct str head = reception->head->head;
	enum head_kind kind = client->peer.unix_socket ? HEAD_REQUEST_UNIX : HEAD_REQUEST_TCP;

	call->gateway = gateway;
	call->client = client;
	call->shape = reception->shape;
	call->who = reception->who;
	request_id(gateway, client->sequence, call->id);
	call->head = (struct str){ xstrndup(head.data, head.length), head.length };
	enum head_fault fault = message_parse(&call->message, call->head, kind);
	assert(fault == HEAD_OK); /* the same bytes have just passed */
	intake_init(&call->intake, &gateway->call_bodies, body_kind_of_request(&call->message),
	            call->message.content_length, false);
	gateway->call_count++;
	client_serve(client, &ops, call, &call->intake);
}
