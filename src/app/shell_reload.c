/*
 * A new configuration without a restart. It is read on a worker, the headers of
 * the files that its models name along with it, and taken over in one turn of
 * the loop. Models that did not change keep running; what changed goes to the
 * arbiter as an event: what takes effect at once does, and an engine that was
 * started with what no longer holds is drained and started anew. The old configuration
 * lives on until none of the engines that were started under it is left, and
 * there was a moment without any exchange or call.
 */
#include "app/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

struct retired_conf {
	struct conf *conf;
	bool unasked; /* no exchange, call or look that began under it is left */
	struct retired_conf *next;
};

/* One reload, from the wish to the answer. The first of the list is being read, the others wait. */
struct reload {
	uv_work_t work;
	struct shell *shell;
	struct reload *next;
	void (*done)(void *arg, int code, struct str report);
	void *arg;

	/* what the worker is given; the loop's side does not touch it meanwhile */
	const char *path;
	const struct conf *old;
	bool *settled;             /* by the old index: its file was fine and needs no second look */
	struct room_facts facts;

	/* what it brings */
	struct conf *conf;         /* NULL: it cannot be used, `report` says why */
	struct catalogue_ground ground;
	struct catalogue fresh;    /* as conf->models stood when it was read */
	const char **names;        /* of the rows of `fresh`; NULL: the row that there is stays */
	struct buf report;
	size_t changes_from, changes_to; /* the part of the report that tells what is new in it */
};

/* ---- on the worker ---- */

static const struct conf_model *settled_model(const struct reload *reload, const struct conf_model *model)
{
	const struct conf *old = reload->old;

	for (size_t i = 0; i < old->model_count; i++)
		if (!old->models[i].absent && reload->settled[i] &&
		    conf_model_equal(&old->models[i], model))
			return &old->models[i];
	return NULL;
}

static bool same_room(const struct conf *a, const struct conf *b)
{
	return a->memory_limit_bytes == b->memory_limit_bytes &&
	       a->memory_reserve_bytes == b->memory_reserve_bytes;
}

static void read_models(struct reload *reload)
{
	const struct conf *conf = reload->conf;
	bool room_stays = same_room(reload->old, conf);

	reload->fresh.count = conf->model_count;
	reload->fresh.rows = xcalloc(conf->model_count, sizeof(*reload->fresh.rows));
	reload->names = xcalloc(conf->model_count, sizeof(*reload->names));
	for (size_t i = 0; i < conf->model_count; i++) {
		const struct conf_model *model = &conf->models[i];
		bool fits_anew = model->context_max == CONF_AUTO && !room_stays;
		if (!fits_anew && settled_model(reload, model))
			continue;
		reload->names[i] = model->name;
		catalogue_refresh(model, &reload->ground, &reload->fresh.rows[i]);
	}
}

static void read_anew(uv_work_t *work)
{
	struct reload *reload = work->data;

	reload->conf = conf_load(reload->path, &reload->report);
	if (!reload->conf)
		return;
	if (!same_room(reload->old, reload->conf))
		reload->ground.room_bytes = shell_room(&reload->facts, reload->conf);
	read_models(reload);
}

/* ---- taking it over ---- */

/* Who began under an older configuration may still mean the model that was there. */
static bool model_in_use(void *ctx, size_t index)
{
	struct shell *shell = ctx;
	struct model_view view;
	bool any_older = shell->retired && gateway_exchanges(shell->gateway) > 0;

	return any_older || arbiter_model(shell->arbiter, (uint32_t)index, &view);
}

/* The row that was read for the model; NULL: the one that there is holds. */
static const struct catalogue_row *fresh_row(const struct reload *reload, const struct conf_model *model)
{
	for (size_t i = 0; i < reload->fresh.count; i++)
		if (reload->names[i] && reload->names[i] == model->name)
			return &reload->fresh.rows[i];
	return NULL;
}

static void rebuild_catalogue(struct shell *shell, const struct reload *reload)
{
	const struct conf *next = reload->conf;
	struct catalogue old = shell->catalogue;

	shell->catalogue.count = next->model_count;
	shell->catalogue.rows = xcalloc(next->model_count, sizeof(*old.rows));
	for (size_t i = 0; i < next->model_count; i++) {
		if (next->models[i].absent)
			continue;
		const struct catalogue_row *row = fresh_row(reload, &next->models[i]);
		shell->catalogue.rows[i] = row ? *row : old.rows[i];
	}
	catalogue_release(&old);
}

static void retire(struct shell *shell, struct conf *conf)
{
	struct retired_conf *retired = xmalloc(sizeof(*retired));

	*retired = (struct retired_conf){ .conf = conf, .next = shell->retired };
	shell->retired = retired;
}

static bool has_engines(const struct shell *shell, const struct conf *conf)
{
	for (uint32_t i = 0; i < shell->instances_used; i++)
		if (shell->instances[i].live && shell->instances[i].conf == conf)
			return true;
	return false;
}

void shell_let_go_of_retired(struct shell *shell)
{
	struct retired_conf **at = &shell->retired;

	if (shell->replaced_looking)
		return; /* a worker reads them */
	bool quiet = shell->retired && !shell->rechecks && gateway_exchanges(shell->gateway) == 0 &&
	             gateway_calls(shell->gateway) == 0;

	while (*at) {
		struct retired_conf *retired = *at;
		retired->unasked |= quiet;
		if (!retired->unasked || has_engines(shell, retired->conf)) {
			at = &retired->next;
			continue;
		}
		*at = retired->next;
		conf_free(retired->conf);
		free(retired);
	}
}

void shell_free_retired(struct shell *shell)
{
	while (shell->retired) {
		struct retired_conf *retired = shell->retired;
		shell->retired = retired->next;
		conf_free(retired->conf);
		free(retired);
	}
}

static int refuse(struct reload *reload, const char *text)
{
	buf_append_str(&reload->report, str_from(text));
	return -EINVAL;
}

/* What it says cannot be had while the daemon runs. */
static int refuse_until_restart(struct reload *reload, const char *text)
{
	refuse(reload, text);
	return -ESTALE;
}

/* Of the models that both know: must an engine of this one be started anew? */
static bool is_renewed(const struct conf *old, const struct conf *next, uint32_t model)
{
	return model < old->model_count && !old->models[model].absent && !next->models[model].absent &&
	       conf_model_compare(&old->models[model], &next->models[model]) == CONF_CHANGE_MODELS;
}

static void apply(struct shell *shell, struct reload *reload)
{
	const struct conf *old = shell->conf;

	rebuild_catalogue(shell, reload);
	retire(shell, shell->conf);
	shell->conf = reload->conf;
	reload->conf = NULL;
	shell->room_bytes = reload->ground.room_bytes;
	shell->reserve_bytes = shell_reserve(&reload->facts, shell->conf);
	gateway_reconfigure(shell->gateway, shell->conf);
	shell_tell_secrets(shell);
	shell_push_machine(shell);
	shell_look_outside(shell);
	for (uint32_t i = 0; i < shell->catalogue.count; i++) {
		bool fresh = !shell->conf->models[i].absent && fresh_row(reload, &shell->conf->models[i]);
		if (fresh)
			shell_recall_model(shell, i);
		shell_push_model(shell, i, is_renewed(old, shell->conf, i));
		if (fresh)
			shell_recall_learned(shell, i);
	}
}

static int take_over(struct shell *shell, struct reload *reload)
{
	struct conf *next = reload->conf;

	if (!next)
		return -EINVAL;
	if (shell->phase != PHASE_SERVING)
		return refuse(reload, "the daemon is going down\n");
	/* Whoever saves a file may have emptied it first. */
	if (next->is_blank && !shell->conf->is_blank) {
		buf_printf(&reload->report, "nothing was applied: %s is empty, as a file is that was written in part; "
		                            "try: models: {} in it, if no model is to be left\n", reload->path);
		return -EINVAL;
	}
	reload->changes_from = buf_length(&reload->report);
	enum conf_change change = conf_compare(shell->conf, next, &reload->report);
	reload->changes_to = buf_length(&reload->report);
	switch (change) {
	case CONF_CHANGE_NONE:
		buf_append_str(&reload->report, STR("nothing changed\n"));
		return 0;
	case CONF_CHANGE_RESTART:
		return refuse_until_restart(reload, "nothing was applied: restart the daemon for this change\n");
	case CONF_CHANGE_LIVE:
	case CONF_CHANGE_MODELS:
		break;
	}
	conf_align(next, shell->conf, model_in_use, shell);
	if (next->model_count > shell->limits.models)
		return refuse_until_restart(reload, "nothing was applied: more models than limits.models; restart "
		                                    "the daemon\n");
	apply(shell, reload);
	return 0;
}

/* Of a reload that is refused what is wrong is an error, and not what is merely new in the file. */
static enum log_level level_of(const struct reload *reload, int code, struct str line)
{
	size_t at = (size_t)(line.data - buf_str(&reload->report).data);
	bool is_change = at >= reload->changes_from && at < reload->changes_to;

	if (memmem(line.data, line.length, ": warning: ", strlen(": warning: ")))
		return LOG_LEVEL_WARN;
	return code < 0 && (!is_change || str_ends(line, "(needs a restart)")) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO;
}

/* Whoever asked for it, the log has what became of it. */
static void log_report(const struct reload *reload, int code)
{
	struct str rest = buf_str(&reload->report);

	do {
		struct str line = str_cut(rest, '\n', &rest);
		if (line.length)
			log_line(level_of(reload, code, line), "reload: %.*s", STR_ARG(line));
	} while (rest.data);
}

/* ---- one after the other ---- */

static void begin(struct reload *reload);

static void after_reading(uv_work_t *work, int status)
{
	struct reload *reload = work->data;
	struct shell *shell = reload->shell;

	/* Whoever asked is being taken down where we are closing, and hears nothing more. */
	if (shell->phase != PHASE_CLOSING) {
		int code = status < 0 ? refuse(reload, "the daemon is going down\n")
		                      : take_over(shell, reload);
		log_report(reload, code);
		if (reload->done)
			reload->done(reload->arg, code, buf_str(&reload->report));
	}
	shell->reloads = reload->next;
	if (reload->conf)
		conf_free(reload->conf);
	catalogue_release(&reload->fresh);
	free(reload->names);
	free(reload->settled);
	buf_release(&reload->report);
	free(reload);
	if (shell->reloads)
		begin(shell->reloads);
}

static void begin(struct reload *reload)
{
	struct shell *shell = reload->shell;

	reload->path = shell->options.conf_path;
	reload->old = shell->conf;
	reload->facts = shell->room_facts;
	shell_ground(shell, &reload->ground);
	reload->settled = xcalloc(shell->catalogue.count, sizeof(*reload->settled));
	for (size_t i = 0; i < shell->catalogue.count; i++)
		reload->settled[i] = !shell->catalogue.rows[i].error[0];
	reload->work.data = reload;
	uv_queue_work(&shell->loop, &reload->work, read_anew, after_reading);
}

void shell_reload(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg)
{
	struct shell *shell = ctx;
	struct reload *reload = xcalloc(1, sizeof(*reload));
	struct reload **last = &shell->reloads;

	*reload = (struct reload){ .shell = shell, .done = done, .arg = arg, .report = BUF_INIT };
	while (*last)
		last = &(*last)->next;
	*last = reload;
	if (shell->reloads == reload)
		begin(reload);
}
