/*
 * Loading: ask for its health until it says yes, measure how far it is.
 *
 * A question is cheap and lateness is the client's time, so the pause between
 * two is a 256th of the time it has taken so far, from 1 to 50 ms; a line of
 * the log that sounds like readiness makes the next question come at once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/ask.h"
#include "engine/instance.h"
#include "engine/process.h"
#include "engine/reach.h"

enum { PAUSE_MIN_MS = 1, PAUSE_MAX_MS = 50, PAUSE_SHARE = 256 };
enum { ANSWER_MS = 1000, SLOTS_MS = 500, MEASURE_MS = 250 };

/* While bytes come in, permille runs between the stages that the log tells. */
enum { PERMILLE_FIRST = 60, PERMILLE_BYTES = 830 };

static void ask_health(uv_timer_t *timer);

static uint64_t now_ms(const struct instance *instance)
{
	return uv_now(instance->supervisor->options.loop);
}

void instance_stop_asking(struct instance *instance)
{
	if (instance->ask)
		ask_cancel(instance->ask);
	instance->ask = NULL;
	if (instance->reach)
		reach_cancel(instance->reach);
	instance->reach = NULL;
	uv_timer_stop(instance->timer);
}

const char *instance_health_path(const struct instance *instance)
{
	return instance->adapter->health_path ? instance->adapter->health_path : instance->model->health;
}

int instance_ask_health(struct instance *instance, instance_answer *done, uv_timer_cb late, uint32_t late_ms)
{
	struct ask_options options = {
		.loop = instance->supervisor->options.loop,
		.endpoint = &instance->endpoint,
		.path = instance_health_path(instance),
		.ctx = instance,
		.done = done,
	};
	int code = ask_start(&options, &instance->ask);

	if (code < 0) {
		instance->ask = NULL;
		instance->health_said = code;
		return code;
	}
	uv_timer_start(instance->timer, late, late_ms, 0);
	return 0;
}

static void ask_later(struct instance *instance)
{
	uint64_t pause = (now_ms(instance) - instance->started_ms) / PAUSE_SHARE;

	if (pause < PAUSE_MIN_MS)
		pause = PAUSE_MIN_MS;
	if (pause > PAUSE_MAX_MS)
		pause = PAUSE_MAX_MS;
	uv_timer_start(instance->timer, ask_health, pause, 0);
}

void instance_ask_now(struct instance *instance)
{
	if (instance->state != INSTANCE_LOADING)
		return;
	/* It says so a moment before it is so: ask now, and in quick steps from now on. */
	instance->started_ms = now_ms(instance);
	if (!instance->ask)
		uv_timer_start(instance->timer, ask_health, 0, 0);
}

static void tell_progress(struct instance *instance)
{
	const struct supervisor_events *events = &instance->supervisor->events;

	events->on_progress(events->ctx, instance->id, instance->permille);
}

void instance_reached(struct instance *instance, uint32_t permille)
{
	if (permille <= instance->permille)
		return;
	instance->permille = permille;
	tell_progress(instance);
}

/* Any movement is told, also where nobody knows how much is still to come: it is not stuck. */
static void measure(struct instance *instance)
{
	if (now_ms(instance) - instance->measured_ms < MEASURE_MS)
		return;
	instance->measured_ms = now_ms(instance);
	int64_t bytes = process_bytes_moved(instance->pid);
	if (bytes <= instance->bytes_moved)
		return;
	instance->bytes_moved = bytes;
	if (instance->file_bytes > 0) {
		int64_t most = bytes < instance->file_bytes ? bytes : instance->file_bytes;
		double share = (double)most / (double)instance->file_bytes;
		uint32_t permille = PERMILLE_FIRST + (uint32_t)(share * PERMILLE_BYTES);
		if (permille > instance->permille)
			instance->permille = permille;
	}
	tell_progress(instance);
}

static void become_ready(struct instance *instance)
{
	const struct supervisor_events *events = &instance->supervisor->events;

	instance_stop_asking(instance);
	instance->state = INSTANCE_READY;
	instance->was_ready = true;
	instance_is_well(instance);
	if (instance->outside)
		instance_watch(instance);
	events->on_ready(events->ctx, instance->id, instance->slots, instance->context_tokens);
}

/* [{"id":0,"n_ctx":4096,...},...]: how many, and how large. False where it is not that. */
static bool parse_slots(struct str body, uint32_t *slots, uint32_t *context_tokens)
{
	static const char key[] = "\"n_ctx\":";
	uint32_t count = 0;
	uint64_t context = 0;

	while (body.length) {
		const char *at = memmem(body.data, body.length, key, sizeof(key) - 1);
		if (!at)
			break;
		at += sizeof(key) - 1;
		body.length -= (size_t)(at - body.data);
		body.data = at;
		size_t digits = 0;
		while (digits < body.length && digits < 10 && at[digits] >= '0' && at[digits] <= '9')
			digits++;
		if (!str_to_u64((struct str){ at, digits }, &context) || context > UINT32_MAX)
			return false;
		count++;
	}
	if (count == 0)
		return false;
	*slots = count;
	*context_tokens = (uint32_t)context;
	return true;
}

static void on_slots(void *ctx, int status, struct str body)
{
	struct instance *instance = ctx;

	instance->ask = NULL;
	if (status == 200)
		parse_slots(body, &instance->slots, &instance->context_tokens);
	become_ready(instance);
}

static void on_slots_late(uv_timer_t *timer)
{
	become_ready(timer->data);
}

/* It is healthy. What it made of our flags is asked once; without an answer they count as asked. */
void instance_ask_slots(struct instance *instance)
{
	struct ask_options options = {
		.loop = instance->supervisor->options.loop,
		.endpoint = &instance->endpoint,
		.path = instance->adapter->slots_path,
		.whole = true,
		.ctx = instance,
		.done = on_slots,
	};

	if (!options.path || ask_start(&options, &instance->ask) < 0)
		become_ready(instance);
	else
		uv_timer_start(instance->timer, on_slots_late, SLOTS_MS, 0);
}

static void on_health(void *ctx, int status, struct str body)
{
	struct instance *instance = ctx;
	(void)body;

	instance->ask = NULL;
	instance->health_said = status;
	if (status == 200 || status == 0)
		instance_ask_slots(instance);
	else
		ask_later(instance);
}

/* It took the connection and says nothing: another try. */
static void on_health_late(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	instance_stop_asking(instance);
	instance->health_said = -ETIMEDOUT;
	measure(instance);
	ask_later(instance);
}

static void ask_health(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	measure(instance);
	if (instance_ask_health(instance, on_health, on_health_late, ANSWER_MS) < 0)
		ask_later(instance);
}

void instance_begin_loading(struct instance *instance)
{
	instance->state = INSTANCE_LOADING;
	instance->started_ms = now_ms(instance);
	uv_timer_start(instance->timer, ask_health, PAUSE_MIN_MS, 0);
}

void instance_health_text(const struct instance *instance, char *out, size_t out_bytes)
{
	const struct endpoint *endpoint = &instance->endpoint;
	const char *path = instance_health_path(instance);
	int said = instance->health_said;
	char where[140];

	if (instance->outside)
		snprintf(where, sizeof(where), "%.120s", instance->model->url);
	else if (endpoint->path[0])
		snprintf(where, sizeof(where), "%s", endpoint->path);
	else
		snprintf(where, sizeof(where), "127.0.0.1:%u", endpoint->port);
	if (said > 0)
		snprintf(out, out_bytes, "%.100s answered %d", path, said);
	else if (said == -ECONNREFUSED || said == -ENOENT)
		snprintf(out, out_bytes, "nobody listens at %s, where it was told to", where);
	else if (said == -EPROTO)
		snprintf(out, out_bytes, "what it answers at %s is no HTTP", where);
	else
		snprintf(out, out_bytes, "it takes connections at %s and does not answer", where);
}
