/*
 * A new configuration without a restart. Models that did not change keep
 * running; what changed goes to the arbiter as an event, which applies it to
 * the next load. The old configuration lives on until no engine, no exchange and
 * no call that may have begun under it is left.
 */
#include "app/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/notify.h"
#include "base/alloc.h"
#include "base/log.h"

struct retired_conf {
	struct conf *conf;
	struct retired_conf *next;
};

/* Who began under an older configuration may still mean the model that was there. */
static bool model_in_use(void *ctx, size_t index)
{
	struct shell *shell = ctx;
	struct model_view view;
	bool any_older = shell->retired && gateway_exchanges(shell->gateway) > 0;

	return any_older || arbiter_model(shell->arbiter, (uint32_t)index, &view);
}

/* Rows of unchanged models are kept as they are: their files need no second look. */
static void rebuild_catalogue(struct shell *shell, const struct conf *next)
{
	struct catalogue old = shell->catalogue;

	shell->catalogue.count = next->model_count;
	shell->catalogue.rows = xcalloc(next->model_count, sizeof(*old.rows));
	for (size_t i = 0; i < next->model_count; i++) {
		struct catalogue_row *row = &shell->catalogue.rows[i];
		bool same = i < old.count && !next->models[i].absent &&
		            !shell->conf->models[i].absent &&
		            conf_model_equal(&shell->conf->models[i], &next->models[i]) &&
		            !old.rows[i].error[0];
		if (same)
			*row = old.rows[i];
		else if (!next->models[i].absent)
			catalogue_refresh(&next->models[i], shell->room_bytes, row);
	}
	catalogue_release(&old);
}

static void tell_arbiter(struct shell *shell)
{
	shell_push_machine(shell);
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		shell_push_model(shell, i);
}

static void retire(struct shell *shell, struct conf *conf)
{
	struct retired_conf *retired = xmalloc(sizeof(*retired));

	*retired = (struct retired_conf){ conf, shell->retired };
	shell->retired = retired;
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

static int refuse(struct conf *next, struct buf *report, const char *text)
{
	buf_append_str(report, str_from(text));
	conf_free(next);
	return -EINVAL;
}

int shell_reload(void *ctx, struct buf *report)
{
	struct shell *shell = ctx;
	struct conf *next = conf_load(shell->options.conf_path, report);

	if (!next)
		return -EINVAL;
	if (shell->phase != PHASE_SERVING)
		return refuse(next, report, "the daemon is going down\n");
	switch (conf_compare(shell->conf, next, report)) {
	case CONF_CHANGE_NONE:
		conf_free(next);
		buf_append_str(report, STR("nothing changed\n"));
		return 0;
	case CONF_CHANGE_RESTART:
		return refuse(next, report,
		              "nothing was applied: restart the daemon for this change\n");
	case CONF_CHANGE_LIVE:
	case CONF_CHANGE_MODELS:
		break;
	}
	conf_align(next, shell->conf, model_in_use, shell);
	if (next->model_count > shell->limits.models)
		return refuse(next, report,
		              "nothing was applied: more models than limits.models; restart the "
		              "daemon\n");
	rebuild_catalogue(shell, next);
	retire(shell, shell->conf);
	shell->conf = next;
	gateway_reconfigure(shell->gateway, next);
	tell_arbiter(shell);
	return 0;
}
