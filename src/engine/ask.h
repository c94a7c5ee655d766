#ifndef ENGINE_ASK_H
#define ENGINE_ASK_H

#include <stdbool.h>

#include "base/str.h"
#include "engine/endpoint.h"

/*
 * ask - one small question to an engine, for its health and its slots.
 *
 * Not for requests of clients: it connects, reads at most 64 KiB, and is done.
 */
struct ask;
struct uv_loop_s;

struct ask_options {
	struct uv_loop_s *loop;
	const struct endpoint *endpoint;
	const char *path;  /* "": a connection is all that is asked for */
	const char *post;  /* a POST with this JSON; NULL: a GET */
	bool whole;        /* wait for the body; else the status is enough */
	void *ctx;
	/*
	 * status: the HTTP status; 0 where a connection was all; a negative errno. The ask
	 * is over. `body` is valid during the call.
	 */
	void (*done)(void *ctx, int status, struct str body);
};

/* Endpoint and texts are copied. 0: `done` will be called, later, unless cancelled. A negative errno: nobody listens (now). */
int ask_start(const struct ask_options *options, struct ask **out);
void ask_cancel(struct ask *ask);

#endif
