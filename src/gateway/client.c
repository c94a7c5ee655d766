/*
 * Bytes are read by pump(), in order, as far as the state allows; it is the one
 * loop here, so requests that were sent ahead are served one after the other
 * without recursion. Everything that enters a client counts in `depth`, and a
 * closed client is freed when the last of them has left.
 */
#include "gateway/client.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/units.h"
#include "gateway/answer.h"
#include "gateway/reception.h"

enum {
	AHEAD_BYTES_MAX = 16 * 1024,
	IDLE_MS = 75 * 1000,
	HEAD_MS = 30 * 1000,  /* for a whole head */
	BODY_MS = 60 * 1000,  /* without a byte of it */
};

static void pump(struct client *client, struct str *in);
static void pump_kept(struct client *client);

static void free_client(struct client *client)
{
	buf_release(&client->in);
	buf_release(&client->held);
	free(client->answer.allow_origin);
	free(client);
}

static void enter(struct client *client)
{
	client->depth++;
}

static void leave(struct client *client)
{
	if (client->depth == 1 && client->state == CLIENT_HEAD && client->fresh)
		pump_kept(client);
	if (--client->depth == 0 && client->state == CLIENT_CLOSED)
		free_client(client);
}

static void set_unread(struct client *client, bool unread)
{
	if (client->unread == unread)
		return;
	client->unread = unread;
	if (unread) {
		client->gateway->unread++;
		gateway_watch(client->gateway);
		stream_pause(client->stream);
	} else {
		client->gateway->unread--;
		stream_resume(client->stream);
	}
}

/* What is in `in` is read again, and more if there is room. */
static void pump_kept(struct client *client)
{
	struct str in = buf_str(&client->in);
	size_t before = in.length;

	if (before == 0)
		return;
	pump(client, &in);
	if (client->state == CLIENT_CLOSED)
		return;
	buf_consume(&client->in, before - in.length);
	if (buf_length(&client->in) == 0)
		buf_release(&client->in);
	if (buf_length(&client->in) < AHEAD_BYTES_MAX)
		set_unread(client, false);
}

/* ---- the end ---- */

static void let_go(struct client *client)
{
	struct gateway *gateway = client->gateway;

	if (client->unread)
		gateway->unread--;
	client->unread = false;
	client->stream = NULL;
	client->state = CLIENT_CLOSED;
	list_remove(&client->node);
	gateway->client_count--;
	if (gateway->full && gateway->client_count < gateway->client_max) {
		gateway->full = false;
		for (uint32_t i = 0; i < gateway->listener_count; i++)
			listener_resume(gateway->listeners[i]);
	}
}

void client_close(struct client *client)
{
	if (client->state == CLIENT_CLOSED)
		return;
	enter(client);
	const struct exchange_ops *ops = client->ops;
	client->ops = NULL;
	stream_close(client->stream);
	let_go(client);
	if (ops)
		ops->on_gone(client->exchange);
	leave(client);
}

void client_part(struct client *client, bool cut)
{
	enter(client);
	client->ops = NULL;
	if (cut)
		stream_cut(client->stream);
	else
		stream_finish(client->stream);
	let_go(client);
	leave(client);
}

void client_drain(struct client *client)
{
	if (client->state == CLIENT_HEAD && buf_length(&client->in) == 0 &&
	    !stream_pending(client->stream))
		client_close(client);
}

void client_next(struct client *client)
{
	if (client->gateway->draining) {
		client_part(client, false);
		return;
	}
	client->ops = NULL;
	client->exchange = NULL;
	client->intake = NULL;
	free(client->answer.allow_origin);
	client->answer = (struct answer){ 0 };
	client->state = CLIENT_HEAD;
	client->scanned = 0;
	client->fresh = true;
	stream_alarm(client->stream, IDLE_MS);
	enter(client);
	leave(client);
}

/* ---- reading ---- */

/* `head`: as far as it came. Who asks by HEAD takes whatever follows for the next answer. */
static void refuse_head(struct client *client, struct str head, enum head_fault fault)
{
	struct failure failure;

	client->gateway->counters.bad_heads++;
	client->sequence = client->gateway->host.sequence(client->gateway->host.ctx);
	client->answer.minor_version = 1;
	client->answer.keep_alive = false;
	client->answer.is_head = str_starts(head, "HEAD ");
	failure_set(&failure, head_fault_status(fault), "bad_request", "%s", head_fault_text(fault));
	answer_failure(client, API_OTHER, &failure);
}

static uint64_t now_ms(const struct client *client)
{
	return uv_now(client->gateway->reactor->loop);
}

static void take_head(struct client *client, struct str head)
{
	struct message message;
	enum head_kind kind = client->peer.unix_socket ? HEAD_REQUEST_UNIX : HEAD_REQUEST_TCP;
	enum head_fault fault = message_parse(&message, head, kind);

	if (fault != HEAD_OK) {
		refuse_head(client, head, fault);
		return;
	}
	client->answer.is_head = message.method == METHOD_HEAD;
	client->answer.keep_alive = message.keep_alive;
	client->answer.minor_version = (uint8_t)message.minor_version;
	client->gateway->counters.requests++;
	client->sequence = client->gateway->host.sequence(client->gateway->host.ctx);
	bool has_body = body_kind_of_request(&message) != BODY_NONE;
	client->state = has_body ? CLIENT_BODY : CLIENT_BUSY;
	int64_t within_us = client->gateway->conf->body_within_us;
	client->body_due_ms = within_us <= 0 ? 0 : now_ms(client) + (uint64_t)(within_us / US_PER_MS);
	stream_alarm_off(client->stream);
	reception_take(client, &message);
}

/* True where a head was taken: there may be more to do. */
static bool pump_head(struct client *client, struct str *in)
{
	enum head_kind kind = client->peer.unix_socket ? HEAD_REQUEST_UNIX : HEAD_REQUEST_TCP;

	client->fresh = false;
	if (in->length == 0 || stream_pending(client->stream))
		return false; /* the next answer waits until this one was taken */
	bool begins = client->scanned == 0;
	int64_t length = head_find(*in, kind, &client->scanned);
	if (length == 0) {
		if (begins)
			stream_alarm(client->stream, HEAD_MS);
		return false;
	}
	client->scanned = 0;
	if (length < 0) {
		struct str head = *in;
		*in = (struct str){ NULL, 0 };
		refuse_head(client, head, HEAD_TOO_LARGE);
		return false;
	}
	struct str head = { in->data, (size_t)length };
	in->data += length;
	in->length -= (size_t)length;
	take_head(client, head);
	return true;
}

/* Until the next byte is due, or the last. */
static uint64_t body_left_ms(const struct client *client)
{
	uint64_t now = now_ms(client);

	if (!client->body_due_ms || client->body_due_ms > now + BODY_MS)
		return BODY_MS;
	return client->body_due_ms > now ? client->body_due_ms - now : 1;
}

static bool pump_body(struct client *client, struct str *in)
{
	struct failure failure;
	size_t before = in->length;

	enum intake_step step = intake_feed(client->intake, in, &failure);
	client->gateway->counters.bytes_in += before - in->length;
	switch (step) {
	case INTAKE_MORE:
		stream_alarm(client->stream, body_left_ms(client));
		return false;
	case INTAKE_WAIT:
		stream_pause(client->stream);
		return false;
	case INTAKE_FAILED:
		client->ops->on_bad_body(client->exchange, &failure);
		return false;
	case INTAKE_DONE:
		break;
	}
	stream_alarm_off(client->stream);
	client->state = CLIENT_BUSY;
	client->ops->on_body(client->exchange);
	return true;
}

static void pump(struct client *client, struct str *in)
{
	bool more = true;

	while (more) {
		switch (client->state) {
		case CLIENT_HEAD:
			more = pump_head(client, in);
			break;
		case CLIENT_BODY:
			more = pump_body(client, in);
			break;
		case CLIENT_TUNNEL:
			client->gateway->counters.bytes_in += in->length;
			client->ops->on_tunnel(client->exchange, *in);
			*in = (struct str){ in->data + in->length, 0 };
			more = false;
			break;
		case CLIENT_BUSY:
		case CLIENT_CLOSED:
			more = false;
			break;
		}
	}
}

/* The file took what it was given: the body goes on. */
static void on_intake_writable(void *ctx)
{
	struct client *client = ctx;

	enter(client);
	stream_resume(client->stream);
	struct str in = buf_str(&client->in);
	size_t before = in.length;
	pump(client, &in);
	if (client->state != CLIENT_CLOSED)
		buf_consume(&client->in, before - in.length);
	leave(client);
}

void client_serve(struct client *client, const struct exchange_ops *ops, void *exchange,
                  struct intake *intake)
{
	assert(!client->ops);
	client->ops = ops;
	client->exchange = exchange;
	client->intake = intake;
	intake_attend(intake, on_intake_writable, client);
	if (client->state == CLIENT_BUSY)
		ops->on_body(exchange);
}

/* ---- what the stream tells ---- */

static void on_read(void *ctx, struct str bytes)
{
	struct client *client = ctx;

	enter(client);
	if (buf_length(&client->in)) {
		buf_append_str(&client->in, bytes);
		pump_kept(client);
	} else {
		pump(client, &bytes);
		if (client->state != CLIENT_CLOSED)
			buf_append_str(&client->in, bytes);
	}
	bool waits = client->state == CLIENT_BUSY ||
	             (client->state == CLIENT_HEAD && stream_pending(client->stream));
	if (waits && buf_length(&client->in) >= AHEAD_BYTES_MAX)
		set_unread(client, true);
	leave(client);
}

static void on_left(void *ctx)
{
	client_close(ctx);
}

static void on_broken(void *ctx, int error)
{
	(void)error;
	client_close(ctx);
}

static void on_drained(void *ctx)
{
	struct client *client = ctx;

	enter(client);
	if (client->ops && (client->state == CLIENT_BUSY || client->state == CLIENT_TUNNEL))
		client->ops->on_drained(client->exchange);
	else if (client->state == CLIENT_HEAD)
		pump_kept(client);
	leave(client);
}

static void time_out(struct client *client, const char *text)
{
	struct failure failure;

	failure_set(&failure, 408, "request_timeout", "%s", text);
	if (client->ops) {
		client->ops->on_bad_body(client->exchange, &failure);
		return;
	}
	client->sequence = client->gateway->host.sequence(client->gateway->host.ctx);
	client->answer.minor_version = 1;
	answer_failure(client, API_OTHER, &failure);
}

static void on_alarm(void *ctx)
{
	struct client *client = ctx;

	enter(client);
	if (client->state == CLIENT_BUSY || client->state == CLIENT_TUNNEL)
		client->ops->on_alarm(client->exchange);
	else if (client->state == CLIENT_BODY)
		time_out(client, client->body_due_ms && now_ms(client) >= client->body_due_ms
		                         ? "the body did not come whole in time ('bodies: within' in cotenant.yaml)"
		                         : "the rest of the body did not come");
	else if (buf_length(&client->in))
		time_out(client, "the rest of the head did not come");
	else
		client_close(client);
	leave(client);
}

static const struct stream_events stream_events = {
	.on_read = on_read,
	.on_eof = on_left,
	.on_drained = on_drained,
	.on_alarm = on_alarm,
	.on_broken = on_broken,
};

void client_new(struct gateway *gateway, struct stream *stream, const struct peer *peer)
{
	struct client *client = xcalloc(1, sizeof(*client));

	client->gateway = gateway;
	client->stream = stream;
	client->peer = *peer;
	client->in_admin_group = peer->unix_socket && gateway->has_admin_group &&
	                         peer_in_group(stream, gateway->admin_group);
	list_append(&gateway->clients, &client->node);
	gateway->client_count++;
	gateway->counters.connections++;
	stream_attend(stream, &stream_events, client);
	stream_alarm(stream, IDLE_MS);
}

void client_alarm(struct client *client, uint64_t ms)
{
	if (ms)
		stream_alarm(client->stream, ms);
	else
		stream_alarm_off(client->stream);
}

size_t client_pending(const struct client *client)
{
	return stream_pending(client->stream);
}

void client_tunnel(struct client *client, struct buf *ahead)
{
	assert(client->state == CLIENT_BUSY);
	client->state = CLIENT_TUNNEL;
	*ahead = client->in;
	client->in = BUF_INIT;
	set_unread(client, false);
}

void client_hold(struct client *client, bool hold)
{
	set_unread(client, hold);
}
