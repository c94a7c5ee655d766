#ifndef APP_CLI_CLIENT_H
#define APP_CLI_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "app/cli.h"
#include "app/cli_connection.h"
#include "base/buf.h"

/*
 * cli_client - a verb's way to the daemon.
 *
 * One request a connection, over the control socket or --url, blocking. What
 * cannot be reached, refused or understood is said here, with a command to try,
 * so a verb only goes on where it got its answer. An answer is at most 64 MiB.
 */
struct client_reply {
	int status;
	struct buf body;
};

/*
 * Ask, and take whatever status comes. CLI_DONE, or an exit code (said).
 * `body` NULL = none; else it is sent as application/json.
 */
int client_ask(const struct cli_args *args, const char *method, const char *path, const char *body,
               int timeout_ms, struct client_reply *reply);

/* connection_open(), and connection_receive()'s failure, said. CLI_DONE or an exit code. */
int client_open(const struct cli_args *args, struct connection *connection);
int client_lost(const char *what);

/* True where a daemon takes connections; says nothing. */
bool client_reachable(const struct cli_args *args);

/*
 * GET the JSON of a 200, quickly and without a word about what goes wrong: for
 * looking aside while something else is waited for. NULL where it does not come.
 */
json_t *client_peek(const struct cli_args *args, const char *path);

/* Somebody who is called while no answer comes, and once before anything is said about it. */
struct client_ticker {
	int every_ms;
	void (*tick)(void *ctx);
	void (*done)(void *ctx);
	void *ctx;
};

/* As client_command() with POST. */
int client_wait(const struct cli_args *args, const char *path, const char *body,
                const struct client_ticker *ticker, json_t **out);

/*
 * GET or POST, and the answer's JSON where the status is 2xx; an error of the
 * daemon is said. CLI_DONE with a new reference in `*out`, or an exit code.
 */
int client_get(const struct cli_args *args, const char *path, json_t **out);
int client_command(const struct cli_args *args, const char *method, const char *path,
                   const char *body, json_t **out);

/* Follow a stream: `line` gets each whole line and returns false to stop. CLI_DONE or an exit code (said). */
int client_follow(const struct cli_args *args, const char *path,
                  bool (*line)(void *ctx, const char *text), void *ctx);

/* Say what an error answer says. Returns the exit code that goes with it. */
int client_refused(const struct cli_args *args, const struct client_reply *reply);

/* "prefix" + percent-encoded `name` + "suffix". Free it. */
char *client_path(const char *prefix, const char *name, const char *suffix);

/* client_get() of such a path. */
int client_get_named(const struct cli_args *args, const char *prefix, const char *name, const char *suffix,
                     json_t **out);

/* "curl http://127.0.0.1:8778": how a program asks the daemon that this command talks to. */
void client_curl(const struct cli_args *args, char *out, size_t out_bytes);

#endif
