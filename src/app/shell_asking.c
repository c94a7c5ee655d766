/*
 * Asking an engine what it will take, before the first load of a model that the
 * formulas do not know well: an architecture without a row, keys and shapes that
 * disagree. It happens within the load, so the load's claim, which is an upper
 * bound then, covers it. The answer is kept over lives of the daemon, for this build of the engine,
 * this file and these parameters: nobody is asked twice. What was measured takes its place later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/shell.h"
#include "app/stored_learned.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/estimate_params.h"
#include "engine/own_word.h"

static const double sure_enough = 0.5;

/* The key under which answers are stored, beside what loads taught. */
static const uint64_t word_key = UINT64_C(0x656e67696e657721);

enum { WORDS_KEPT = 256, WORD_VERSION = 1 };

struct kept_word {
	uint64_t version;
	struct correction_keys keys;
	struct own_word word;
	uint64_t spare; /* rows in the store are told apart by their size: 96 bytes are nobody else's */
};
_Static_assert(sizeof(struct kept_word) == 96 && sizeof(struct stored_learned) != 96 &&
                       sizeof(struct numbered_learned) != 96,
               "as the store tells them apart");

/* The newest overwrite the oldest. */
struct words_kept {
	struct kept_word word[WORDS_KEPT];
	uint32_t next;
};

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

/* ---- kept answers ---- */

static bool same_keys(const struct correction_keys *a, const struct correction_keys *b)
{
	return a->build == b->build && a->model == b->model && a->params == b->params;
}

/* The newest take the places of the oldest, in the store as well. */
static void remember_word(struct shell *shell, const struct kept_word *word)
{
	struct words_kept *words = shell->words;

	for (uint32_t i = 0; i < WORDS_KEPT; i++)
		if (words->word[i].version == WORD_VERSION && same_keys(&words->word[i].keys, &word->keys)) {
			words->word[i] = *word;
			return;
		}
	struct kept_word *place = &words->word[words->next++ % WORDS_KEPT];
	const struct correction_keys *keys = &place->keys;
	if (place->version == WORD_VERSION && shell->store)
		store_forget_learned(shell->store, word_key ^ keys->model, keys->build ^ keys->params, sizeof(*place));
	*place = *word;
}

static void on_word(void *ctx, const void *row)
{
	struct kept_word word;

	memcpy(&word, row, sizeof(word));
	if (word.version == WORD_VERSION)
		remember_word(ctx, &word);
}

static void keep_word(struct shell *shell, const struct correction_keys *keys, const struct own_word *word)
{
	struct kept_word kept = { .version = WORD_VERSION, .keys = *keys, .word = *word };

	remember_word(shell, &kept);
	if (shell->store)
		store_save_learned(shell->store, word_key ^ keys->model, keys->build ^ keys->params, &kept, sizeof(kept));
}

void shell_recall_word(struct shell *shell, uint32_t model)
{
	struct catalogue_row *row = &shell->catalogue.rows[model];

	for (uint32_t i = 0; i < WORDS_KEPT && row->estimate.base_bytes > 0; i++) {
		const struct kept_word *kept = &shell->words->word[i];
		if (kept->version != WORD_VERSION || !same_keys(&kept->keys, &row->keys) ||
		    row->estimate.source != ESTIMATE_FORMULA)
			continue;
		catalogue_take_word(row, &kept->word);
		row->asked = true;
		return;
	}
}

void shell_open_words(struct shell *shell)
{
	shell->words = xcalloc(1, sizeof(*shell->words));
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct kept_word), on_word, shell);
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		shell_recall_word(shell, i);
}

/* ---- asking ---- */

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
	keep_word(shell, &row->keys, &asking->word);
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
	catalogue_tuning(&shell->catalogue.rows[action->model], &asking->tuning);
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
