#ifndef LAZY_LISTENER_H
#define LAZY_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * listener - the daemon's questions, answered from inside the engine.
 *
 * One thread of small stack, which takes no signals, on one unix socket; one
 * question a connection, in the HTTP that lazy.h tells. Only a peer of the same
 * user, or root, is answered.
 */
struct listener_facts {
	bool reached;          /* the engine's calls come through us */
	uint64_t plain_clears; /* large clears that the engine had to do itself */
};

/* Takes the path's socket; false: the engine runs on without being asked anything. */
bool listener_start(const char *path, struct listener_facts (*facts)(void));

#endif
