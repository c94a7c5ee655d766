#ifndef APP_CLI_WAITING_H
#define APP_CLI_WAITING_H

#include "app/cli.h"

/*
 * cli_waiting - what a person reads on stderr while a model is waited for.
 *
 * On a terminal it is one line that is written over and over and wiped at the
 * end; elsewhere (a log, a pipe) one plain line for each change of state. What
 * is over before the first look shows nothing. What comes as `ctx` is the struct.
 */
enum { WAITING_TICK_MS = 250 };

struct waiting {
	const struct cli_args *args;
	const char *model;
	bool terminal;
	bool shown;
	char state[24]; /* the last one that was told */
	char note[160]; /* what the stream itself said: the place in the queue */
};

void waiting_begin(struct waiting *waiting, const struct cli_args *args, const char *model);
/* Ask the daemon how it stands and show that. */
void waiting_look(void *ctx);
/* Wipe the line, so that what follows begins on an empty one. */
void waiting_end(void *ctx);

#endif
