/*
 * Is one that was well still well? Asked where there is reason to doubt: a
 * machine that slept may have taken its device away while it lived on.
 */
#include <errno.h>
#include <stdio.h>

#include "engine/instance.h"

enum { CHECK_TRIES = 3, CHECK_ANSWER_MS = 3000, CHECK_AGAIN_MS = 1000 };

static void check(uv_timer_t *timer);

static void is_sick(struct instance *instance)
{
	const struct supervisor_events *events = &instance->supervisor->events;
	char text[400], health[256];

	instance_health_text(instance, health, sizeof(health));
	snprintf(text, sizeof(text), "%s is no longer well after the machine slept: %s", instance->name, health);
	events->on_unhealthy(events->ctx, instance->id, text);
}

static void missed(struct instance *instance)
{
	if (++instance->misses < CHECK_TRIES)
		uv_timer_start(instance->timer, check, CHECK_AGAIN_MS, 0);
	else
		is_sick(instance);
}

static void on_answer(void *ctx, int status, struct str body)
{
	struct instance *instance = ctx;

	(void)body;
	instance->ask = NULL;
	uv_timer_stop(instance->timer);
	instance->health_said = status;
	if (status < 0 || status >= 500)
		missed(instance);
}

static void on_late(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	instance_stop_asking(instance);
	instance->health_said = -ETIMEDOUT;
	missed(instance);
}

static void check(uv_timer_t *timer)
{
	struct instance *instance = timer->data;

	if (instance_ask_health(instance, on_answer, on_late, CHECK_ANSWER_MS) < 0)
		missed(instance);
}

void instance_check(struct instance *instance)
{
	/* A server that we do not run is watched anyway. */
	if (instance->state != INSTANCE_READY || instance->outside || instance->ask)
		return;
	instance->misses = 0;
	check(instance->timer);
}
