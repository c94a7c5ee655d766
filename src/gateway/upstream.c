#include "gateway/upstream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "http/body.h"

enum {
	SLICE_BYTES = 64 * 1024,
	FIRST_BYTES = 4 * 1024, /* until the connection is there: these are copied */
	TRIES_MAX = 2,
	BUSY_MS = 10,         /* a unix socket whose queue of connections is full */
	BUSY_TRIES_MAX = 500,
	STALE_MS = 1000,
	VERDICT_MS = 100,     /* so long may it take until it is known how an engine ended */
};

struct upstream {
	struct gateway *gateway;
	const struct upstream_events *events;
	void *ctx;
	struct endpoint endpoint;
	uint64_t server;      /* the instance, for the pool */
	uint32_t keep;
	enum method method;
	struct buf head;      /* as it is sent, with what stands before the body */
	struct intake *body;
	bool holds_body;
	struct stream *stream;
	uint64_t sent;        /* of the body */
	uint64_t fetch_at;    /* where the piece begins that is being fetched */
	uint8_t tries;
	uint16_t busy_tries;
	uint64_t sent_at_ms;  /* the head, on this connection */
	const char *broke;    /* what will be told when nobody knows better; NULL = nothing broke */
	bool head_sent;
	bool fetching;        /* a piece of the body is read from its file */
	bool kept;            /* the connection was used before */
	bool delivered;       /* the request reached an engine that lived */
	bool answered;        /* a byte came */
	bool headed;          /* the head of the answer was handed out */
	bool keep_alive;
	bool upgrade;
	bool tunnel;          /* a 101 came: what follows is the other protocol's */
	struct buf in;        /* of a head that is not complete */
	size_t scanned;
	struct body_decoder decoder;
};

static void connect_anew(struct upstream *upstream);
static void send_more(struct upstream *upstream);

static uint64_t server_of(struct id instance)
{
	return (uint64_t)instance.index << 32 | instance.generation;
}

static void fail(struct upstream *upstream, const char *what)
{
	upstream->events->on_failed(upstream->ctx, what);
}

/*
 * A connection that breaks is mostly the first that is heard of an engine's end.
 * Who waits for it reaps it at the same moment: why it ended is known in a few
 * milliseconds, and then the request is cancelled with that.
 */
static void fail_when_nobody_knows_better(struct upstream *upstream, const char *what)
{
	upstream->broke = what;
	stream_alarm(upstream->stream, VERDICT_MS);
}

/*
 * The connection ended. On one of its own the request was with the engine; on a
 * kept one that ended at once the engine had most likely left before.
 */
static void note_delivery(struct upstream *upstream)
{
	uint64_t lasted_ms = uv_now(upstream->gateway->reactor->loop) - upstream->sent_at_ms;

	if (stream_connected(upstream->stream) && (!upstream->kept || lasted_ms > STALE_MS))
		upstream->delivered = true;
}

static void fail_or_try_again(struct upstream *upstream, const char *what)
{
	note_delivery(upstream);
	if (upstream->answered || upstream->tries >= TRIES_MAX) {
		fail_when_nobody_knows_better(upstream, what);
		return;
	}
	stream_close(upstream->stream);
	connect_anew(upstream);
	send_more(upstream);
}

/* ---- sending ---- */

static bool is_sent(const struct upstream *upstream)
{
	return upstream->head_sent && upstream->sent == (uint64_t)upstream->body->length;
}

static void write_slice(struct upstream *upstream, struct str slice)
{
	struct str parts[2] = { buf_str(&upstream->head), slice };

	if (upstream->head_sent)
		stream_write(upstream->stream, parts + 1, 1);
	else
		stream_write(upstream->stream, parts, 2);
	upstream->head_sent = true;
	upstream->sent += slice.length;
}

static void on_fetched(void *ctx, int error, struct str bytes)
{
	struct upstream *upstream = ctx;

	upstream->fetching = false;
	if (error) {
		fail(upstream, "could not be sent the request, whose body cannot be read back");
		return;
	}
	if (upstream->fetch_at == upstream->sent) /* else a new try began */
		write_slice(upstream, bytes);
	send_more(upstream);
}

static void fetch_slice(struct upstream *upstream)
{
	upstream->fetching = true;
	upstream->fetch_at = upstream->sent;
	intake_fetch(upstream->body, upstream->sent, SLICE_BYTES, on_fetched, upstream);
}

/* As long as the engine keeps pace; on_drained goes on. */
static void send_more(struct upstream *upstream)
{
	while (!is_sent(upstream) && !upstream->fetching && !stream_pending(upstream->stream)) {
		if (intake_in_memory(upstream->body))
			write_slice(upstream, intake_slice(upstream->body, upstream->sent,
			                                   stream_connected(upstream->stream) ? SLICE_BYTES : FIRST_BYTES));
		else
			fetch_slice(upstream);
	}
	if (upstream->answered && !upstream->holds_body && is_sent(upstream))
		intake_clear(upstream->body);
}

void upstream_let_go(struct upstream *upstream)
{
	upstream->holds_body = false;
	send_more(upstream);
}

static void on_drained(void *ctx)
{
	struct upstream *upstream = ctx;

	if (upstream->tunnel)
		upstream->events->on_sent(upstream->ctx);
	else
		send_more(upstream);
}

/* ---- the answer ---- */

static void finish(struct upstream *upstream, bool reusable)
{
	if (reusable && is_sent(upstream) && !stream_pending(upstream->stream))
		pool_put(upstream->gateway->pool, upstream->server, upstream->stream, upstream->keep);
	else
		stream_close(upstream->stream);
	upstream->stream = NULL;
	upstream->events->on_end(upstream->ctx);
}

static void read_body(struct upstream *upstream, struct str in)
{
	struct str parts[UPSTREAM_PARTS_MAX];
	uint32_t count = 0;
	enum body_step step;

	while ((step = body_decode(&upstream->decoder, &in, &parts[count])) == BODY_DATA) {
		if (++count == UPSTREAM_PARTS_MAX) {
			upstream->events->on_body(upstream->ctx, parts, count);
			count = 0;
		}
	}
	if (count)
		upstream->events->on_body(upstream->ctx, parts, count);
	if (step == BODY_BROKEN)
		fail(upstream, "broke the framing of its answer");
	else if (step == BODY_END)
		finish(upstream, upstream->keep_alive && in.length == 0);
	else
		upstream->events->on_pause(upstream->ctx);
}

/* The head of the answer, or an interim one that is passed over. False: it cannot be read. */
static bool take_head(struct upstream *upstream, struct str head)
{
	struct message message;

	if (message_parse(&message, head, HEAD_RESPONSE) != HEAD_OK)
		return false;
	upstream->tunnel = message.status == 101;
	if (upstream->tunnel && !(upstream->upgrade && message.upgrade))
		return false; /* which nobody asked for */
	if (message.status < 200 && !upstream->tunnel)
		return true;
	enum body_kind kind = body_kind_of_response(&message, upstream->method);
	upstream->headed = true;
	upstream->keep_alive = message.keep_alive && kind != BODY_UNTIL_CLOSE && !upstream->tunnel;
	body_decoder_init(&upstream->decoder, kind, message.content_length);
	upstream->events->on_head(upstream->ctx, &message, kind, message.content_length);
	return true;
}

/* True where the head is complete; then `in` has moved on. */
static bool read_head(struct upstream *upstream, struct str *in, const char **fault)
{
	while (!upstream->headed) {
		int64_t length = head_find(*in, HEAD_RESPONSE, &upstream->scanned);
		if (length == 0)
			return false;
		upstream->scanned = 0;
		if (length < 0 || !take_head(upstream, (struct str){ in->data, (size_t)length })) {
			*fault = "answered with a head that cannot be read";
			return false;
		}
		in->data += length;
		in->length -= (size_t)length;
	}
	return true;
}

static void on_read(void *ctx, struct str bytes)
{
	struct upstream *upstream = ctx;
	const char *fault = NULL;

	if (!upstream->answered) {
		upstream->answered = true;
		send_more(upstream); /* gives the body back */
	}
	if (upstream->headed) {
		read_body(upstream, bytes);
		return;
	}
	struct buf kept = upstream->in;
	upstream->in = BUF_INIT;
	if (buf_length(&kept)) {
		buf_append_str(&kept, bytes);
		bytes = buf_str(&kept);
	}
	bool headed = read_head(upstream, &bytes, &fault);
	if (headed)
		read_body(upstream, bytes);
	else if (fault)
		fail(upstream, fault);
	else
		buf_append_str(&upstream->in, bytes);
	buf_release(&kept);
}

static void on_eof(void *ctx)
{
	struct upstream *upstream = ctx;

	if (upstream->headed && body_decoder_may_close(&upstream->decoder))
		finish(upstream, false);
	else if (upstream->headed)
		fail_when_nobody_knows_better(upstream, "broke off its answer");
	else
		fail_or_try_again(upstream, "closed the connection without an answer");
}

static bool is_nobody_there(const struct upstream *upstream, int error)
{
	bool refused = error == -ECONNREFUSED || error == -ENOENT || error == -EHOSTUNREACH ||
	               error == -ENETUNREACH || error == -ETIMEDOUT;

	return !stream_connected(upstream->stream) && refused;
}

static void on_broken(void *ctx, int error)
{
	struct upstream *upstream = ctx;
	bool full = error == -EAGAIN && !stream_connected(upstream->stream);

	if (full && upstream->busy_tries++ < BUSY_TRIES_MAX)
		stream_alarm(upstream->stream, BUSY_MS);
	else if (is_nobody_there(upstream, error) && !upstream->delivered)
		upstream->events->on_unreachable(upstream->ctx);
	else if (upstream->headed)
		fail_when_nobody_knows_better(upstream, "broke off its answer");
	else
		fail_or_try_again(upstream, stream_connected(upstream->stream)
		                                    ? "closed the connection without an answer"
		                                    : "could not be reached");
}

static void on_alarm(void *ctx)
{
	struct upstream *upstream = ctx;

	if (upstream->broke) {
		fail(upstream, upstream->broke);
		return;
	}
	upstream->tries--; /* waiting in line is no try */
	stream_close(upstream->stream);
	connect_anew(upstream);
	send_more(upstream);
}

static const struct stream_events stream_events = {
	.on_read = on_read,
	.on_eof = on_eof,
	.on_drained = on_drained,
	.on_alarm = on_alarm,
	.on_broken = on_broken,
};

/* ---- the beginning and the end ---- */

static void attend(struct upstream *upstream, struct stream *stream, bool kept)
{
	upstream->stream = stream;
	upstream->kept = kept;
	upstream->sent_at_ms = uv_now(upstream->gateway->reactor->loop);
	upstream->sent = 0;
	upstream->head_sent = false;
	upstream->tries++;
	stream_attend(stream, &stream_events, upstream);
}

static void connect_anew(struct upstream *upstream)
{
	struct reactor *reactor = upstream->gateway->reactor;
	const struct endpoint *endpoint = &upstream->endpoint;
	struct sockaddr_storage address;

	endpoint_address(endpoint, &address);
	attend(upstream, endpoint->path[0] ? stream_dial_unix(reactor, endpoint->path)
	                                   : stream_dial_tcp(reactor, (struct sockaddr *)&address),
	       false);
}

static void complete_head(struct upstream *upstream, const struct upstream_request *request)
{
	const struct intake *body = upstream->body;
	bool has_body = body->length > 0 || upstream->method == METHOD_POST ||
	                upstream->method == METHOD_PUT || upstream->method == METHOD_PATCH;

	buf_append_str(&upstream->head, request->head);
	buf_append_str(&upstream->head, STR("Host: "));
	buf_append_str(&upstream->head,
	               str_from(upstream->endpoint.authority ? upstream->endpoint.authority : "localhost"));
	buf_append_str(&upstream->head, STR("\r\n"));
	/* Another server may send it on, to us in the end. */
	if (upstream->endpoint.authority)
		buf_printf(&upstream->head, "Via: " VIA_FORM "\r\n", upstream->gateway->boot_id);
	if (has_body)
		buf_printf(&upstream->head, "Content-Length: %lld\r\n",
		           (long long)body->length + (long long)request->ahead.length);
	buf_append_str(&upstream->head, request->credentials);
	if (upstream->endpoint.key[0])
		buf_printf(&upstream->head, "Authorization: Bearer %s\r\n", upstream->endpoint.key);
	buf_append_str(&upstream->head, STR("\r\n"));
	buf_append_str(&upstream->head, request->ahead);
}

struct upstream *upstream_start(struct gateway *gateway, const struct upstream_request *request,
                                const struct upstream_events *events, void *ctx)
{
	struct upstream *upstream = xcalloc(1, sizeof(*upstream));

	upstream->gateway = gateway;
	upstream->events = events;
	upstream->ctx = ctx;
	upstream->endpoint = request->endpoint;
	upstream->server = server_of(request->instance);
	upstream->keep = request->keep;
	upstream->method = request->method;
	upstream->upgrade = request->upgrade;
	upstream->body = request->body;
	upstream->holds_body = request->holds_body;
	complete_head(upstream, request);

	struct stream *kept = pool_take(gateway->pool, upstream->server);
	if (kept)
		attend(upstream, kept, true);
	else
		connect_anew(upstream);
	send_more(upstream);
	return upstream;
}

void upstream_pause(struct upstream *upstream)
{
	if (upstream->stream)
		stream_pause(upstream->stream);
}

void upstream_resume(struct upstream *upstream)
{
	if (upstream->stream)
		stream_resume(upstream->stream);
}

void upstream_send(struct upstream *upstream, struct str bytes)
{
	assert(upstream->tunnel && upstream->stream);
	if (bytes.length)
		stream_write(upstream->stream, &bytes, 1);
}

bool upstream_sends(const struct upstream *upstream)
{
	return stream_pending(upstream->stream) > 0;
}

void upstream_free(struct upstream *upstream)
{
	if (!upstream)
		return;
	if (upstream->fetching)
		intake_unfetch(upstream->body);
	/* Of a tunnel the client's last words are still the engine's. */
	if (upstream->stream && upstream->tunnel)
		stream_finish(upstream->stream);
	else if (upstream->stream)
		stream_close(upstream->stream);
	buf_release(&upstream->head);
	buf_release(&upstream->in);
	free(upstream);
}

void upstream_forget(struct gateway *gateway, struct id instance)
{
	pool_drop(gateway->pool, server_of(instance));
}
