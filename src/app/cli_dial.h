#ifndef APP_CLI_DIAL_H
#define APP_CLI_DIAL_H

#include "base/err.h"

/*
 * cli_dial - where the daemon is, and a connected socket to it.
 *
 * Without --socket and --url the control socket is searched as dirs.h says.
 */
struct dial_target {
	char path[108];   /* unix socket; "" = TCP */
	char host[300];   /* the Host header; TCP: host:port as given */
	char name[256];   /* TCP: what to look up, without brackets */
	char port[8];
	char prefix[256]; /* TCP: a path before every path, "" where none */
};

/* 0, or -EINVAL where `url` or `socket` is nothing that can be dialled. */
int dial_resolve(const char *socket, const char *url, struct dial_target *target, struct err *err);

/* A connected socket (close it), or a negative errno; waits 5 s at most. */
int dial(const struct dial_target *target, struct err *err);

#endif
