#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "../cmocka_all.h"

#include "io/worker.h"

struct sum {
	struct job job;
	pthread_t ran_on;
	int of, total;
	bool done;
};

static void add_up(struct job *job)
{
	struct sum *sum = (struct sum *)job;
	sum->ran_on = pthread_self();
	for (int i = 1; i <= sum->of; i++)
		sum->total += i;
}

static void added_up(struct job *job)
{
	((struct sum *)job)->done = true;
}

static void test_work_runs_elsewhere_and_ends_here(void **state)
{
	uv_loop_t loop;
	struct sum sum = { .job = { .run = add_up, .done = added_up }, .of = 100 };

	(void)state;
	uv_loop_init(&loop);
	worker_start(&loop, &sum.job);
	assert_false(sum.done);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(sum.done);
	assert_int_equal(sum.total, 5050);
	assert_false(pthread_equal(sum.ran_on, pthread_self()));
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work_runs_elsewhere_and_ends_here),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
