/*
 * A server that we do not run: found and asked instead of started, left alone
 * instead of ended. While it is in use a connection every few seconds tells that
 * it is still there; a single-threaded server takes one also while it computes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/instance.h"
#include "engine/reach.h"

enum { AGAIN_MS = 250, WATCH_MS = 5000, WATCH_AGAIN_MS = 1000, MISSES_MAX = 2 };

static void attach_again(uv_timer_t *timer);
static void watch(uv_timer_t *timer);

static void part(struct instance *instance)
{
	struct supervisor *supervisor = instance->supervisor;

	instance_stop_asking(instance);
	instance->state = INSTANCE_ENDED;
	supervisor->events.on_ended(supervisor->events.ctx, instance->id, &instance->ending);
	instance_tell_gone(instance);
}

static void lose(struct instance *instance, const char *why)
{
	instance->ending.fail = FAIL_UNREACHABLE;
	/* It is looked for all the time: nobody need wait for a second try. */
	instance->ending.never_ready = true;
	snprintf(instance->ending.text, sizeof(instance->ending.text),
	         "the server at %.100s %s; start it there, or correct models.%.60s.url",
	         instance->model->url, why, instance->model->name);
	part(instance);
}

static void lose_unreached(struct instance *instance, const struct reach_result *result)
{
	char why[120];

	snprintf(why, sizeof(why), "cannot be reached (%s)", result->what);
	lose(instance, why);
}

/* ---- while it is in use ---- */

static void on_watched(void *ctx, const struct reach_result *result)
{
	struct instance *instance = ctx;

	instance->reach = NULL;
	instance->misses = result->connected ? 0 : instance->misses + 1;
	if (instance->misses == MISSES_MAX) {
		lose_unreached(instance, result);
		return;
	}
	if (result->owner)
		instance->pid = result->owner; /* it may have been started anew */
	uv_timer_start(instance->timer, watch, instance->misses ? WATCH_AGAIN_MS : WATCH_MS, 0);
}

static void watch(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	instance->reach = reach_start(&(struct reach_options){
		.loop = instance->supervisor->options.loop,
		.model = instance->model,
		.find_owner = true,
		.ctx = instance,
		.done = on_watched,
	});
}

void instance_watch(struct instance *instance)
{
	uv_timer_start(instance->timer, watch, WATCH_MS, 0);
}

/* ---- finding it ---- */

static void on_reached(void *ctx, const struct reach_result *result)
{
	struct instance *instance = ctx;
	const struct supervisor_events *events = &instance->supervisor->events;

	instance->reach = NULL;
	if (!result->connected) {
		lose_unreached(instance, result);
		return;
	}
	if (result->owner == getpid()) {
		lose(instance, "is this daemon itself: what is sent there would come back");
		return;
	}
	if (result->status == -EPROTO) {
		lose(instance, "does not speak HTTP");
		return;
	}
	/* It takes connections but is not ready: it loads, or computes one thing at a time. */
	if (result->status < 0 || result->status >= 500) {
		uv_timer_start(instance->timer, attach_again, AGAIN_MS, 0);
		return;
	}
	instance->endpoint = result->endpoint;
	instance->pid = result->owner;
	if (instance->pid)
		events->on_spawned(events->ctx, instance->id, instance->pid);
	instance_ask_slots(instance);
}

static void attach_again(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	instance->reach = reach_start(&(struct reach_options){
		.loop = instance->supervisor->options.loop,
		.model = instance->model,
		.path = instance_health_path(instance),
		.find_owner = true,
		.ctx = instance,
		.done = on_reached,
	});
}

void instance_attach(struct instance *instance)
{
	instance->state = INSTANCE_LOADING;
	instance->started_ms = uv_now(instance->supervisor->options.loop);
	attach_again(instance->timer);
}

static void on_let_go(uv_timer_t *timer)
{
	part(timer->data);
}

void instance_detach(struct instance *instance)
{
	snprintf(instance->ending.text, sizeof(instance->ending.text), "the server at %.100s was let go of",
	         instance->model->url);
	/* Not within the call that asks for it. */
	uv_timer_start(instance->timer, on_let_go, 0, 0);
}
