/*
 * A model's file is looked at when somebody asks for it and it may have to be
 * loaded: one that was mended or has arrived serves without a reload, and one
 * that was replaced is not admitted by what its predecessor took. The look
 * reads the disk, so it runs on a worker, and those who ask meanwhile wait for
 * the same look. An engine that was never tried out is, within such a look: by the first
 * who asks, or by itself after the start.
 */
#include "app/shell.h"

#include <stdlib.h>

#include "base/alloc.h"

struct asked {
	struct id ticket;
	struct request_spec spec;
	struct asked *next;
};

struct recheck {
	uv_work_t work;
	struct shell *shell;
	uint32_t model;
	const struct conf_model *conf_model;
	struct catalogue_ground ground;
	struct catalogue_row row; /* as it stands, then as it was found */
	bool changed;
	struct asked *first;
	struct recheck *next;
};

static struct recheck *find(const struct shell *shell, uint32_t model)
{
	struct recheck *recheck = shell->rechecks;

	while (recheck && recheck->model != model)
		recheck = recheck->next;
	return recheck;
}

static void unlink_recheck(struct shell *shell, const struct recheck *recheck)
{
	struct recheck **at = &shell->rechecks;

	while (*at != recheck)
		at = &(*at)->next;
	*at = recheck->next;
}

static void look(uv_work_t *work)
{
	struct recheck *recheck = work->data;

	recheck->changed = recheck->row.error[0] ||
	                   !catalogue_is_current(recheck->conf_model, &recheck->ground, &recheck->row);
	if (recheck->changed)
		catalogue_refresh(recheck->conf_model, &recheck->ground, &recheck->row);
}

static void answer(struct shell *shell, struct asked *asked)
{
	/* Its client may have left while we looked. */
	if (!ticket_is_open(shell->tickets, asked->ticket))
		return;
	if (!shell->catalogue.rows[asked->spec.model].error[0]) {
		shell_need_tried(shell, &asked->spec);
		shell_push_arrived(shell, asked->ticket, &asked->spec);
		return;
	}
	shell_defer(shell, &(struct action){ .type = ACTION_REJECT,
	                                     .model = asked->spec.model,
	                                     .request = asked->ticket,
	                                     .fail = FAIL_LOAD_FAILED });
}

static void after_look(uv_work_t *work, int status)
{
	struct recheck *recheck = work->data;
	struct shell *shell = recheck->shell;
	bool current = recheck->model < shell->conf->model_count &&
	               &shell->conf->models[recheck->model] == recheck->conf_model;

	unlink_recheck(shell, recheck);
	if (status == 0 && current && recheck->changed) {
		shell->catalogue.rows[recheck->model] = recheck->row;
		shell_recall_model(shell, recheck->model);
		if (!recheck->row.error[0]) {
			shell_push_model(shell, recheck->model, false);
			shell_recall_learned(shell, recheck->model);
		}
	}
	while (recheck->first) {
		struct asked *asked = recheck->first;
		recheck->first = asked->next;
		if (shell->phase != PHASE_CLOSING)
			answer(shell, asked);
		free(asked);
	}
	free(recheck);
	if (shell->phase == PHASE_SERVING)
		shell_try_engines(shell);
}

static struct recheck *start_look(struct shell *shell, uint32_t model)
{
	struct recheck *recheck = xcalloc(1, sizeof(*recheck));

	recheck->shell = shell;
	recheck->model = model;
	recheck->conf_model = &shell->conf->models[model];
	shell_ground(shell, &recheck->ground);
	recheck->row = shell->catalogue.rows[model];
	recheck->next = shell->rechecks;
	shell->rechecks = recheck;
	recheck->work.data = recheck;
	uv_queue_work(&shell->loop, &recheck->work, look, after_look);
	return recheck;
}

void shell_try_engines(struct shell *shell)
{
	/* Two at once would start the same engine twice; the next follows the last. */
	if (shell->rechecks)
		return;
	for (uint32_t i = 0; i < shell->catalogue.count; i++) {
		const struct catalogue_row *row = &shell->catalogue.rows[i];
		if (!row->untried || shell->conf->models[i].absent)
			continue;
		start_look(shell, i);
		return;
	}
}

void shell_recheck(struct shell *shell, struct id ticket, const struct request_spec *spec)
{
	struct asked *asked = xmalloc(sizeof(*asked));
	struct recheck *recheck = find(shell, spec->model);

	*asked = (struct asked){ .ticket = ticket, .spec = *spec };
	if (recheck) {
		struct asked **last = &recheck->first;
		while (*last)
			last = &(*last)->next;
		*last = asked;
		return;
	}
	start_look(shell, spec->model)->first = asked;
}
