/*
 * A write that the kernel refuses outright is queued all the same: the loop
 * tries it again, meets the same error and reports it in its own callback. So
 * there is one place where a broken write is told, and it is never inside
 * stream_write().
 *
 * Two buffers carry what is pending: `flying` belongs to the loop while a write
 * request is under way and must not move, `queued` takes what comes meanwhile.
 */
#include "io/stream.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/buf.h"

enum { FAREWELL_MS = 2000, LAST_WORDS_MS = 100, FAREWELL_BYTES = 4 * 1024 * 1024 };

enum state {
	STREAM_CONNECTING,
	STREAM_OPEN,
	STREAM_FINISHING, /* given up: sending the rest, then waiting for the peer's end */
	STREAM_CUTTING,   /* given up: sending the rest, then reset */
	STREAM_CLOSING,
};

struct stream {
	struct reactor *reactor;
	const struct stream_events *events;
	void *ctx;
	enum state state;
	bool unix_socket;
	bool paused;
	bool ended;             /* the peer's last byte was seen, or the socket broke */
	bool in_flight;
	bool dial_failed;       /* at once; the timer is about to tell */
	uint8_t handles;        /* not yet closed by the loop */
	union {
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} socket;
	uv_timer_t timer;
	union {                 /* one at a time: connecting, then writing, then the end */
		uv_connect_t connect;
		uv_write_t write;
	} request;
	uv_shutdown_t shutdown;
	struct buf flying;
	struct buf queued;
	size_t discarded;
};

static void on_readable(uv_stream_t *handle, ssize_t count, const uv_buf_t *unused);
static void launch(struct stream *stream);

struct reactor *reactor_new(struct uv_loop_s *loop)
{
	struct reactor *reactor = xcalloc(1, sizeof(*reactor));
	reactor->loop = loop;
	reactor->scratch = xmalloc(REACTOR_SCRATCH_BYTES);
	return reactor;
}

void reactor_free(struct reactor *reactor)
{
	if (!reactor)
		return;
	reactor->released = true;
	if (reactor->streams > 0)
		return; /* the last of them frees it */
	free(reactor->scratch);
	free(reactor);
}

static struct stream *stream_new(struct reactor *reactor, bool unix_socket)
{
	struct stream *stream = xcalloc(1, sizeof(*stream));

	stream->reactor = reactor;
	stream->unix_socket = unix_socket;
	stream->state = STREAM_OPEN;
	stream->handles = 2;
	if (unix_socket)
		uv_pipe_init(reactor->loop, &stream->socket.pipe, 0);
	else
		uv_tcp_init(reactor->loop, &stream->socket.tcp);
	uv_timer_init(reactor->loop, &stream->timer);
	stream->socket.stream.data = stream;
	stream->timer.data = stream;
	reactor->streams++;
	return stream;
}

/* ---- the end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct stream *stream = handle->data;

	struct reactor *reactor = stream->reactor;

	if (--stream->handles > 0)
		return;
	buf_release(&stream->flying);
	buf_release(&stream->queued);
	free(stream);
	if (--reactor->streams == 0 && reactor->released)
		reactor_free(reactor);
}

static void close_handles(struct stream *stream, bool reset)
{
	if (stream->state == STREAM_CLOSING)
		return;
	stream->state = STREAM_CLOSING;
	uv_close((uv_handle_t *)&stream->timer, on_handle_closed);
	if (reset && !stream->unix_socket &&
	    uv_tcp_close_reset(&stream->socket.tcp, on_handle_closed) == 0)
		return;
	uv_close((uv_handle_t *)&stream->socket.stream, on_handle_closed);
}

void stream_close(struct stream *stream)
{
	close_handles(stream, false);
}

static void on_farewell_over(uv_timer_t *timer)
{
	struct stream *stream = timer->data;
	close_handles(stream, stream->state == STREAM_CUTTING);
}

static void on_shut_down(uv_shutdown_t *request, int status)
{
	struct stream *stream = request->handle->data;

	if (status == UV_ECANCELED || stream->state == STREAM_CLOSING)
		return;
	if (status < 0 || stream->ended)
		close_handles(stream, false);
}

/* Nothing is pending any more on a stream that was given up. */
static void part(struct stream *stream)
{
	if (stream->state == STREAM_CUTTING) {
		/* Some systems throw unread bytes away at a reset: the peer gets time to read them. */
		uv_timer_start(&stream->timer, on_farewell_over, LAST_WORDS_MS, 0);
		return;
	}
	stream->shutdown.data = stream;
	if (uv_shutdown(&stream->shutdown, &stream->socket.stream, on_shut_down) < 0)
		close_handles(stream, false);
}

static void give_up(struct stream *stream, enum state state)
{
	assert(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);
	if (stream->state == STREAM_CONNECTING) {
		close_handles(stream, false);
		return;
	}
	stream->state = state;
	uv_timer_start(&stream->timer, on_farewell_over, FAREWELL_MS, 0);
	stream_resume(stream);
	if (!stream_pending(stream))
		part(stream);
}

void stream_finish(struct stream *stream)
{
	give_up(stream, STREAM_FINISHING);
}

void stream_cut(struct stream *stream)
{
	give_up(stream, STREAM_CUTTING);
}

/* ---- reading ---- */

static void on_scratch_wanted(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct stream *stream = handle->data;

	(void)suggested;
	*out = uv_buf_init(stream->reactor->scratch, REACTOR_SCRATCH_BYTES);
}

static void start_reading(struct stream *stream)
{
	bool may = stream->state != STREAM_CONNECTING && stream->state != STREAM_CLOSING;

	if (may && !stream->paused && !stream->ended)
		uv_read_start(&stream->socket.stream, on_scratch_wanted, on_readable);
}

static void read_after_giving_up(struct stream *stream, ssize_t count)
{
	if (count > 0)
		stream->discarded += (size_t)count;
	bool broken = count < 0 && count != UV_EOF;
	bool over = stream->ended && !stream_pending(stream) && stream->state == STREAM_FINISHING;

	if (broken || over || stream->discarded > FAREWELL_BYTES)
		close_handles(stream, false);
}

/* The loop tells a reset that came together with last bytes as an end; the socket knows better. */
static ssize_t true_end(const struct stream *stream)
{
	int error = 0;
	socklen_t bytes = sizeof(error);

	if (getsockopt(stream_fd(stream), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error)
		return -error;
	return UV_EOF;
}

static void on_readable(uv_stream_t *handle, ssize_t count, const uv_buf_t *unused)
{
	struct stream *stream = handle->data;

	(void)unused;
	if (count == 0)
		return; /* nothing to read after all */
	if (count == UV_EOF)
		count = true_end(stream);
	if (count < 0) {
		stream->ended = true;
		uv_read_stop(handle);
	}
	if (stream->state != STREAM_OPEN)
		read_after_giving_up(stream, count);
	else if (count > 0)
		stream->events->on_read(stream->ctx,
		                        (struct str){ stream->reactor->scratch, (size_t)count });
	else if (count == UV_EOF)
		stream->events->on_eof(stream->ctx);
	else
		stream->events->on_broken(stream->ctx, (int)count);
}

void stream_attend(struct stream *stream, const struct stream_events *events, void *ctx)
{
	stream->events = events;
	stream->ctx = ctx;
	start_reading(stream);
}

void stream_pause(struct stream *stream)
{
	if (stream->paused)
		return;
	stream->paused = true;
	if (stream->state == STREAM_OPEN)
		uv_read_stop(&stream->socket.stream);
}

void stream_resume(struct stream *stream)
{
	if (!stream->paused)
		return;
	stream->paused = false;
	start_reading(stream);
}

bool stream_peer_left(const struct stream *stream)
{
	struct pollfd ask = { .fd = stream_fd(stream), .events = POLLRDHUP };

	if (stream->ended)
		return true;
	return ask.fd >= 0 && poll(&ask, 1, 0) > 0;
}

/* ---- writing ---- */

static void on_written(uv_write_t *request, int status)
{
	struct stream *stream = request->handle->data;

	stream->in_flight = false;
	if (status == UV_ECANCELED || stream->state == STREAM_CLOSING)
		return;
	if (status < 0) {
		stream->ended = true;
		uv_read_stop(&stream->socket.stream);
		if (stream->state == STREAM_OPEN)
			stream->events->on_broken(stream->ctx, status);
		else
			close_handles(stream, false);
		return;
	}
	buf_release(&stream->flying);
	if (buf_length(&stream->queued))
		launch(stream);
	else if (stream->state != STREAM_OPEN)
		part(stream);
	else if (stream->events->on_drained)
		stream->events->on_drained(stream->ctx);
}

static void launch(struct stream *stream)
{
	assert(!stream->in_flight && buf_length(&stream->flying) == 0);
	stream->flying = stream->queued;
	stream->queued = BUF_INIT;

	struct str bytes = buf_str(&stream->flying);
	uv_buf_t out = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.length);
	stream->in_flight = true;
	int error = uv_write(&stream->request.write, &stream->socket.stream, &out, 1, on_written);
	assert(error == 0); /* it fails only for a handle that is not open */
}

/* What the kernel took of the parts, at once. */
static size_t write_now(struct stream *stream, const struct str *parts, uint32_t count)
{
	uv_buf_t out[STREAM_PARTS_MAX];

	if (stream->state != STREAM_OPEN || stream_pending(stream))
		return 0;
	for (uint32_t i = 0; i < count; i++)
		out[i] = uv_buf_init((char *)(uintptr_t)parts[i].data, (unsigned)parts[i].length);
	int taken = uv_try_write(&stream->socket.stream, out, count);
	return taken < 0 ? 0 : (size_t)taken;
}

void stream_write(struct stream *stream, const struct str *parts, uint32_t count)
{
	assert(count <= STREAM_PARTS_MAX);
	assert(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);

	size_t taken = write_now(stream, parts, count);
	for (uint32_t i = 0; i < count; i++) {
		struct str rest = parts[i];
		size_t skip = taken < rest.length ? taken : rest.length;
		taken -= skip;
		buf_append(&stream->queued, rest.data + skip, rest.length - skip);
	}
	if (buf_length(&stream->queued) && !stream->in_flight && stream->state == STREAM_OPEN)
		launch(stream);
}

size_t stream_pending(const struct stream *stream)
{
	return buf_length(&stream->flying) + buf_length(&stream->queued);
}

bool stream_connected(const struct stream *stream)
{
	return stream->state == STREAM_OPEN;
}

/* ---- the alarm ---- */

static void on_timer(uv_timer_t *timer)
{
	struct stream *stream = timer->data;
	stream->events->on_alarm(stream->ctx);
}

void stream_alarm(struct stream *stream, uint64_t ms)
{
	assert(stream->state == STREAM_CONNECTING || stream->state == STREAM_OPEN);
	if (!stream->dial_failed)
		uv_timer_start(&stream->timer, on_timer, ms, 0);
}

void stream_alarm_off(struct stream *stream)
{
	if (!stream->dial_failed)
		uv_timer_stop(&stream->timer);
}

int stream_fd(const struct stream *stream)
{
	uv_os_fd_t fd = -1;

	if (uv_fileno((const uv_handle_t *)&stream->socket.stream, &fd) < 0)
		return -1;
	return fd;
}

/* ---- the beginning ---- */

struct stream *stream_accept(struct reactor *reactor, struct uv_stream_s *server, bool unix_socket)
{
	struct stream *stream = stream_new(reactor, unix_socket);

	if (uv_accept(server, &stream->socket.stream) < 0) {
		close_handles(stream, false);
		return NULL;
	}
	if (!unix_socket)
		uv_tcp_nodelay(&stream->socket.tcp, 1);
	return stream;
}

static void on_connected(uv_connect_t *request, int status)
{
	struct stream *stream = request->handle->data;

	if (status == UV_ECANCELED || stream->state == STREAM_CLOSING)
		return;
	if (status < 0) {
		stream->ended = true;
		stream->events->on_broken(stream->ctx, status);
		return;
	}
	stream->state = STREAM_OPEN;
	start_reading(stream);
	if (buf_length(&stream->queued))
		launch(stream);
}

struct stream *stream_dial_unix(struct reactor *reactor, const char *path)
{
	struct stream *stream = stream_new(reactor, true);

	stream->state = STREAM_CONNECTING;
	uv_pipe_connect(&stream->request.connect, &stream->socket.pipe, path, on_connected);
	return stream;
}

static void on_dial_failed(uv_timer_t *timer)
{
	struct stream *stream = timer->data;

	stream->ended = true;
	stream->events->on_broken(stream->ctx, UV_ECONNREFUSED);
}

struct stream *stream_dial_tcp(struct reactor *reactor, const struct sockaddr *address)
{
	struct stream *stream = stream_new(reactor, false);

	stream->state = STREAM_CONNECTING;
	uv_tcp_nodelay(&stream->socket.tcp, 1);
	if (uv_tcp_connect(&stream->request.connect, &stream->socket.tcp, address, on_connected) < 0) {
		stream->dial_failed = true;
		uv_timer_start(&stream->timer, on_dial_failed, 0, 0);
	}
	return stream;
}
