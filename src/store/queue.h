#ifndef STORE_QUEUE_H
#define STORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "store/table.h"

/*
 * queue - what the thread is to do, in order, bounded in number and in bytes.
 *
 * Items own copies of all they were given. Not locked: the store's lock is held
 * by whoever touches it.
 */
enum {
	QUEUE_ITEMS_MAX = 4096,
	QUEUE_BYTES_MAX = 8 << 20,
	QUEUE_TEXT_MAX = 2048, /* longer texts are cut */
};

enum item_kind {
	ITEM_ROW,
	ITEM_LEARNED,
	ITEM_FORGET_LEARNED,
	ITEM_QUERY,
	ITEM_READ_LEARNED,
};

struct item {
	struct item *next;
	enum item_kind kind;
	size_t bytes;           /* of the whole allocation */
	enum table_kind table;  /* ROW, QUERY */
	uint64_t file_key, build_key; /* LEARNED, FORGET_LEARNED */
	uint32_t row_bytes;
	struct store_query query; /* its texts in data */
	void (*done)(void *ctx, const char *json);
	void *ctx;
	_Alignas(max_align_t) char data[]; /* ROW: the struct, then its texts */
};

struct queue {
	struct item *first, *last;
	size_t count;
	size_t bytes;
};

struct item *item_of_row(enum table_kind table, const void *row);
struct item *item_of_learned(uint64_t file_key, uint64_t build_key, const void *row,
                             uint32_t row_bytes);
struct item *item_of_query(enum table_kind table, const struct store_query *query,
                           void (*done)(void *ctx, const char *json), void *ctx);

/* False where it is full; the item is still the caller's then. */
bool queue_put(struct queue *queue, struct item *item);
/* All there is, in order; the queue is empty afterwards. */
struct item *queue_take_all(struct queue *queue);

#endif
