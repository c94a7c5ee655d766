#ifndef APP_WARMER_H
#define APP_WARMER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * warmer - model files in the page cache, which costs nothing: the kernel takes it back at once.
 *
 * One thread with idle I/O priority reads what is to be warm, most wanted first, drops what is not to
 * be, and tells how much of each file is cached. What it is told replaces what it was told before, so
 * that it does nothing for long that is no longer wanted; between two pieces it looks. A load's own
 * read-ahead comes before all else and has the priority of any reader, because somebody waits for it.
 *
 * It knows nothing of models that are loaded: the caller names no file that a live instance maps.
 *
 *   warmer_new() -> warmer_orders() as often as wished -> warmer_free()
 */
struct warmer;
struct uv_loop_s;

enum { WARM_ORDERS_MAX = 16, WARM_WATCH_MAX = 64, WARM_PATH_MAX = 512 };

struct warm_order {
	uint32_t model;           /* the caller's name for it */
	char path[WARM_PATH_MAX];
	int64_t bytes;            /* to be cached, from the file's beginning */
};

struct warm_orders {
	struct warm_order ahead;  /* a load's own read-ahead; bytes 0: none */
	struct warm_order warm[WARM_ORDERS_MAX]; /* most wanted first */
	uint32_t warms;
	struct warm_order cool[WARM_ORDERS_MAX]; /* to be cached at most */
	uint32_t cools;
	struct warm_order watch[WARM_WATCH_MAX]; /* to be told about; bytes: the file's */
	uint32_t watches;
};

struct warmer_events {
	void *ctx;
	/* On the loop: so much of the model's file is cached. */
	void (*on_cached)(void *ctx, uint32_t model, int64_t bytes);
};

/*
 * `free_least_bytes`: nothing is read while MemFree is below it; 0 = page cache never hurts on this
 * machine. NULL where no thread can be had.
 */
struct warmer *warmer_new(struct uv_loop_s *loop, int64_t free_least_bytes, const struct warmer_events *events);
void warmer_orders(struct warmer *warmer, const struct warm_orders *orders);
/* Waits for the piece being read. The loop must run once more before it is closed. */
void warmer_free(struct warmer *warmer);

#endif
