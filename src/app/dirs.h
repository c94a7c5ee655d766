#ifndef APP_DIRS_H
#define APP_DIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * dirs - where the daemon keeps its things, and where its socket is found.
 *
 * State (history.db, logs): $STATE_DIRECTORY, else ~/.local/state/cotenant.
 * Run time (cotenant.sock, the engines' sockets): $RUNTIME_DIRECTORY, else, as
 * root, /run/cotenant, else $XDG_RUNTIME_DIR/cotenant, else the state folder.
 * A run-time folder must be ours and not writable by others, because who can
 * put a socket there can pretend to be an engine.
 */
enum { DIR_PATH_MAX = 4096, SOCKET_PATH_MAX = 108 };

/* Write the path of the folder, without making it. False where it does not fit. */
bool dirs_state(char *out, size_t out_bytes);
bool dirs_runtime(char *out, size_t out_bytes);

/* Make `path` (0700, parents too) where it is missing. 0 or a negative errno. */
int dirs_make(const char *path, struct err *err);

/* 0 where `path` is a folder, ours (or root's), and not writable by group or others; else says why
 * not. */
int dirs_check_private(const char *path, struct err *err);
/*
 * Hold `path` for this process alone, until it ends. -EBUSY where another holds it; 0 also where there
 * is no such folder or its file system knows no locks.
 */
int dirs_hold(const char *path, struct err *err);
/* The group may enter the folder and list it (0750), where it is ours; else it stays as it is. */
int dirs_let_in(const char *path, const char *group, struct err *err);

/*
 * Where a running daemon's control socket may be, the first that exists as a
 * socket: `given`, $COTENANT_SOCKET, $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/cotenant,
 * /run/cotenant, the state folder. False where none exists; `out` then holds the
 * most likely one, for the message.
 */
bool dirs_find_socket(const char *given, char *out, size_t out_bytes);

#endif
