/*
 * Asking an engine what it will take, before the first load of a model that the
 * formulas do not know well: an architecture without a row, keys and shapes that
 * disagree. It happens within the load, so the load's claim, which is an upper
 * bound then, covers it. The answer stays with the catalogue's row, which lives as
 * long as file, engine and parameters do; what was measured takes its place later.
 */
#include <errno.h>
#include <stdlib.h>

#include "app/shell.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/estimate_params.h"
#include "engine/own_word.h"

static const double sure_enough = 0.5;

struct asking {
	uv_work_t work;
	struct shell *shell;
	struct action action;
	const struct conf_model *model; /* of the configuration that the instance's row holds */
	struct launch_tuning tuning;
	struct own_word word;
	struct err err;
	int code;
	atomic_bool given_up;
	struct asking *next;
};

static bool worth_asking(const struct shell *shell, uint32_t model)
{
	const struct catalogue_row *row = &shell->catalogue.rows[model];

	return shell->conf->models[model].engine == CONF_ENGINE_LLAMA_SERVER && !row->asked &&
	       row->estimate.base_bytes > 0 && row->estimate.source == ESTIMATE_FORMULA &&
	       row->estimate.confidence < sure_enough && !(row->spec.flags & MODEL_DECLARED);
}

static void ask(uv_work_t *work)
{
	struct asking *asking = work->data;

	asking->code = own_word_ask(asking->model, asking->action.context_tokens, asking->action.slots,
	                            &asking->tuning, OWN_WORD_DEADLINE_MS, &asking->given_up, &asking->word,
	                            &asking->err);
}

/* What the load claimed suffices for what the engine says. */
static bool take_word(struct shell *shell, const struct asking *asking)
{
	uint32_t model = asking->action.model;
	char size[UNITS_TEXT];

	if (model >= shell->conf->model_count || &shell->conf->models[model] != asking->model)
		return true; /* the configuration changed meanwhile */
	struct catalogue_row *row = &shell->catalogue.rows[model];
	int64_t claimed = amount_total(&row->spec.peak);
	catalogue_take_word(row, &asking->word);
	log_info("%s: its engine says it takes %s", asking->model->name,
	         units_size(size, row->estimate.base_bytes));
	shell_push_model(shell, model, false);
	return amount_total(&row->spec.peak) <= claimed;
}

static void unlink_asking(struct shell *shell, const struct asking *asking)
{
	struct asking **at = &shell->askings;

	while (*at != asking)
		at = &(*at)->next;
	*at = asking->next;
}

void shell_give_up_asking(struct shell *shell, const struct instance_row *row)
{
	for (struct asking *asking = shell->askings; asking; asking = asking->next)
		if (!row || asking->action.instance_sequence == row->sequence)
			atomic_store(&asking->given_up, true);
}

static void after_asking(uv_work_t *work, int status)
{
	struct asking *asking = work->data;
	struct shell *shell = asking->shell;
	struct instance_row *row = shell_instance(shell, asking->action.instance);

	unlink_asking(shell, asking);
	if (shell->phase != PHASE_CLOSING && row && row->live) {
		bool told = status == 0 && asking->code == 0;
		if (status == 0 && asking->code < 0 && asking->code != -ECANCELED)
			log_warn("%s: %s; its file's header has to do", asking->model->name, asking->err.text);
		bool enough = !told || take_word(shell, asking);
		if (row->stop_wanted || !enough)
			shell_spawn_ended(shell, asking->action.instance, row->stop_wanted ? FAIL_NONE : FAIL_LOAD_FAILED);
		else
			shell_spawn(shell, &asking->action);
	}
	if (shell->phase == PHASE_CLOSING && row) {
		row->gone = true;
		shell_close_if_done(shell);
	}
	free(asking);
}

bool shell_ask_engine(struct shell *shell, const struct action *action)
{
	if (!worth_asking(shell, action->model))
		return false;
	struct asking *asking = xcalloc(1, sizeof(*asking));
	asking->shell = shell;
	asking->action = *action;
	asking->model = &shell->conf->models[action->model];
	engine_tuning(&shell->catalogue.rows[action->model].estimate, &asking->tuning);
	asking->work.data = asking;
	shell->catalogue.rows[action->model].asked = true;
	if (uv_queue_work(&shell->loop, &asking->work, ask, after_asking) == 0) {
		asking->next = shell->askings;
		shell->askings = asking;
		return true;
	}
	free(asking);
	return false;
}
