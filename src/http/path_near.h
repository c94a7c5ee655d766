#ifndef HTTP_PATH_NEAR_H
#define HTTP_PATH_NEAR_H

#include "base/str.h"

/*
 * path_near - which path was meant by one that leads nowhere.
 *
 * A few letters wrong, a prefix too many ("/api/v1/chat/completions") or an end
 * too few ("/v1/chat"): these are told, and where that is here which other
 * managers have elsewhere. What is farther off is not guessed at.
 */

/* Of two guesses the nearer; a candidate that is not like the path is none. Either may be NULL. */
const char *path_nearer(struct str path, const char *best, const char *candidate);

/* The nearest of the APIs' paths (api_shape.h), or `best` where that is nearer; NULL: none is like it. */
const char *path_near(struct str path, const char *best);

#endif
