#include "app/sampler.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "base/alloc.h"
#include "probe/nvml.h"
#include "probe/programs.h"
#include "probe/reading.h"
#include "probe/seen.h"

enum {
	RELEASE_SECOND_MS = 1, /* the first comes at once */
	RELEASE_LAST_MS = 50,
	MOVING_MS = 200,
	STEADY_MS = 1000,
	EMPTY_MS = 10000,
	LATE_MS = 5000,
	LATE_AGAIN_MS = 1000,
	LATE_AT_END_MS = 1000,
	NVML_EVERY_S = 15, /* while no engine uses a GPU */
	ALL_EVERY = 5, /* while nothing changes, all processes are looked at that seldom */
};

struct sampler {
	uv_timer_t timer;
	uv_async_t back;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct reading reading;
	bool wanted; /* of the thread: a sample; under the lock */
	bool ends;   /* of the thread: to return; under the lock */
	struct sampler_events events;
	const char *root;
	enum sampler_pace pace;
	uint32_t release_ms; /* next step of the ladder */
	uint32_t most_ms;    /* between two samples */
	bool in_flight;
	bool again; /* the pace rose while a sample was in flight */
	bool closing;
	int64_t usual_bytes; /* given to the topology with the next sample */
	bool find_again; /* asked for by the loop */
	bool finding;    /* with the sample in flight */
	bool topology_read; /* along with this sample */
	uint32_t count;
	int code;
	struct err err;
	struct sampler_owner owners[SAMPLE_OWNERS_MAX];
	struct sample sample;
	struct topology topology;
	time_t nvml_asked_s; /* CLOCK_MONOTONIC; 0 = it is to be asked */
	bool ask_devices;    /* asked for by the loop */
	uint32_t until_all;
	int64_t others_bytes[POOLS_KNOWN_MAX]; /* held of GPUs by nobody of ours, as their clients told last */
};

/* Open from this sample on while an engine uses a device; an open one keeps devices awake. */
static void keep_nvml(struct sampler *sampler)
{
	bool used = false;

	for (uint32_t i = 0; i < sampler->count; i++)
		used |= sampler->owners[i].gpu;
	for (uint32_t i = 0; i < sampler->sample.owners; i++)
		for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
			used |= sampler->sample.owner[i].gpu_bytes[pool] > 0;
	if (used && sampler->topology.calls.nvmls > 0 && !sampler->topology.nvml) {
		sampler->topology.nvml = nvml_open(NULL);
	} else if (!used && sampler->topology.nvml) {
		nvml_close(sampler->topology.nvml);
		sampler->topology.nvml = NULL;
	}
}

/*
 * A driver that does not tell how much it holds: then what its clients tell. Engines are asked with each sample,
 * everybody else with those that look at all.
 */
static void count_clients(struct sampler *sampler)
{
	struct topology *topology = &sampler->topology;

	if (!topology_needs_clients(topology))
		return;
	if (!sampler->sample.quick) {
		struct programs *others = xmalloc(sizeof(*others));
		struct programs_skip skip = { .count = 0 };
		for (uint32_t i = 0; i < sampler->sample.owners && skip.count < PROGRAMS_SKIP_MAX; i++) {
			const struct sample_owner *owner = &sampler->sample.owner[i];
			skip.group[skip.count++] = owner->pgid ? owner->pgid : owner->pid;
		}
		programs_read(sampler->root, topology, &skip, others);
		memcpy(sampler->others_bytes, others->gpu_bytes, sizeof(sampler->others_bytes));
		free(others);
	}
	memcpy(topology->clients_bytes, sampler->others_bytes, sizeof(topology->clients_bytes));
	for (uint32_t i = 0; i < sampler->sample.owners; i++)
		for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
			topology->clients_bytes[pool] += sampler->sample.owner[i].gpu_bytes[pool];
}

/* To open the library takes tens of milliseconds, and wakes devices. */
static void judge_nvml(struct sampler *sampler)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sampler->topology.nvml_stays = sampler->nvml_asked_s > 0 && now.tv_sec - sampler->nvml_asked_s < NVML_EVERY_S;
	if (!sampler->topology.nvml_stays)
		sampler->nvml_asked_s = now.tv_sec;
}

/* What cannot be found now is what was there before. */
static void find(struct sampler *sampler)
{
	struct topology *found = xcalloc(1, sizeof(*found));
	struct err ignored;
	bool there = topology_find(sampler->root, found, &ignored) == 0;

	found->nvml = sampler->topology.nvml;
	found->usual_unaccounted_bytes = sampler->topology.usual_unaccounted_bytes;
	if (there)
		sampler->topology = *found;
	free(found);
}

/*
 * The pools and views of the same moment: the second of the two sums, and what each view says. The sample has the
 * first, which alone counts where the other cannot be made and no GPU is there.
 */
static void read_topology(struct sampler *sampler)
{
	struct topology *t = &sampler->topology;
	struct sample *sample = &sampler->sample;
	struct err ignored;

	t->hot_file_bytes = sample->hot_file_bytes;
	t->handles = &sample->seen->handles;
	t->cgroup_told = true;
	t->cgroup_limit_bytes = sample->cgroup_limit_bytes;
	t->cgroup_used_bytes = sample->cgroup_used_bytes;
	count_clients(sampler);
	judge_nvml(sampler);
	int code = topology_read(sampler->root, t, t->devices ? &sampler->err : &ignored);
	t->handles = NULL;
	sampler->topology_read = code == 0;
	if (t->devices > 0)
		sampler->code = code;
	if (code < 0)
		return;
	inputs_add(&t->inputs, &sample->inputs);
	sample->unreclaimable_bytes = t->pool[0].unreclaimable_bytes;
}

static void read_sample(struct sampler *sampler)
{
	sampler->topology_read = false;
	if (sampler->finding)
		find(sampler);
	sampler->sample.topology = &sampler->topology;
	sampler->code = sample_read(sampler->root, &sampler->sample, &sampler->err);
	sampler->sample.topology = NULL;
	if (sampler->code < 0)
		return;
	keep_nvml(sampler);
	read_topology(sampler);
}

/* All but `wanted` and `ends` is the thread's while a sample is in flight, and the loop's else. */
static void *run(void *arg)
{
	struct sampler *sampler = arg;

	reading_begin(&sampler->reading);
	for (;;) {
		pthread_mutex_lock(&sampler->lock);
		while (!sampler->wanted && !sampler->ends)
			pthread_cond_wait(&sampler->news, &sampler->lock);
		bool ends = sampler->ends;
		sampler->wanted = false;
		pthread_mutex_unlock(&sampler->lock);
		if (ends)
			return NULL;
		read_sample(sampler);
		uv_async_send(&sampler->back);
	}
}

static void tell_thread(struct sampler *sampler, bool *what)
{
	pthread_mutex_lock(&sampler->lock);
	*what = true;
	pthread_mutex_unlock(&sampler->lock);
	pthread_cond_signal(&sampler->news); /* it would only wait for the lock */
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct sampler *sampler = handle->data;

	nvml_close(sampler->topology.nvml);
	seen_free(sampler->sample.seen);
	pthread_cond_destroy(&sampler->news);
	pthread_mutex_destroy(&sampler->lock);
	free(sampler);
}

static void on_back_closed(uv_handle_t *handle)
{
	struct sampler *sampler = handle->data;

	uv_close((uv_handle_t *)&sampler->timer, on_timer_closed);
}

/* The thread waits for work, so it is back at once. */
static void finish(struct sampler *sampler)
{
	tell_thread(sampler, &sampler->ends);
	pthread_join(sampler->thread, NULL);
	uv_close((uv_handle_t *)&sampler->back, on_back_closed);
}

static void arm(struct sampler *sampler);

static void on_back(uv_async_t *back)
{
	struct sampler *sampler = back->data;

	assert(sampler->in_flight);
	sampler->in_flight = false;
	uv_timer_stop(&sampler->timer);
	if (sampler->closing) {
		finish(sampler);
		return;
	}
	if (sampler->code == 0)
		sampler->events.on_sample(sampler->events.ctx, &sampler->sample,
		                          sampler->topology_read ? &sampler->topology : NULL, sampler->owners,
		                          sampler->count);
	else
		sampler->events.on_failed(sampler->events.ctx, sampler->err.text);
	arm(sampler);
}

static void on_late(uv_timer_t *timer)
{
	struct sampler *sampler = timer->data;
	char what[READING_NAME_BYTES];

	reading_tell(&sampler->reading, what, sizeof(what));
	sampler->again = true; /* what it tells will be from long ago, in part */
	sampler->events.on_late(sampler->events.ctx, what);
}

static void begin(struct sampler *sampler)
{
	sampler->again = false;
	sampler->count =
	        sampler->events.owners(sampler->events.ctx, sampler->owners, SAMPLE_OWNERS_MAX);
	assert(sampler->count <= SAMPLE_OWNERS_MAX);
	sampler->sample.owners = sampler->count;
	for (uint32_t i = 0; i < sampler->count; i++)
		sampler->sample.owner[i] = sampler->owners[i].owner;
	/* Engines have the processes that they had. Where there are none, nothing is saved by not looking at the rest. */
	sampler->sample.quick = sampler->until_all > 0 && sampler->count > 0;
	sampler->until_all = sampler->sample.quick ? sampler->until_all - 1 : ALL_EVERY - 1;
	sampler->topology.usual_unaccounted_bytes = sampler->usual_bytes;
	if (sampler->ask_devices || sampler->find_again)
		sampler->nvml_asked_s = 0;
	sampler->ask_devices = false;
	sampler->finding = sampler->find_again;
	sampler->find_again = false;
	sampler->in_flight = true;
	uv_update_time(sampler->timer.loop);
	uv_timer_start(&sampler->timer, on_late, LATE_MS, LATE_AGAIN_MS);
	tell_thread(sampler, &sampler->wanted);
}

static void on_timer(uv_timer_t *timer)
{
	begin(timer->data);
}

static uint64_t pace_ms(struct sampler *sampler)
{
	switch (sampler->pace) {
	case PACE_EMPTY:
		return EMPTY_MS;
	case PACE_STEADY:
		return STEADY_MS;
	case PACE_MOVING:
		return MOVING_MS;
	case PACE_RELEASE:
		break;
	}
	uint32_t ms = sampler->release_ms;
	uint32_t next_ms = ms ? ms * 2 : RELEASE_SECOND_MS;
	sampler->release_ms = next_ms < RELEASE_LAST_MS ? next_ms : RELEASE_LAST_MS;
	return ms;
}

static uint64_t next_ms(struct sampler *sampler)
{
	uint64_t ms = pace_ms(sampler);

	if (sampler->code < 0 && ms > STEADY_MS)
		ms = STEADY_MS; /* what cannot be read now is wanted all the more */
	return ms < sampler->most_ms ? ms : sampler->most_ms;
}

static void arm(struct sampler *sampler)
{
	if (sampler->in_flight || sampler->closing)
		return;
	uint64_t ms = sampler->again ? 0 : next_ms(sampler);
	/* The loop's idea of now is from the turn's start; a step of 1 ms needs better. */
	uv_update_time(sampler->timer.loop);
	uv_timer_start(&sampler->timer, on_timer, ms, 0);
}

struct sampler *sampler_new(uv_loop_t *loop, const char *root, const struct topology *topology,
                            const struct sampler_events *events)
{
	struct sampler *sampler = xcalloc(1, sizeof(*sampler));

	sampler->events = *events;
	sampler->root = root;
	sampler->sample.seen = seen_new();
	sampler->topology = *topology;
	sampler->pace = PACE_EMPTY;
	sampler->most_ms = UINT32_MAX;
	pthread_mutex_init(&sampler->lock, NULL);
	pthread_cond_init(&sampler->news, NULL);
	reading_init(&sampler->reading);
	uv_timer_init(loop, &sampler->timer);
	uv_async_init(loop, &sampler->back, on_back);
	sampler->timer.data = sampler->back.data = sampler;
	if (pthread_create(&sampler->thread, NULL, run, sampler) != 0) {
		uv_close((uv_handle_t *)&sampler->back, on_back_closed);
		return NULL;
	}
	begin(sampler);
	return sampler;
}

void sampler_pace(struct sampler *sampler, enum sampler_pace pace)
{
	bool faster = pace > sampler->pace || pace == PACE_RELEASE;

	sampler->pace = pace;
	if (pace == PACE_RELEASE)
		sampler->release_ms = 0;
	if (!faster)
		return;
	sampler->again = sampler->in_flight;
	arm(sampler);
}

void sampler_within(struct sampler *sampler, uint32_t ms)
{
	sampler->most_ms = ms;
}

void sampler_usual(struct sampler *sampler, int64_t unaccounted_bytes)
{
	sampler->usual_bytes = unaccounted_bytes;
}

void sampler_find_again(struct sampler *sampler)
{
	sampler->find_again = true;
	sampler_now(sampler);
}

void sampler_ask_devices(struct sampler *sampler)
{
	sampler->ask_devices = true;
	sampler_now(sampler);
}

void sampler_look_again(struct sampler *sampler)
{
	sampler->until_all = 0;
	sampler_now(sampler);
}

void sampler_now(struct sampler *sampler)
{
	sampler->again = true;
	arm(sampler);
}

void sampler_close(struct sampler *sampler)
{
	if (!sampler)
		return;
	sampler->closing = true;
	uv_timer_stop(&sampler->timer);
	if (sampler->in_flight)
		uv_timer_start(&sampler->timer, on_late, LATE_AT_END_MS, 0);
	else
		finish(sampler);
}
