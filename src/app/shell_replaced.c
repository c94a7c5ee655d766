/*
 * Whether what runs is still what lies on the disk. A model's file may be fetched anew, an engine upgraded, while
 * it serves: it goes on with what it has, and the next load takes the new one with estimates of its
 * own (shell_recheck.c). Until then people are told. The look reads the disk, so it runs on a worker, now and then
 * while anything is loaded.
 */
#include "app/shell.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "io/worker.h"

enum { EVERY_US = 5000000, LOOKS_MAX = 64 };

struct looked {
	struct id instance;
	const struct conf_model *model; /* lives as long as the configuration, see `conf` */
	uint64_t file_key, build_key;
	bool file, engine;
};

struct replaced_look {
	struct job job;
	struct shell *shell;
	struct catalogue_ground ground;
	uint32_t count;
	struct looked looked[LOOKS_MAX];
};

static void look(struct job *job)
{
	struct replaced_look *self = LIST_ENTRY(job, struct replaced_look, job);

	uint64_t build = 0;

	for (uint32_t i = 0; i < self->count; i++) {
		struct looked *looked = &self->looked[i];
		/* Many models, few engines. */
		if (i == 0 || !catalogue_same_engine(looked->model, looked[-1].model))
			build = catalogue_engine_build(looked->model, &self->ground);
		looked->file = catalogue_file_key(looked->model) != looked->file_key;
		looked->engine = catalogue_build_key(looked->model, build) != looked->build_key;
	}
}

static const char *replaced_text(enum replaced replaced)
{
	switch (replaced) {
	case REPLACED_NOT:
		break;
	case REPLACED_FILE:
		return "its file was replaced since it was loaded; the next load takes the new one";
	case REPLACED_ENGINE:
		return "its engine was replaced since it was loaded; the next load takes the new one";
	}
	return "";
}

static void tell(struct shell *shell, const struct looked *looked)
{
	struct instance_row *row = shell_instance(shell, looked->instance);
	enum replaced found = looked->file ? REPLACED_FILE : looked->engine ? REPLACED_ENGINE : REPLACED_NOT;

	if (!row || !row->live || row->gone || row->replaced == found)
		return;
	row->replaced = found;
	if (found != REPLACED_NOT)
		log_warn("%s: %s", row->conf->models[row->model].name, replaced_text(found));
}

static void after_look(struct job *job)
{
	struct replaced_look *self = LIST_ENTRY(job, struct replaced_look, job);
	struct shell *shell = self->shell;

	shell->replaced_looking = false;
	for (uint32_t i = 0; i < self->count && shell->phase == PHASE_SERVING; i++)
		tell(shell, &self->looked[i]);
	free(self);
}

void shell_note_start(const struct shell *shell, struct instance_row *row)
{
	const struct catalogue_row *known = &shell->catalogue.rows[row->model];

	row->hot_most_bytes = known->estimate.experts.mapped_bytes;
	row->file_key = known->spec.file_key;
	row->build_key = known->launch_key;
}

void shell_look_replaced(struct shell *shell)
{
	if (shell->replaced_looking || shell->phase != PHASE_SERVING ||
	    shell_now_us() - shell->replaced_at_us < EVERY_US)
		return;
	struct replaced_look *self = xcalloc(1, sizeof(*self));
	for (uint32_t i = 0; i < shell->instances_used && self->count < LOOKS_MAX; i++) {
		const struct instance_row *row = &shell->instances[i];
		if (!row->live || row->gone || !row->file[0])
			continue;
		self->looked[self->count++] = (struct looked){ row->id, &row->conf->models[row->model], row->file_key,
			                                       row->build_key, false, false };
	}
	if (self->count == 0) {
		free(self);
		return;
	}
	shell->replaced_at_us = shell_now_us();
	shell->replaced_looking = true;
	self->shell = shell;
	self->job = (struct job){ .run = look, .done = after_look };
	shell_ground(shell, &self->ground);
	worker_start(&shell->loop, &self->job);
}

const char *shell_replaced(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;
	struct model_view view;

	if (!arbiter_model(shell->arbiter, model, &view) || id_is_none(view.instance) ||
	    view.instance.index >= shell->instances_used)
		return "";
	return replaced_text(shell->instances[view.instance.index].replaced);
}
