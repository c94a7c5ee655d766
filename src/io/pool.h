#ifndef IO_POOL_H
#define IO_POOL_H

#include <stdint.h>

#include "io/stream.h"

/*
 * pool - connections that are kept for a next use.
 *
 * Each is kept under the number of the server it leads to. A server that ends
 * or speaks unasked is dropped at once, and nothing is kept longer than 4 s:
 * most servers drop idle connections after 5 s, so that one taken later would
 * often be dead. How many are kept is the caller's to say, because small servers
 * give each connection a thread.
 */
struct pool;

struct pool *pool_new(void);
void pool_free(struct pool *pool); /* closes what it holds */

/* The stream is the pool's now; closed where `most` are kept already. Nothing may be pending on it. */
void pool_put(struct pool *pool, uint64_t server, struct stream *stream, uint32_t most);
/* The one last put for that server, the caller's now: attend it. NULL where there is none. */
struct stream *pool_take(struct pool *pool, uint64_t server);
/* Close all that lead to that server: it is going to be stopped. */
void pool_drop(struct pool *pool, uint64_t server);
uint32_t pool_held(const struct pool *pool);

#endif
