#ifndef TEST_ENGINE_BENCH_H
#define TEST_ENGINE_BENCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "engine/supervisor.h"
#include "io/keeper.h"
#include "models.h"

/* A loop, a keeper and a supervisor, and what was reported of the instance under test. */
struct bench {
	uv_loop_t loop;
	uv_timer_t alarm;
	struct keeper *keeper;
	struct supervisor *supervisor;
	struct conf *conf;
	char folder[32];
	uint32_t generation;

	bool is_encoder; /* the next one */
	int64_t bound_bytes;

	struct id id; /* of the last one spawned */
	pid_t pid;
	int spawned, progress, ready, ended, gone;
	uint32_t permille, slots, context_tokens;
	uint64_t spawned_ns, ready_ns, ended_ns, gone_ns;
	struct ending ending;
};

static inline void on_spawned(void *ctx, struct id id, pid_t pid)
{
	struct bench *bench = ctx;
	assert_true(id_equal(id, bench->id));
	bench->spawned++;
	bench->pid = pid;
	bench->spawned_ns = uv_hrtime();
}

static inline void on_progress(void *ctx, struct id id, uint32_t permille)
{
	struct bench *bench = ctx;
	assert_true(id_equal(id, bench->id));
	assert_true(permille >= bench->permille);
	bench->progress++;
	bench->permille = permille;
}

static inline void on_ready(void *ctx, struct id id, uint32_t slots, uint32_t context_tokens)
{
	struct bench *bench = ctx;
	assert_true(id_equal(id, bench->id));
	bench->ready++;
	bench->slots = slots;
	bench->context_tokens = context_tokens;
	bench->ready_ns = uv_hrtime();
}

static inline void on_ended(void *ctx, struct id id, const struct ending *ending)
{
	struct bench *bench = ctx;
	assert_true(id_equal(id, bench->id));
	bench->ended++;
	bench->ending = *ending;
	bench->ended_ns = uv_hrtime();
}

static inline void on_gone(void *ctx, struct id id, const struct ending *ending)
{
	struct bench *bench = ctx;
	assert_true(id_equal(id, bench->id));
	assert_int_equal(bench->ended, 1);
	assert_string_equal(ending->text, bench->ending.text);
	bench->gone++;
	bench->gone_ns = uv_hrtime();
}

enum { PULSE_MS = 5 };

/* Only wakes the loop: what is waited for may come from a timer, and then the loop would go on to sleep. */
static inline void on_alarm(uv_timer_t *timer)
{
	(void)timer;
}

static inline int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct err err = { 0 };

	*state = bench;
	bench->keeper = keeper_fork(&err);
	assert_non_null(bench->keeper);
	uv_loop_init(&bench->loop);
	uv_timer_init(&bench->loop, &bench->alarm);
	bench->alarm.data = bench;
	snprintf(bench->folder, sizeof(bench->folder), "/tmp/supervisor-XXXXXX");
	assert_non_null(mkdtemp(bench->folder));
	struct supervisor_options options = {
		.loop = &bench->loop, .keeper = bench->keeper, .socket_dir = bench->folder, .instances_max = 2,
		.drain_divisor = 20,
	};
	struct supervisor_events events = { bench, on_spawned, on_progress, on_ready, on_ended, on_gone, NULL, NULL };
	bench->supervisor = supervisor_new(&options, &events);
	assert_non_null(bench->supervisor);
	return 0;
}

static inline int teardown(void **state)
{
	struct bench *bench = *state;

	keeper_close(bench->keeper);
	supervisor_free(bench->supervisor);
	uv_close((uv_handle_t *)&bench->alarm, NULL);
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&bench->loop), 0);
	if (bench->conf)
		conf_free(bench->conf);
	/* Every socket was removed. */
	assert_int_equal(rmdir(bench->folder), 0);
	free(bench);
	return 0;
}

/* Runs the loop until *counter is `value`; false after so long. */
static inline bool comes(struct bench *bench, const int *counter, int value, uint64_t ms)
{
	uint64_t end = uv_hrtime() + ms * 1000000;

	uv_timer_start(&bench->alarm, on_alarm, PULSE_MS, PULSE_MS);
	while (*counter < value && uv_hrtime() < end)
		uv_run(&bench->loop, UV_RUN_ONCE);
	uv_timer_stop(&bench->alarm);
	return *counter >= value;
}

#define WAIT(what) assert_true(comes(bench, &bench->what, 1, 60000))

static inline int try_spawn(struct bench *bench, uint32_t slots, uint32_t context_tokens, struct err *err)
{
	bench->spawned = bench->progress = bench->ready = bench->ended = bench->gone = 0;
	bench->permille = 0;
	bench->id = (struct id){ 0, ++bench->generation };
	struct spawn_order order = {
		.instance = bench->id,
		.sequence = bench->generation,
		.model = &bench->conf->models[0],
		.slots = slots,
		.context_tokens = context_tokens,
		.tuning = { .is_encoder = bench->is_encoder },
		.bound_bytes = bench->bound_bytes,
	};
	return supervisor_spawn(bench->supervisor, &order, err);
}

static inline void spawn(struct bench *bench)
{
	struct err err = { 0 };
	if (try_spawn(bench, 2, 1024, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void configure(struct bench *bench, const char *yaml)
{
	if (bench->conf)
		conf_free(bench->conf);
	bench->conf = conf_from(yaml);
}

static inline int count_fds(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/fd");
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

#endif
