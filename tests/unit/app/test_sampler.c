/* On a recorded machine: when samples come. */
#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "app/sampler.h"
#include "base/str.h"

enum { WORKERS = 4 }; /* of libuv's pool */

struct bench {
	uv_loop_t loop;
	char root[512];
	struct topology topology;
	struct sampler *sampler;
	uint32_t samples, failed;
	uint32_t asked; /* for its owners */
};

static uint32_t owners(void *ctx, struct sampler_owner *out, uint32_t capacity)
{
	struct bench *bench = ctx;

	bench->asked++;
	assert_true(capacity > 0);
	out[0] = (struct sampler_owner){ .owner.pgid = 201 };
	return 1;
}

static void on_sample(void *ctx, const struct sample *sample, const struct topology *topology,
                      const struct sampler_owner *asked, uint32_t count)
{
	struct bench *bench = ctx;

	bench->samples++;
	assert_true(sample->total_bytes > 0);
	/* Both sums, of the same moment. */
	assert_non_null(topology);
	assert_int_equal(topology->devices, 0);
	assert_int_equal(sample->unreclaimable_bytes, topology->pool[0].unreclaimable_bytes);
	int64_t worse = topology->u_top_bytes > topology->u_bot_bytes ? topology->u_top_bytes : topology->u_bot_bytes;
	assert_int_equal(sample->unreclaimable_bytes, worse);
	assert_int_equal(count, 1);
	assert_int_equal(asked[0].owner.pgid, 201);
	assert_int_equal(sample->owner[0].processes, 1);
}

static void on_failed(void *ctx, const char *text)
{
	struct bench *bench = ctx;

	assert_non_null(strstr(text, "meminfo"));
	bench->failed++;
}

static void on_late(void *ctx, const char *what)
{
	(void)ctx;
	(void)what;
}

static void open_bench(struct bench *bench)
{
	const char *folder = getenv("COTENANT_TEST_TREES");
	struct sampler_events events = { bench, owners, on_sample, on_failed, on_late };
	struct err err = { 0 };

	*bench = (struct bench){ 0 };
	snprintf(bench->root, sizeof(bench->root), "%s/hybrid", folder ? folder : "tests/trees");
	uv_loop_init(&bench->loop);
	assert_int_equal(topology_find(bench->root, &bench->topology, &err), 0);
	bench->sampler = sampler_new(&bench->loop, bench->root, &bench->topology, &events);
	assert_non_null(bench->sampler);
}

static void close_bench(struct bench *bench)
{
	sampler_close(bench->sampler);
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&bench->loop), 0);
}

static void wait_samples(struct bench *bench, uint32_t samples)
{
	while (bench->samples + bench->failed < samples)
		uv_run(&bench->loop, UV_RUN_ONCE);
}

static void after_an_end_one_comes_at_once_and_then_more(void **state)
{
	static struct bench bench;

	(void)state;
	open_bench(&bench);
	wait_samples(&bench, 1);
	/* The next one would come in ten seconds. */
	uint64_t before = uv_hrtime();
	sampler_pace(bench.sampler, PACE_RELEASE);
	wait_samples(&bench, 7);
	assert_true(uv_hrtime() - before < UINT64_C(5000000000));
	close_bench(&bench);
}

static void one_in_flight_at_the_end_is_followed_by_another(void **state)
{
	static struct bench bench;

	(void)state;
	open_bench(&bench);
	assert_int_equal(bench.asked, 1);
	/* What is being read may be from before the end. */
	sampler_pace(bench.sampler, PACE_RELEASE);
	assert_int_equal(bench.asked, 1);
	sampler_pace(bench.sampler, PACE_EMPTY);
	wait_samples(&bench, 2);
	assert_int_equal(bench.asked, 2);
	close_bench(&bench);
}

static void block(uv_work_t *work)
{
	uv_sem_wait(work->data);
}

/* A disk that hangs takes all of libuv's workers; memory may run out all the same. */
static void it_waits_for_nobody_elses_work(void **state)
{
	static struct bench bench;
	uv_work_t work[WORKERS];
	uv_sem_t free_again;

	(void)state;
	open_bench(&bench);
	uv_sem_init(&free_again, 0);
	for (int i = 0; i < WORKERS; i++) {
		work[i].data = &free_again;
		assert_int_equal(uv_queue_work(&bench.loop, &work[i], block, NULL), 0);
	}
	sampler_pace(bench.sampler, PACE_RELEASE);
	wait_samples(&bench, 4);
	for (int i = 0; i < WORKERS; i++)
		uv_sem_post(&free_again);
	close_bench(&bench);
	uv_sem_destroy(&free_again);
}

static void it_may_be_closed_while_it_reads(void **state)
{
	static struct bench bench;

	(void)state;
	open_bench(&bench);
	close_bench(&bench);
	assert_int_equal(bench.samples, 0);
	sampler_close(NULL);
}

static void what_cannot_be_read_is_told(void **state)
{
	static struct bench bench;

	(void)state;
	open_bench(&bench);
	wait_samples(&bench, 1);
	str_copy(bench.root, sizeof(bench.root), STR("/no/such/machine"));
	sampler_now(bench.sampler);
	wait_samples(&bench, 2);
	assert_int_equal(bench.failed, 1);
	close_bench(&bench);
}

/* ---- a driver that does not tell how much it holds: an engine's client, then somebody else's ---- */

struct untold {
	pid_t engine;
	int64_t vram_bytes; /* in use, as it was told last */
	uint32_t samples;
};

static uint32_t untold_owners(void *ctx, struct sampler_owner *out, uint32_t capacity)
{
	const struct untold *untold = ctx;

	assert_true(capacity > 0);
	out[0] = (struct sampler_owner){ .owner.pgid = untold->engine };
	return 1;
}

static void untold_sample(void *ctx, const struct sample *sample, const struct topology *topology,
                          const struct sampler_owner *asked, uint32_t count)
{
	struct untold *untold = ctx;

	(void)sample, (void)asked, (void)count;
	untold->samples++;
	untold->vram_bytes = topology ? topology->pool[1].unreclaimable_bytes : -1;
}

static void untold_failed(void *ctx, const char *text)
{
	(void)ctx;
	fail_msg("%s", text);
}

static void what_clients_hold_counts_where_a_driver_does_not_tell(void **state)
{
	static struct topology topology;
	const char *folder = getenv("COTENANT_TEST_TREES");
	const pid_t engines[] = { 950, 201 };
	char root[512];
	struct err err;

	(void)state;
	snprintf(root, sizeof(root), "%s/xe-card-untold", folder ? folder : "tests/trees");
	for (size_t i = 0; i < 2; i++) {
		struct untold untold = { .engine = engines[i] };
		struct sampler_events events = { .ctx = &untold, .owners = untold_owners, .on_sample = untold_sample,
			                         .on_failed = untold_failed };
		uv_loop_t loop;
		uv_loop_init(&loop);
		assert_int_equal(topology_find(root, &topology, &err), 0);
		struct sampler *sampler = sampler_new(&loop, root, &topology, &events);
		sampler_pace(sampler, PACE_RELEASE);
		while (untold.samples < 3) { /* those that look at all, and quick ones */
			uv_run(&loop, UV_RUN_ONCE);
			if (untold.samples > 0)
				assert_int_equal(untold.vram_bytes, INT64_C(8) << 30);
		}
		sampler_close(sampler);
		uv_run(&loop, UV_RUN_DEFAULT);
		assert_int_equal(uv_loop_close(&loop), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_an_end_one_comes_at_once_and_then_more),
		cmocka_unit_test(one_in_flight_at_the_end_is_followed_by_another),
		cmocka_unit_test(it_waits_for_nobody_elses_work),
		cmocka_unit_test(it_may_be_closed_while_it_reads),
		cmocka_unit_test(what_cannot_be_read_is_told),
		cmocka_unit_test(what_clients_hold_counts_where_a_driver_does_not_tell),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
