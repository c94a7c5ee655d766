#include "io/pool.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/list.h"

enum { KEPT_MS = 4000 };

struct kept {
	struct list node;
	struct pool *pool;
	struct stream *stream;
	uint64_t server;
};

struct pool {
	struct list kept; /* oldest first; few, so walking it is cheap */
	uint32_t held;
};

struct pool *pool_new(void)
{
	struct pool *pool = xcalloc(1, sizeof(*pool));
	list_init(&pool->kept);
	return pool;
}

/* Returns the stream, which nobody owns now. */
static struct stream *let_go(struct kept *kept)
{
	struct stream *stream = kept->stream;

	list_remove(&kept->node);
	kept->pool->held--;
	free(kept);
	return stream;
}

static void on_ended(void *ctx)
{
	stream_close(let_go(ctx));
}

static void on_unasked(void *ctx, struct str bytes)
{
	(void)bytes;
	on_ended(ctx);
}

static void on_broken(void *ctx, int error)
{
	(void)error;
	on_ended(ctx);
}

static const struct stream_events kept_events = {
	.on_read = on_unasked,
	.on_eof = on_ended,
	.on_alarm = on_ended,
	.on_broken = on_broken,
};

static uint32_t count_of(const struct pool *pool, uint64_t server)
{
	uint32_t count = 0;

	for (const struct list *node = pool->kept.next; node != &pool->kept; node = node->next)
		if (LIST_ENTRY(node, const struct kept, node)->server == server)
			count++;
	return count;
}

void pool_put(struct pool *pool, uint64_t server, struct stream *stream, uint32_t most)
{
	assert(stream_pending(stream) == 0);
	if (count_of(pool, server) >= most) {
		stream_close(stream);
		return;
	}
	struct kept *kept = xcalloc(1, sizeof(*kept));
	kept->pool = pool;
	kept->stream = stream;
	kept->server = server;
	list_append(&pool->kept, &kept->node);
	pool->held++;
	stream_resume(stream);
	stream_attend(stream, &kept_events, kept);
	stream_alarm(stream, KEPT_MS);
}

struct stream *pool_take(struct pool *pool, uint64_t server)
{
	for (struct list *node = pool->kept.prev; node != &pool->kept; node = node->prev) {
		struct kept *kept = LIST_ENTRY(node, struct kept, node);
		if (kept->server != server)
			continue;
		stream_alarm_off(kept->stream);
		return let_go(kept);
	}
	return NULL;
}

void pool_drop(struct pool *pool, uint64_t server)
{
	LIST_EACH (node, &pool->kept) {
		struct kept *kept = LIST_ENTRY(node, struct kept, node);
		if (kept->server == server)
			on_ended(kept);
	}
}

uint32_t pool_held(const struct pool *pool)
{
	return pool->held;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	LIST_EACH (node, &pool->kept)
		on_ended(LIST_ENTRY(node, struct kept, node));
	free(pool);
}
