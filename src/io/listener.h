#ifndef IO_LISTENER_H
#define IO_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "io/stream.h"

/*
 * listener - a listening socket, TCP or unix.
 *
 * A unix socket leaves a file behind when its owner is killed. Whether that
 * file is stale is decided by a lock on `PATH.lock`, which the kernel drops
 * with the process: who gets the lock removes the file, if it is a socket, and
 * listens (-EEXIST if it is anything else, which stays); who does
 * not is told that another one runs. The lock file itself stays, because
 * removing it would let two processes hold "the" lock.
 */
struct listener;

/* Who is at the other end. */
struct peer {
	bool unix_socket;
	bool loopback;    /* from this machine */
	uid_t uid;        /* unix only */
	pid_t pid;
};

struct listener_events {
	void *ctx;
	/* A new connection; it is the callee's now. */
	void (*on_connection)(void *ctx, struct stream *stream, const struct peer *peer);
};

/* `host` is an address in digits. Port 0: any, told by listener_port(). */
struct listener *listener_tcp(struct reactor *reactor, const char *host, uint16_t port,
                              const struct listener_events *events, struct err *err);
/* `mode` of the socket's file; `group` (gid_t)-1 = leave it. -EADDRINUSE: another process holds the lock. */
struct listener *listener_unix(struct reactor *reactor, const char *path, mode_t mode, gid_t group,
                               const struct listener_events *events, struct err *err);
uint16_t listener_port(const struct listener *listener);

/* Take no more connections until resumed; they wait in the kernel. */
void listener_pause(struct listener *listener);
void listener_resume(struct listener *listener);

/* Removes the socket's file and gives the lock back. */
void listener_close(struct listener *listener);

/* Is the unix peer a member of the group, also by a supplementary one? */
bool peer_in_group(const struct stream *stream, gid_t group);

#endif
