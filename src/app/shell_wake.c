/*
 * After the machine slept. Its devices may be others, what was measured is old,
 * and an engine may have lost its GPU without ending: it is found by its health,
 * or by being much slower than it was. The time asleep is no idle time.
 */
#include "app/shell.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/units.h"

enum {
	SLOW_PART = 4,     /* a quarter of its speed or less: the device is gone */
	TOKENS_LEAST = 8,  /* fewer tell nothing of a speed */
	ON_BATTERY_IDLE_US = 600000000,
};

void shell_woke(struct shell *shell, int64_t slept_us)
{
	char span[UNITS_TEXT];

	log_info("the machine slept for %s: it is looked at anew, and so are the engines",
	         units_duration(span, slept_us));
	sampler_find_again(shell->sampler);
	for (uint32_t i = 0; i < shell->instances_used; i++) {
		struct instance_row *row = &shell->instances[i];
		struct model_view view;
		if (!row->live || row->gone || !arbiter_model(shell->arbiter, row->model, &view))
			continue;
		row->woke = true;
		/* One that computes may be too busy to answer: its speed will tell. */
		if (view.state == MODEL_IDLE)
			supervisor_check(shell->supervisor, row->id);
	}
}

static void give_up(struct shell *shell, struct id instance)
{
	struct event event = shell_event(EVENT_INSTANCE_UNHEALTHY);

	event.instance.instance = instance;
	shell_push(shell, &event);
}

void shell_on_unhealthy(void *ctx, struct id instance, const char *text)
{
	struct shell *shell = ctx;
	const struct instance_row *row = shell_instance(shell, instance);

	if (!row)
		return;
	str_copy(shell->last_error[row->model], sizeof(shell->last_error[0]), str_from(text));
	log_warn("%s: %s; it is started anew when it is asked for", shell->conf->models[row->model].name, text);
	give_up(shell, instance);
}

void shell_note_speed(struct shell *shell, uint32_t model, int64_t tokens, int64_t us)
{
	struct id instance = arbiter_instance(shell->arbiter, model);
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || tokens < TOKENS_LEAST || us <= 0)
		return;
	double speed = (double)tokens * US_PER_S / (double)us;
	if (row->woke && row->speed > 0 && speed < row->speed / SLOW_PART) {
		log_warn("%s answers %.1f tokens/s, before the machine slept it was %.1f: its device is gone",
		         shell->conf->models[row->model].name, speed, row->speed);
		give_up(shell, instance);
		return;
	}
	row->woke = false;
	row->speed = row->speed > 0 ? row->speed * 0.8 + speed * 0.2 : speed;
}

/* ---- where the power comes from ---- */

void shell_fill_idle_time(const struct shell *shell, const struct conf_model *model, struct model_spec *spec)
{
	if (model->unload_after_us == CONF_BY_POWER)
		spec->unload_after_us = shell->on_battery ? ON_BATTERY_IDLE_US : -1;
}

void shell_note_power(struct shell *shell, const struct sample *sample)
{
	if (sample->on_battery == shell->on_battery)
		return;
	shell->on_battery = sample->on_battery;
	log_info(shell->on_battery ? "on battery: idle models with unload_after: auto go after ten minutes"
	                           : "on mains: idle models with unload_after: auto stay");
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		if (!shell->conf->models[i].absent && shell->conf->models[i].unload_after_us == CONF_BY_POWER)
			shell_push_model(shell, i, false);
}
