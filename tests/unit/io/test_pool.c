#include "pair.h"

#include "io/pool.h"

static void test_a_kept_connection_is_taken_by_its_server_alone(void **state)
{
	struct pair pair;
	struct pool *pool = pool_new();

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	pool_put(pool, 7, pair.near.stream, 1);
	assert_null(pool_take(pool, 8));
	assert_ptr_equal(pool_take(pool, 7), pair.near.stream);
	assert_null(pool_take(pool, 7));
	stream_attend(pair.near.stream, &end_events, &pair.near);
	pair_free(&pair);
	pool_free(pool);
}

static void test_a_server_that_closes_is_forgotten(void **state)
{
	struct pair pair;
	struct pool *pool = pool_new();

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	pool_put(pool, 7, pair.near.stream, 1);
	pair.near.stream = NULL;
	stream_close(pair.far.stream);
	pair.far.stream = NULL;
	RUN_UNTIL(&pair.loop, pool_held(pool) == 0);
	assert_null(pool_take(pool, 7));
	pair_free(&pair);
	pool_free(pool);
}

static void test_dropping_a_server_closes_its_connections(void **state)
{
	struct pair pair;
	struct pool *pool = pool_new();

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	pool_put(pool, 7, pair.near.stream, 1);
	pair.near.stream = NULL;
	pool_drop(pool, 8);
	assert_int_equal(pool_held(pool), 1);
	pool_drop(pool, 7);
	assert_int_equal(pool_held(pool), 0);
	RUN_UNTIL(&pair.loop, pair.far.ended);
	pair_free(&pair);
	pool_free(pool);
}

static void test_no_more_are_kept_than_asked(void **state)
{
	struct pair pair;
	struct pool *pool = pool_new();

	(void)state;
	pair_tcp(&pair);
	RUN_UNTIL(&pair.loop, pair.far.stream && stream_connected(pair.near.stream));
	pool_put(pool, 7, pair.near.stream, 0);
	pair.near.stream = NULL;
	assert_int_equal(pool_held(pool), 0);
	RUN_UNTIL(&pair.loop, pair.far.ended);
	pair_free(&pair);
	pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_kept_connection_is_taken_by_its_server_alone),
		cmocka_unit_test(test_a_server_that_closes_is_forgotten),
		cmocka_unit_test(test_dropping_a_server_closes_its_connections),
		cmocka_unit_test(test_no_more_are_kept_than_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
