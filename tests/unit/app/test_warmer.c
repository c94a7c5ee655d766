/* On a real file of 48 MiB: what is ordered is cached, and told; where memory is low, nothing is read. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "app/warmer.h"
#include "base/str.h"
#include "probe/page_cache.h"

#define MIB (INT64_C(1) << 20)
enum { FILE_MIB = 48 };

struct bench {
	uv_loop_t loop;
	char path[64];
	int fd;
	int64_t cached; /* told last; -1: nothing yet */
	uint32_t told;
};

static void on_cached(void *ctx, uint32_t model, int64_t bytes)
{
	struct bench *bench = ctx;

	assert_int_equal(model, 7);
	bench->cached = bytes;
	bench->told++;
}

static void drop(const struct bench *bench)
{
	fsync(bench->fd);
	posix_fadvise(bench->fd, 0, 0, POSIX_FADV_DONTNEED);
}

static bool open_bench(struct bench *bench)
{
	static char part[1 << 20];

	*bench = (struct bench){ .cached = -1 };
	uv_loop_init(&bench->loop);
	str_copy(bench->path, sizeof(bench->path), STR("warmer-XXXXXX"));
	bench->fd = mkstemp(bench->path);
	assert_true(bench->fd >= 0);
	memset(part, 'w', sizeof(part));
	for (int i = 0; i < FILE_MIB; i++)
		assert_int_equal(write(bench->fd, part, sizeof(part)), sizeof(part));
	drop(bench);
	return page_cache_bytes(bench->fd, 0, FILE_MIB * MIB) < MIB; /* else the file system keeps all in memory */
}

static void close_bench(struct bench *bench)
{
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&bench->loop), 0);
	close(bench->fd);
	unlink(bench->path);
}

static struct warm_order order_of(const struct bench *bench, int64_t bytes)
{
	struct warm_order order = { .model = 7, .bytes = bytes };

	str_copy(order.path, sizeof(order.path), str_from(bench->path));
	return order;
}

static void on_timer(uv_timer_t *timer)
{
	(void)timer;
}

/* Turns of the loop until so many answers came. */
static void wait_told(struct bench *bench, uint32_t told)
{
	uv_timer_t timer;

	uv_timer_init(&bench->loop, &timer);
	uv_timer_start(&timer, on_timer, 1, 1);
	for (int i = 0; i < 20000 && bench->told < told; i++)
		uv_run(&bench->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&bench->loop, UV_RUN_NOWAIT);
	assert_true(bench->told >= told);
}

static void what_is_ordered_is_cached_and_told(void **state)
{
	static struct warm_orders orders;
	struct bench bench;
	struct warmer_events events = { &bench, on_cached };

	(void)state;
	if (!open_bench(&bench)) {
		close_bench(&bench);
		skip();
	}
	struct warmer *warmer = warmer_new(&bench.loop, 0, &events);
	orders = (struct warm_orders){ .watches = 1, .watch[0] = order_of(&bench, 0) };
	warmer_orders(warmer, &orders);
	wait_told(&bench, 1);
	assert_true(bench.cached < MIB);

	orders = (struct warm_orders){ .warms = 1, .warm[0] = order_of(&bench, 20 * MIB) };
	warmer_orders(warmer, &orders);
	wait_told(&bench, 2);
	assert_true(bench.cached >= 20 * MIB);

	orders = (struct warm_orders){ .ahead = order_of(&bench, FILE_MIB * MIB) };
	warmer_orders(warmer, &orders);
	wait_told(&bench, 3);
	assert_true(bench.cached == FILE_MIB * MIB);

	orders = (struct warm_orders){ .cools = 1, .cool[0] = order_of(&bench, 8 * MIB) };
	warmer_orders(warmer, &orders);
	wait_told(&bench, 4);
	assert_true(bench.cached >= 8 * MIB && bench.cached < 9 * MIB);
	warmer_free(warmer);
	close_bench(&bench);
}

static void where_free_memory_is_low_nothing_is_read(void **state)
{
	static struct warm_orders orders;
	struct bench bench;
	struct warmer_events events = { &bench, on_cached };

	(void)state;
	if (!open_bench(&bench)) {
		close_bench(&bench);
		skip();
	}
	struct warmer *warmer = warmer_new(&bench.loop, INT64_MAX, &events);
	orders = (struct warm_orders){ .warms = 1, .warm[0] = order_of(&bench, FILE_MIB * MIB) };
	warmer_orders(warmer, &orders);
	wait_told(&bench, 1);
	assert_true(bench.cached < MIB);
	warmer_free(warmer);
	close_bench(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_ordered_is_cached_and_told),
		cmocka_unit_test(where_free_memory_is_low_nothing_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
