#ifndef APP_RECORDER_H
#define APP_RECORDER_H

#include "base/err.h"
#include "core/arbiter.h"

/*
 * recorder - every event the arbiter takes, in a file (`serve --record`).
 *
 * The file replays to the same decisions, byte for byte (`cotenant lab replay`),
 * so a bug met in the field becomes a test by copying one file. It holds no
 * request bodies and no keys. Writing that fails (a full disk) ends the
 * recording with one line in the log, not the daemon.
 */
struct recorder;

struct recorder *recorder_open(const char *path, const struct arbiter_limits *limits,
                               struct err *err);
void recorder_event(struct recorder *recorder, const struct event *event);
void recorder_flush(
        struct recorder *recorder); /* once a turn: a crash then loses nothing of what led to it */
void recorder_close(struct recorder *recorder);

#endif
