/*
 * conclude() is the one place where an exchange ends: it tells the shell, gives
 * the ticket back and frees everything. What is left to say to the client is
 * said by the caller behind it, since that may begin the client's next request.
 */
#include "gateway/exchange.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "gateway/eject.h"
#include "http/url.h"

/* Of a prompt, and of a stream with its event around each token. */
enum { TOKEN_BYTES = 4, EVENT_BYTES = 256 };

/*
 * What its key has used. An engine tells at the end of an answer: who leaves before that had an answer all the
 * same, and it is reckoned by its bytes; else leaving just before the end would make every answer free.
 */
static int64_t tokens_used(const struct exchange *exchange, const struct exchange_end *end)
{
	int64_t told = end->tokens_in + end->tokens_out;

	if (told > 0 || end->fail != FAIL_CLIENT_GONE || !end->dispatched)
		return told;
	int64_t prompt = exchange->prompt.tokens;
	if (prompt < 0)
		prompt = exchange->prompt.bytes > 0 ? exchange->prompt.bytes / TOKEN_BYTES : 0;
	return prompt + end->bytes_out / EVENT_BYTES;
}

/* Its key has one less under way, and has used so many tokens. */
static void end_count(struct exchange *exchange, int64_t tokens)
{
	struct gateway *gateway = exchange->gateway;
	const struct conf_key *key = exchange->key;

	quota_return(&gateway->quotas, key);
	if (key->tokens_per_day == 0 || tokens == 0)
		return;
	struct quota_tokens used = quota_charge(&gateway->quotas, key, tokens, boot_now_us());
	if (gateway->host.on_tokens)
		gateway->host.on_tokens(gateway->host.ctx, quota_key(key->name), &used);
}

static void conclude(struct exchange *exchange, enum fail fail, int status)
{
	struct gateway *gateway = exchange->gateway;
	struct exchange_end end = {
		.ticket = exchange->ticket,
		.sequence = exchange->sequence,
		.model = exchange->model,
		.key = exchange->key,
		.path = exchange->path,
		.priority = exchange->priority,
		.side = exchange->side,
		.decision = exchange->decision,
		.fail = fail,
		.status = status,
		.dispatched = exchange->dispatched_at_us != 0,
		.arrived_at_us = exchange->arrived_at_us,
		.dispatched_at_us = exchange->dispatched_at_us,
		.first_byte_at_us = exchange->first_byte_at_us,
		.ended_at_us = boot_now_us(),
		.bytes_in = exchange->intake.length,
		.bytes_out = exchange->bytes_out,
		.prompt_bytes = exchange->prompt.bytes,
		.tokens_in = stream_reader_tokens_in(&exchange->reader),
		.tokens_out = stream_reader_tokens_out(&exchange->reader),
		.prefill_tokens = exchange->reader.prefill_tokens,
		.prefill_us = exchange->reader.prefill_us,
		.decode_us = exchange->reader.decode_us,
	};

	list_remove(&exchange->node);
	gateway->exchange_count--;
	upstream_free(exchange->upstream);
	job_free(exchange->job);
	outgrow_forget_excerpt(exchange);
	allowance_forget_cut(exchange);
	intake_clear(&exchange->intake);
	if (!exchange->is_look)
		gateway->host.on_end(gateway->host.ctx, &end);
	ticket_close(gateway->tickets, exchange->ticket);
	if (exchange->counted)
		end_count(exchange, tokens_used(exchange, &end));
	if (exchange->ejects && exchange->dispatched_at_us)
		eject_after(gateway, exchange->model, exchange->priority);
	buf_release(&exchange->head);
	buf_release(&exchange->credentials);
	buf_release(&exchange->error);
	buf_release(&exchange->ahead);
	free(exchange->boundary);
	free(exchange->path);
	free(exchange->asked);
	free(exchange);
}

void exchange_end(struct exchange *exchange)
{
	struct client *client = exchange->client;

	conclude(exchange, FAIL_NONE, exchange->status);
	if (client)
		answer_end(client);
}

void exchange_answer(struct exchange *exchange, const char *content_type, struct str body)
{
	struct client *client = exchange->client;

	conclude(exchange, FAIL_NONE, 200);
	if (client)
		answer_whole(client, 200, content_type, body, NULL, 0);
}

static void end_with(struct exchange *exchange, enum fail fail, const struct failure *failure)
{
	struct client *client = exchange->client;
	enum api api = exchange->shape->api;
	struct head_field fields[OWN_FIELDS_MAX];
	char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES];

	if (!client) {
		conclude(exchange, fail, exchange->status);
		return;
	}
	if (client->answer.begun) {
		relay_say_failure(exchange, failure);
		conclude(exchange, fail, exchange->status);
		answer_break(client);
		return;
	}
	uint32_t count = relay_own_fields(exchange, fields, texts);
	conclude(exchange, fail, failure->status);
	answer_failure_with(client, api, failure, fields, count);
}

void exchange_fail(struct exchange *exchange, enum fail fail, const struct action *action)
{
	const struct gateway_host *host = &exchange->gateway->host;
	const struct conf_model *model = exchange_model(exchange);
	struct failure failure;
	char why[400] = "";

	if (model && host->explain)
		host->explain(host->ctx, exchange->model, fail, why, sizeof(why));
	if (!*why && exchange->broke)
		snprintf(why, sizeof(why), "it %s", exchange->broke);
	failure_of(&failure, fail, model ? model->name : NULL, action, why);
	end_with(exchange, fail, &failure);
}

void exchange_refuse_as(struct exchange *exchange, enum fail fail, const struct failure *failure)
{
	end_with(exchange, fail, failure);
}

void exchange_refuse(struct exchange *exchange, const struct failure *failure)
{
	end_with(exchange, FAIL_NONE, failure);
}

void exchange_abandon(struct exchange *exchange)
{
	const struct conf_model *model = exchange_model(exchange);
	bool runs = exchange->upstream && !exchange->is_look && exchange->dispatched_at_us;

	exchange->client = NULL;
	bool goes_on = runs && (model->on_disconnect_finish || exchange->route.begins);

	if (!goes_on || exchange->upgrade) {
		conclude(exchange, FAIL_CLIENT_GONE, exchange->status);
		return;
	}
	if (exchange->stalled)
		upstream_resume(exchange->upstream);
	exchange->stalled = false;
}

void exchange_drop(struct exchange *exchange)
{
	conclude(exchange, FAIL_DRAINING, exchange->status);
}

const struct conf_model *exchange_model(const struct exchange *exchange)
{
	return exchange->model == MODEL_NONE ? NULL : &exchange->conf->models[exchange->model];
}

/* ---- what the client's side tells ---- */

static void on_body(void *ctx)
{
	exchange_choose(ctx);
}

static void on_bad_body(void *ctx, const struct failure *failure)
{
	exchange_refuse(ctx, failure);
}

static void on_gone(void *ctx)
{
	exchange_abandon(ctx);
}

static void on_drained(void *ctx)
{
	relay_drained(ctx);
}

static void on_alarm(void *ctx)
{
	relay_alarm(ctx);
}

static void on_tunnel(void *ctx, struct str bytes)
{
	relay_tunnel(ctx, bytes);
}

static const struct exchange_ops ops = {
	.on_body = on_body,
	.on_bad_body = on_bad_body,
	.on_gone = on_gone,
	.on_drained = on_drained,
	.on_alarm = on_alarm,
	.on_tunnel = on_tunnel,
};

/* ---- the beginning ---- */

/* The part of the path that the engine serves: behind /upstream/{model}, else all of it. */
static void set_path(struct exchange *exchange, struct str path)
{
	exchange->path = xstrndup(path.data, path.length);
	exchange->engine_path = str_from(exchange->path);
	if (exchange->shape->api != API_UPSTREAM)
		return;
	exchange->engine_path = url_after_segments(exchange->engine_path, 2);
	if (exchange->engine_path.length == 0)
		exchange->engine_path = STR("/");
	exchange->shape = api_shape_of(exchange->method, exchange->engine_path);
}

static void write_head(struct exchange *exchange, const struct message *head)
{
	struct buf target = BUF_INIT;

	buf_append_str(&target, exchange->engine_path);
	if (head->query.length) {
		buf_append_char(&target, '?');
		buf_append_str(&target, head->query);
	}
	head_write_request(&exchange->head, head,
	                   &(struct request_head){ .target = buf_str(&target),
	                                           .length = LENGTH_NONE,
	                                           .keep_alive = true });
	buf_release(&target);
	for (size_t i = 0; i < exchange->conf->model_count; i++)
		if (exchange->conf->models[i].forward_auth && buf_length(&exchange->credentials) == 0)
			head_write_credentials(&exchange->credentials, head);
}

/* What names no model in a form that we know may be any bytes, unless it says that it is JSON. */
static bool is_read_as_json(const struct exchange *exchange, const struct reception *reception)
{
	if (exchange->shape->place == MODEL_IN_FORM)
		return reception->json;
	if (exchange->shape->place != MODEL_IN_JSON || reception->form)
		return false;
	return reception->json || (exchange->shape->api != API_OTHER && !exchange->asked);
}

void exchange_take(struct client *client, const struct reception *reception)
{
	struct gateway *gateway = client->gateway;
	struct exchange *exchange = xcalloc(1, sizeof(*exchange));
	const struct message *head = reception->head;

	exchange->gateway = gateway;
	exchange->client = client;
	exchange->conf = gateway->conf;
	exchange->model = MODEL_NONE;
	exchange->stage = STAGE_READING;
	exchange->ticket = ID_NONE;
	exchange->instance = ID_NONE;
	exchange->sequence = client->sequence;
	exchange->key = reception->who.key;
	exchange->role = reception->who.role;
	exchange->priority = PRIORITY_NORMAL;
	exchange->method = head->method;
	exchange->shape = reception->shape;
	exchange->foreign_page = reception->who.foreign_page;
	exchange->upgrade = head->upgrade;
	exchange->deadline_us = reception->deadline_us;
	exchange->priority_asked = reception->priority;
	exchange->weight_asked_milli = reception->weight_milli;
	exchange->sign_at_us = INT64_MAX;
	exchange->arrived_at_us = boot_now_us();
	exchange->asked = reception->model;
	set_path(exchange, head->path);
	write_head(exchange, head);
	intake_init(&exchange->intake, &gateway->bodies, body_kind_of_request(head),
	            head->content_length, is_read_as_json(exchange, reception));
	if (reception->form)
		exchange->boundary = xstrdup(reception->boundary);
	if (reception->form && (!exchange->asked || exchange->shape->place == MODEL_IN_FORM))
		intake_read_form(&exchange->intake, reception->boundary);
	list_append(&gateway->exchanges, &exchange->node);
	gateway->exchange_count++;
	client_serve(client, &ops, exchange, &exchange->intake);
}
