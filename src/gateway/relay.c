/*
 * From the dispatch on. Nothing of an answer is kept here: what one read of the
 * engine brought is written to the client at once, and while the client does
 * not take it the engine is not read.
 */
#include "gateway/exchange.h"

#include <assert.h>
#include <stdio.h>

#include "base/units.h"

enum { ERROR_BYTES_MAX = 64 * 1024 };
enum { KEPT_MIN = 2, KEPT_MAX = 64 };
enum { CAUSE_US = 250 * 1000 }; /* so long the cause of a broken answer is awaited */

/* ---- alarms ---- */

void relay_rearm(struct exchange *exchange)
{
	int64_t at_us = INT64_MAX;

	if (!exchange->client)
		return;
	if (!exchange->first_byte_at_us) {
		at_us = exchange->sign_at_us;
		if (exchange->deadline_us &&
		    exchange->arrived_at_us + exchange->deadline_us < at_us)
			at_us = exchange->arrived_at_us + exchange->deadline_us;
	}
	if (exchange->broke_at_us && exchange->broke_at_us + CAUSE_US < at_us)
		at_us = exchange->broke_at_us + CAUSE_US;
	if (exchange->size_until_us && exchange->size_until_us < at_us)
		at_us = exchange->size_until_us;
	int64_t stall_us = exchange_model(exchange)->stall_timeout_us;
	if (exchange->stalled && stall_us > 0 && exchange->stalled_at_us + stall_us < at_us)
		at_us = exchange->stalled_at_us + stall_us;
	if (at_us == INT64_MAX) {
		client_alarm(exchange->client, 0);
		return;
	}
	int64_t left_us = at_us - boot_now_us();
	client_alarm(exchange->client, left_us > 0 ? (uint64_t)(left_us / US_PER_MS) + 1 : 1);
}

static void begin_early(struct exchange *exchange)
{
	exchange->early = true;
	exchange->is_stream = true;
	exchange->status = 200;
	stream_reader_init(&exchange->reader, exchange->shape->stream);
	answer_begin(exchange->client, 200, stream_content_type(exchange->shape->stream),
	             ANSWER_UNKNOWN, NULL, 0);
}

static void give_sign(struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;
	struct buf sign = BUF_INIT;
	char text[320] = "";

	exchange->sign_at_us = boot_now_us() + SIGN_EVERY_US;
	if (!exchange->early)
		begin_early(exchange);
	else if (client_pending(exchange->client))
		return; /* it has not even taken the last one */
	host->progress(host->ctx, exchange->ticket, exchange->model, text, sizeof(text));
	stream_keep_alive(&sign, exchange->shape->stream,
	                  str_from(exchange->asked ? exchange->asked : ""), str_from(text));
	struct str part = buf_str(&sign);
	answer_write(exchange->client, &part, 1);
	buf_release(&sign);
}

void relay_alarm(struct exchange *exchange)
{
	int64_t now_us = boot_now_us();
	bool waits = !exchange->first_byte_at_us;

	if (waits && exchange->deadline_us &&
	    now_us >= exchange->arrived_at_us + exchange->deadline_us) {
		exchange_fail(exchange, FAIL_DEADLINE, NULL);
		return;
	}
	if (exchange->size_until_us && now_us >= exchange->size_until_us) {
		outgrow_asked_long_enough(exchange);
		return;
	}
	if (exchange->broke_at_us && now_us >= exchange->broke_at_us + CAUSE_US) {
		exchange_fail(exchange, FAIL_ENGINE_DIED, NULL);
		return;
	}
	int64_t stall_us = exchange_model(exchange)->stall_timeout_us;
	if (exchange->stalled && stall_us > 0 && now_us >= exchange->stalled_at_us + stall_us) {
		client_close(exchange->client); /* it is as good as gone */
		return;
	}
	if (waits && now_us >= exchange->sign_at_us)
		give_sign(exchange);
	relay_rearm(exchange);
}

/* ---- back-pressure ---- */

static void on_pause(void *ctx)
{
	struct exchange *exchange = ctx;

	if (!exchange->client)
		return;
	answer_flush(exchange->client);
	if (exchange->stalled || !client_pending(exchange->client))
		return;
	exchange->stalled = true;
	exchange->stalled_at_us = boot_now_us();
	upstream_pause(exchange->upstream);
	relay_rearm(exchange);
}

void relay_drained(struct exchange *exchange)
{
	if (!exchange->stalled)
		return;
	exchange->stalled = false;
	relay_rearm(exchange);
	upstream_resume(exchange->upstream);
}

/* ---- the answer's head ---- */

static void add_ms(struct head_field *field, char text[OWN_VALUE_BYTES], const char *name, int64_t us)
{
	char *end = str_put_u64(text, us > 0 ? (uint64_t)(us / US_PER_MS) : 0);
	*field = (struct head_field){ str_from(name), { text, (size_t)(end - text) } };
}

uint32_t relay_own_fields(const struct exchange *exchange, struct head_field fields[OWN_FIELDS_MAX],
                          char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES])
{
	const struct gateway_host *host = &exchange->gateway->host;
	bool dispatched = exchange->dispatched_at_us != 0;
	int64_t until_us = dispatched ? exchange->dispatched_at_us : boot_now_us();
	uint32_t count = 0;

	if (exchange->is_look || exchange->stage == STAGE_READING)
		return 0;
	add_ms(&fields[count], texts[count], "X-Cotenant-Wait-Ms", until_us - exchange->arrived_at_us);
	count++;
	if (host->load_us && dispatched) {
		add_ms(&fields[count], texts[count], "X-Cotenant-Load-Ms",
		       host->load_us(host->ctx, exchange->instance, exchange->arrived_at_us));
		count++;
	}
	if (exchange->decision) {
		const char *id = request_id(exchange->gateway, exchange->decision, texts[count]);
		fields[count++] = (struct head_field){ STR("X-Cotenant-Decision"), str_from(id) };
	}
	return count;
}

/* Where our own head went out before, our fields are one comment, in forms that have comments. */
static void write_own_fields(struct exchange *exchange)
{
	enum stream_form form = exchange->shape->stream;
	struct head_field fields[OWN_FIELDS_MAX];
	char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES];
	struct buf line = BUF_INIT, comment = BUF_INIT;

	if (form != STREAM_SSE && form != STREAM_ANTHROPIC)
		return;
	uint32_t count = relay_own_fields(exchange, fields, texts);
	for (uint32_t i = 0; i < count; i++)
		buf_printf(&line, "%s%.*s: %.*s", i ? ", " : "", STR_ARG(fields[i].name),
		           STR_ARG(fields[i].value));
	sse_comment(&comment, buf_str(&line));
	struct str part = buf_str(&comment);
	answer_write(exchange->client, &part, 1);
	buf_release(&line);
	buf_release(&comment);
}

static bool is_event_stream(const struct exchange *exchange, const struct message *head)
{
	if (head->status != 200 || exchange->shape->stream == STREAM_NONE)
		return false;
	struct str parameters;
	struct str type = str_trim(str_cut(message_header(head, "Content-Type"), ';', &parameters));
	return str_equal_nocase(type, str_from(stream_content_type(exchange->shape->stream)));
}

/* ---- another protocol ---- */

void relay_tunnel(struct exchange *exchange, struct str bytes)
{
	upstream_send(exchange->upstream, bytes);
	if (upstream_sends(exchange->upstream))
		client_hold(exchange->client, true);
}

static void on_sent(void *ctx)
{
	struct exchange *exchange = ctx;

	client_hold(exchange->client, false);
}

static void begin_tunnel(struct exchange *exchange)
{
	struct buf ahead;

	exchange->tunnel = true;
	answer_flush(exchange->client);
	client_tunnel(exchange->client, &ahead);
	relay_tunnel(exchange, buf_str(&ahead));
	buf_release(&ahead);
}

static void on_head(void *ctx, const struct message *head, enum body_kind kind, int64_t length)
{
	struct exchange *exchange = ctx;
	struct head_field fields[OWN_FIELDS_MAX];
	char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES];
	bool streams = is_event_stream(exchange, head);

	exchange->first_byte_at_us = boot_now_us();
	exchange->engine_status = head->status;
	if (outgrow_may_be(exchange, head->status, length))
		return;
	buf_release(&exchange->head); /* nothing is tried again from here on */
	exchange->engine_streams = streams;
	if (exchange->route.begins && head->status == 202)
		exchange->job = job_new(exchange, exchange->route.begins);
	if (exchange->early) {
		if (exchange->client && streams)
			write_own_fields(exchange);
		relay_rearm(exchange);
		return;
	}
	exchange->status = head->status;
	exchange->is_stream = streams;
	stream_reader_init(&exchange->reader, streams ? exchange->shape->stream : STREAM_NONE);
	if (!exchange->client)
		return;
	uint32_t count = relay_own_fields(exchange, fields, texts);
	answer_relay(exchange->client, head, kind, length, fields, count);
	if (kind == BODY_TUNNEL)
		begin_tunnel(exchange);
	relay_rearm(exchange);
}

/* ---- the answer's body ---- */

/* What came behind our own head and is no stream cannot go through as it is. */
static bool is_collected(const struct exchange *exchange)
{
	return exchange->early && !exchange->engine_streams;
}

static void collect(struct exchange *exchange, const struct str *parts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (buf_length(&exchange->error) + parts[i].length <= ERROR_BYTES_MAX)
			buf_append_str(&exchange->error, parts[i]);
}

static void on_body(void *ctx, const struct str *parts, uint32_t count)
{
	struct exchange *exchange = ctx;

	if (exchange->refused || exchange->tells_context || is_collected(exchange)) {
		collect(exchange, parts, count);
		return;
	}
	if (exchange->job)
		job_collect(exchange->job, parts, count);
	else if (exchange->route.shows && buf_length(&exchange->error) < JOB_SAID_BYTES)
		collect(exchange, parts, count);
	for (uint32_t i = 0; i < count; i++) {
		if (!exchange->tunnel)
			stream_reader_feed(&exchange->reader, parts[i]);
		exchange->bytes_out += (int64_t)parts[i].length;
	}
	if (exchange->client)
		answer_write(exchange->client, parts, count);
}

/* The answer is out and the work goes on: the client is done with, the exchange is not. */
static void go_on_alone(struct exchange *exchange)
{
	struct client *client = exchange->client;

	upstream_free(exchange->upstream);
	exchange->upstream = NULL;
	exchange->client = NULL;
	if (client)
		answer_end(client);
}

/* An answer that was read before anything went out. */
static void relay_held(struct exchange *exchange)
{
	struct head_field fields[OWN_FIELDS_MAX];
	char texts[OWN_FIELDS_MAX][OWN_VALUE_BYTES];
	struct str body = buf_str(&exchange->error);

	exchange->status = exchange->engine_status;
	exchange->bytes_out = (int64_t)body.length;
	if (exchange->client) {
		uint32_t count = relay_own_fields(exchange, fields, texts);
		answer_begin(exchange->client, exchange->status, "application/json", (int64_t)body.length, fields, count);
		answer_write(exchange->client, &body, 1);
	}
	exchange_end(exchange);
}

static void on_end(void *ctx)
{
	struct exchange *exchange = ctx;
	struct failure failure;

	if (exchange->refused && (outgrow_returns(exchange) || outgrow_refuses(exchange)))
		return;
	if (exchange->refused || exchange->tells_context) {
		outgrow_tell_largest(exchange);
		if (!exchange->early) {
			relay_held(exchange);
			return;
		}
	}
	if (exchange->job && job_begin(exchange->job)) {
		go_on_alone(exchange);
		return;
	}
	if (exchange->route.shows && exchange->engine_status == 200)
		job_looked_at(exchange->gateway, exchange->instance, exchange->engine_path, buf_str(&exchange->error));

	if (!is_collected(exchange)) {
		exchange_end(exchange);
		return;
	}
	failure_set(&failure, exchange->engine_status >= 400 ? exchange->engine_status : 502,
	            "engine_error", "the engine of model '%s' answered %d: %.400s",
	            exchange_model(exchange)->name, exchange->engine_status,
	            buf_cstr(&exchange->error));
	exchange_refuse(exchange, &failure);
}

/*
 * Most likely the engine ended, and its keeper is about to say how: the client is
 * to hear that, not what its end looked like from here.
 */
static void on_failed(void *ctx, const char *what)
{
	struct exchange *exchange = ctx;

	exchange->broke = what;
	if (exchange->is_look || exchange->tunnel || !exchange->client) {
		exchange_fail(exchange, FAIL_ENGINE_DIED, NULL);
		return;
	}
	upstream_free(exchange->upstream);
	exchange->upstream = NULL;
	exchange->stalled = false;
	exchange->broke_at_us = boot_now_us();
	relay_rearm(exchange);
}

/*
 * The engine went and nobody has told the arbiter yet. The request was not
 * touched: it goes back into the queue, once.
 */
static void on_unreachable(void *ctx)
{
	struct exchange *exchange = ctx;

	if (exchange->is_look || exchange->returned) {
		on_failed(exchange, "could not be reached");
		return;
	}
	upstream_free(exchange->upstream);
	exchange->upstream = NULL;
	exchange_return(exchange);
}

void relay_say_failure(struct exchange *exchange, const struct failure *failure)
{
	struct buf event = BUF_INIT;

	if (!exchange->is_stream || !answer_is_open(exchange->client))
		return;
	failure_event(&event, exchange->shape->api, exchange->shape->stream,
	              stream_reader_between_events(&exchange->reader), failure);
	struct str part = buf_str(&event);
	answer_write(exchange->client, &part, 1);
	buf_release(&event);
}

/* ---- the beginning ---- */

static const struct upstream_events upstream_events = {
	.on_head = on_head,
	.on_body = on_body,
	.on_pause = on_pause,
	.on_sent = on_sent,
	.on_end = on_end,
	.on_failed = on_failed,
	.on_unreachable = on_unreachable,
};

/* As many as it serves at once: so many threads it has anyway. */
static uint32_t connections_kept(const struct conf_model *model)
{
	int64_t slots = model->slots;
	return slots < KEPT_MIN ? KEPT_MIN : slots > KEPT_MAX ? KEPT_MAX : (uint32_t)slots;
}

bool relay_request(struct exchange *exchange, struct upstream_request *out)
{
	const struct gateway_host *host = &exchange->gateway->host;
	struct str head = buf_str(&exchange->head);

	head.length -= 2; /* the blank line: more fields follow */
	*out = (struct upstream_request){
		.instance = exchange->instance,
		.keep = connections_kept(exchange_model(exchange)),
		.method = exchange->method,
		.upgrade = exchange->upgrade,
		.head = head,
		.ahead = buf_str(&exchange->ahead),
		.body = &exchange->intake,
		.holds_body = exchange->may_outgrow,
	};
	if (exchange_model(exchange)->forward_auth)
		out->credentials = buf_str(&exchange->credentials);
	return host->endpoint(host->ctx, exchange->instance, &out->endpoint);
}

void relay_start(struct exchange *exchange)
{
	struct upstream_request request;

	assert(!exchange->upstream);
	exchange->stage = STAGE_RUNNING;
	outgrow_prepare(exchange);
	if (!relay_request(exchange, &request)) {
		on_unreachable(exchange);
		return;
	}
	if (exchange->unweighed) {
		if (!outgrow_weighs(exchange, &request))
			exchange_ask_again(exchange);
		return;
	}
	if (outgrow_asks(exchange, &request))
		return;
	allowance_cut(exchange, &request);
	exchange->upstream =
		upstream_start(exchange->gateway, &request, &upstream_events, exchange);
}
