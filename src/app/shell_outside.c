/*
 * Servers that we do not run are attached when they are there: at our start, and
 * again when one that went has come back, without anybody having to ask. So each
 * is looked for every second while it is not in use (the supervisor watches those
 * that are). What is found goes to the arbiter as a wish to be resident, which
 * also forgives that it was missing.
 */
#include "app/shell.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "engine/reach.h"

enum { LOOK_MS = 1000, LOOK_MOST_MS = 60000 };

struct outside {
	struct shell *shell;
	uint32_t model;
	const struct conf_model *conf;
	bool up;
	uint64_t pause_ms; /* until the next look: longer where one that is there is of no use */
	struct reach *reach;
	uv_timer_t timer;
	struct outside *next;
};

static struct outside *find(const struct shell *shell, uint32_t model)
{
	struct outside *outside = shell->outsides;

	while (outside && outside->model != model)
		outside = outside->next;
	return outside;
}

bool shell_outside_is_up(const struct shell *shell, uint32_t model)
{
	const struct outside *outside = find(shell, model);

	return outside && outside->up;
}

static void found(struct outside *outside, bool up)
{
	if (outside->up == up)
		return;
	outside->up = up;
	shell_push_model(outside->shell, outside->model, false);
}

void shell_outside_lost(struct shell *shell, uint32_t model)
{
	struct outside *outside = find(shell, model);

	if (!outside)
		return;
	/* It took a connection, and failed all the same. */
	if (outside->up)
		outside->pause_ms = outside->pause_ms < LOOK_MOST_MS / 2 ? 2 * outside->pause_ms : LOOK_MOST_MS;
	found(outside, false);
}

static void look(uv_timer_t *timer);

static void on_reached(void *ctx, const struct reach_result *result)
{
	struct outside *outside = ctx;

	outside->reach = NULL;
	if (!result->connected)
		outside->pause_ms = LOOK_MS; /* who comes anew is tried at once */
	found(outside, result->connected);
	uv_timer_start(&outside->timer, look, outside->pause_ms, 0);
}

static void look(uv_timer_t *timer)
{
	struct outside *outside = timer->data;
	struct model_view view;
	bool attached = arbiter_model(outside->shell->arbiter, outside->model, &view) &&
	                !id_is_none(view.instance);

	if (attached) {
		bool serves = view.state == MODEL_IDLE || view.state == MODEL_BUSY;
		outside->pause_ms = serves ? LOOK_MS : outside->pause_ms;
		uv_timer_start(timer, look, outside->pause_ms, 0);
		return;
	}
	outside->reach = reach_start(&(struct reach_options){
		.loop = &outside->shell->loop,
		.model = outside->conf,
		.ctx = outside,
		.done = on_reached,
	});
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void let_go(struct outside *outside)
{
	if (outside->reach)
		reach_cancel(outside->reach);
	uv_close((uv_handle_t *)&outside->timer, on_timer_closed);
}

void shell_look_outside(struct shell *shell)
{
	struct outside *old = shell->outsides, *fresh = NULL;

	for (uint32_t i = 0; i < shell->conf->model_count; i++) {
		const struct conf_model *conf = &shell->conf->models[i];
		if (conf->absent || !conf_is_outside(conf))
			continue;
		struct outside *outside = xcalloc(1, sizeof(*outside));
		*outside = (struct outside){
			.shell = shell, .model = i, .conf = conf,
			.up = shell_outside_is_up(shell, i), .pause_ms = LOOK_MS, .next = fresh,
		};
		uv_timer_init(&shell->loop, &outside->timer);
		outside->timer.data = outside;
		uv_timer_start(&outside->timer, look, 0, 0);
		fresh = outside;
	}
	shell->outsides = fresh;
	while (old) {
		struct outside *next = old->next;
		let_go(old);
		old = next;
	}
}

void shell_close_outside(struct shell *shell)
{
	while (shell->outsides) {
		struct outside *outside = shell->outsides;
		shell->outsides = outside->next;
		let_go(outside);
	}
}
