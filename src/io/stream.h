#ifndef IO_STREAM_H
#define IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "io/reactor.h"

/*
 * stream - one connected socket, TCP or unix.
 *
 * A write goes to the kernel at once; only what it does not take is copied and
 * kept until it does, so a connection that keeps pace holds no buffer. Nothing
 * bounds what is kept but its owner: stop the source while stream_pending() is
 * not 0, and go on at on_drained.
 *
 * Every failure, of a write too, arrives as on_broken and never inside a call
 * of the owner's, so an owner is not entered twice.
 *
 * Life cycle
 *
 *   1. stream_accept() or stream_dial_...()
 *   2. stream_attend()   who is told; may change hands later. Reading starts here
 *   3. one of stream_close(), stream_finish(), stream_cut(): the owner gives it
 *      up, no callback follows, its memory goes when the loop has let it go
 */
struct stream;
struct uv_stream_s;

struct stream_events {
	/* Bytes came; valid during the call. */
	void (*on_read)(void *ctx, struct str bytes);
	/* The peer sent its last byte. Writing may still work. No on_read follows. */
	void (*on_eof)(void *ctx);
	/* What was pending was taken, all of it. NULL: not wanted. */
	void (*on_drained)(void *ctx);
	/* The time of stream_alarm() came. NULL: none is ever set. */
	void (*on_alarm)(void *ctx);
	/* It broke, or could not be connected (negative errno). Nothing follows; the owner closes it. */
	void (*on_broken)(void *ctx, int error);
};

/* Take the connection that waits at a listening handle. NULL where there is none after all. */
struct stream *stream_accept(struct reactor *reactor, struct uv_stream_s *server, bool unix_socket);
/* Connect. Bytes may be written at once: they wait for the connection. */
struct stream *stream_dial_unix(struct reactor *reactor, const char *path);
struct sockaddr;
struct stream *stream_dial_tcp(struct reactor *reactor, const struct sockaddr *address);

void stream_attend(struct stream *stream, const struct stream_events *events, void *ctx);
void stream_pause(struct stream *stream);  /* no on_read, no on_eof until resumed */
void stream_resume(struct stream *stream);
/* Has the peer sent its last byte? Asks the kernel: for a stream that is paused. */
bool stream_peer_left(const struct stream *stream);

/* Send the parts one after the other. At most STREAM_PARTS_MAX parts. */
enum { STREAM_PARTS_MAX = 64 };
void stream_write(struct stream *stream, const struct str *parts, uint32_t count);
size_t stream_pending(const struct stream *stream);
bool stream_connected(const struct stream *stream);

/* One alarm a stream: a new one replaces the old. */
void stream_alarm(struct stream *stream, uint64_t ms);
void stream_alarm_off(struct stream *stream);

int stream_fd(const struct stream *stream); /* to ask about; -1 where there is none */

/* At once; what is pending is lost. */
void stream_close(struct stream *stream);
/*
 * In peace: what is pending is sent, then our end; what the peer still sends is
 * thrown away until its end comes or 2 s passed. A close that left bytes unread
 * would be a reset, which can take an answer away from the peer that it was for.
 */
void stream_finish(struct stream *stream);
/*
 * As a visible failure: what is pending is sent (2 s), the peer gets 100 ms to
 * read it, then the connection is reset. A mere end would look complete where
 * the length is told by it, and to clients that do not look for a last chunk.
 * (A unix socket knows no reset and just ends.)
 */
void stream_cut(struct stream *stream);

#endif
