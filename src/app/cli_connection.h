#ifndef APP_CLI_CONNECTION_H
#define APP_CLI_CONNECTION_H

#include "app/cli.h"
#include "app/cli_dial.h"
#include "app/cli_reply.h"
#include "base/buf.h"
#include "base/err.h"

/*
 * cli_connection - one request to the daemon and its answer as it comes.
 *
 * It says nothing by itself: what fails is in `err`. Read it when poll() says
 * that `fd` is readable, or let connection_receive() wait; the body so far is in
 * `body`, from whose front the caller takes what it has used.
 */
struct connection {
	int fd; /* -1: none */
	struct dial_target target;
	struct reply reply;
	struct buf body;
};

/* Wait no longer than this for the next byte; 0 = as long as it takes. */
enum { CLIENT_QUICK_MS = 30000, CLIENT_PATIENT = 0 };

#define CONNECTION_NONE ((struct connection){ .fd = -1, .reply = REPLY_INIT })

/* CLI_DONE, CLI_USAGE or CLI_NO_DAEMON; `err` says what is wrong. Close it in every case. */
int connection_open(const struct cli_args *args, struct connection *connection, struct err *err);
void connection_close(struct connection *connection);

/* `body` NULL = none; else it is sent as application/json. 0 or a negative errno. */
int connection_send(struct connection *connection, const char *method, const char *path,
                    const char *body);

/* Read once. 1 = something was taken, 0 = the answer is over, negative errno (err says). */
int connection_receive(struct connection *connection, int timeout_ms, struct err *err);

#endif
