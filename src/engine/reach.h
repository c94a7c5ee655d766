#ifndef ENGINE_REACH_H
#define ENGINE_REACH_H

#include <stdbool.h>
#include <sys/types.h>

#include "engine/endpoint.h"

/*
 * reach - is a server that we do not run there, and whose is it?
 *
 * Its name is looked up anew each time, every address is tried, and the first
 * that takes a connection is asked for `path`. What is blocking on the way runs
 * on a worker. At an address of this machine the process that listens is found
 * by its socket.
 */
struct reach;
struct conf_model;
struct uv_loop_s;

struct reach_result {
	bool connected;
	int status;               /* HTTP status; 0: only a connection was wanted; a negative errno */
	struct endpoint endpoint; /* connected: where */
	bool here;                /* on this machine */
	pid_t owner;              /* who listens there; 0 = not known */
	const char *what;         /* where it is not connected: why, in words */
};

struct reach_options {
	struct uv_loop_s *loop;
	const struct conf_model *model; /* with a url; must stay valid */
	const char *path;               /* NULL: a connection is enough */
	bool find_owner;
	void *ctx;
	/* The reach is over. `result` is valid during the call. */
	void (*done)(void *ctx, const struct reach_result *result);
};

struct reach *reach_start(const struct reach_options *options);
void reach_cancel(struct reach *reach);

#endif
