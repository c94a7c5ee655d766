/*
 * pair - two connected streams on one loop, for tests: `near` was dialled,
 * `far` was accepted. What each is told is written into its struct end.
 */
#ifndef TESTS_IO_PAIR_H
#define TESTS_IO_PAIR_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../cmocka_all.h"

#include "base/buf.h"
#include "io/listener.h"
#include "io/stream.h"

struct end {
	struct stream *stream;
	struct buf got;
	int reads, drains, alarms;
	bool ended;
	int error;
};

struct pair {
	uv_loop_t loop;
	struct reactor *reactor;
	struct listener *listener;
	struct peer peer;
	struct end near, far;
	char path[64];
};

static void end_read(void *ctx, struct str bytes)
{
	struct end *end = ctx;
	end->reads++;
	buf_append_str(&end->got, bytes);
}

static void end_eof(void *ctx)
{
	((struct end *)ctx)->ended = true;
}

static void end_drained(void *ctx)
{
	((struct end *)ctx)->drains++;
}

static void end_alarm(void *ctx)
{
	((struct end *)ctx)->alarms++;
}

static void end_broken(void *ctx, int error)
{
	((struct end *)ctx)->error = error;
}

static const struct stream_events end_events = {
	.on_read = end_read,
	.on_eof = end_eof,
	.on_drained = end_drained,
	.on_alarm = end_alarm,
	.on_broken = end_broken,
};

static void pair_accepted(void *ctx, struct stream *stream, const struct peer *peer)
{
	struct pair *pair = ctx;

	assert_null(pair->far.stream);
	pair->far.stream = stream;
	pair->peer = *peer;
	stream_attend(stream, &end_events, &pair->far);
}

/* Only wakes the loop: what is waited for may come from a timer, and then the loop would go on to sleep. */
static void on_test_pulse(uv_timer_t *timer)
{
	(void)timer;
}

/* Turn the loop until `condition` holds; fails the test after 60 s. */
#define RUN_UNTIL(loop, condition)                                                               \
	do {                                                                                     \
		uv_timer_t pulse_;                                                               \
		uint64_t limit_ = uv_hrtime() + UINT64_C(60000000000);                           \
		uv_timer_init((loop), &pulse_);                                                  \
		uv_timer_start(&pulse_, on_test_pulse, 5, 5);                                    \
		while (!(condition) && uv_hrtime() < limit_)                                     \
			uv_run((loop), UV_RUN_ONCE);                                             \
		bool came_ = (condition);                                                        \
		uv_close((uv_handle_t *)&pulse_, NULL);                                          \
		uv_run((loop), UV_RUN_NOWAIT);                                                   \
		assert_true(came_);                                                              \
	} while (0)

static void pair_init(struct pair *pair)
{
	signal(SIGPIPE, SIG_IGN);
	*pair = (struct pair){ 0 };
	uv_loop_init(&pair->loop);
	pair->reactor = reactor_new(&pair->loop);
}

static inline void pair_tcp(struct pair *pair)
{
	struct listener_events events = { .ctx = pair, .on_connection = pair_accepted };
	struct sockaddr_in address;
	struct err err;

	pair_init(pair);
	pair->listener = listener_tcp(pair->reactor, "127.0.0.1", 0, &events, &err);
	assert_non_null(pair->listener);
	uv_ip4_addr("127.0.0.1", listener_port(pair->listener), &address);
	pair->near.stream = stream_dial_tcp(pair->reactor, (const struct sockaddr *)&address);
	stream_attend(pair->near.stream, &end_events, &pair->near);
}

static inline void pair_unix(struct pair *pair)
{
	struct listener_events events = { .ctx = pair, .on_connection = pair_accepted };
	struct err err;

	pair_init(pair);
	snprintf(pair->path, sizeof(pair->path), "/tmp/cotenant-pair-%d.sock", (int)getpid());
	pair->listener =
		listener_unix(pair->reactor, pair->path, 0600, (gid_t)-1, &events, &err);
	assert_non_null(pair->listener);
	pair->near.stream = stream_dial_unix(pair->reactor, pair->path);
	stream_attend(pair->near.stream, &end_events, &pair->near);
}

static inline void pair_free(struct pair *pair)
{
	if (pair->near.stream)
		stream_close(pair->near.stream);
	if (pair->far.stream)
		stream_close(pair->far.stream);
	listener_close(pair->listener);
	uv_run(&pair->loop, UV_RUN_DEFAULT);
	reactor_free(pair->reactor);
	assert_int_equal(uv_loop_close(&pair->loop), 0);
	buf_release(&pair->near.got);
	buf_release(&pair->far.got);
	if (pair->path[0]) {
		char lock[80];
		snprintf(lock, sizeof(lock), "%s.lock", pair->path);
		unlink(lock);
	}
}

#endif
