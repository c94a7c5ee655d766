/*
 * Contexts that follow conversations by restart, where KV cannot follow use: an
 * engine starts with what this model's conversations usually need, and is started
 * anew with a larger context when a request needs it. The arbiter decides when
 * there is room; what is chosen here is how large.
 *
 * A conversation is not to be interrupted at every turn: a growth goes to the largest
 * context, or looks a few times as far as its request. But what it takes beyond what is
 * needed is at most a half of what is free: the rest is for the others.
 */
#include "app/shell.h"
#include "app/stored_learned.h"

#include <string.h>

#include "base/log.h"
#include "base/units.h"

_Static_assert(sizeof(struct lengths) != sizeof(struct stored_learned) &&
                       sizeof(struct lengths) != sizeof(struct numbered_learned),
               "stored rows are told apart by their size");

/* ---- what conversations of a model usually need ---- */

static void on_dropped(void *ctx, const struct lengths *row)
{
	struct shell *shell = ctx;

	if (shell->store)
		store_forget_learned(shell->store, row->model, row->key, sizeof(*row));
}

static void on_lengths(void *ctx, const void *stored)
{
	struct lengths row;

	memcpy(&row, stored, sizeof(row));
	lengths_add(ctx, &row);
}

/* Nobody's long conversations are lost among the many short ones of another key. */
static int64_t usual_tokens(const struct shell *shell, uint32_t model)
{
	const struct lengths_table *lengths = &shell->lengths;
	int64_t most = 0;

	for (size_t i = 0; i < lengths->count; i++) {
		int64_t usual = lengths->rows[i].model == shell->catalogue.rows[model].spec.file_key
		                        ? lengths_usual(&lengths->rows[i]) : 0;
		most = usual > most ? usual : most;
	}
	return most;
}

/*
 * Bytes of a prompt for each of its tokens, in thousandths, rather too few: as this model's prompts were. Where too
 * few of them are known, two bytes: the one byte that bounds it would have the first engine start four times too large
 * for plain text, for as long as it lives, and too small a start costs one more.
 */
static int64_t dense_milli(const struct shell *shell, uint32_t model)
{
	const struct lengths_table *lengths = &shell->lengths;
	int64_t least = 0;

	for (size_t i = 0; i < lengths->count; i++) {
		int64_t milli = lengths->rows[i].model == shell->catalogue.rows[model].spec.file_key
		                        ? lengths_dense_milli(&lengths->rows[i]) : 0;
		least = milli > 0 && (least == 0 || milli < least) ? milli : least;
	}
	return least > 0 ? least : 2000;
}

static uint32_t first_step(const struct shell *shell, uint32_t model)
{
	return elastic_step_for(&shell->catalogue.rows[model].elastic, usual_tokens(shell, model));
}

void shell_context_start(struct shell *shell, uint32_t model)
{
	struct catalogue_row *row = &shell->catalogue.rows[model];

	if (row->elastic.count && !row->elastic.chosen)
		catalogue_choose(row, first_step(shell, model));
}

void shell_open_contexts(struct shell *shell)
{
	shell->lengths.dropped = on_dropped;
	shell->lengths.ctx = shell;
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct lengths), on_lengths, &shell->lengths);
	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		shell_context_start(shell, i);
}

void shell_context_ended(struct shell *shell, const struct exchange_end *end)
{
	int64_t tokens = end->tokens_in + end->tokens_out;

	if (end->model == MODEL_NONE || end->fail != FAIL_NONE || tokens <= 0 ||
	    !shell->catalogue.rows[end->model].elastic.count)
		return;
	uint64_t conversation = shell->conversation_of[end->ticket.index];
	struct lengths *row = lengths_of(&shell->lengths, shell->catalogue.rows[end->model].spec.file_key,
	                                 end->key ? str_hash(str_from(end->key->name)) : 0);
	lengths_note(row, conversation, tokens);
	if (!shell->conf->models[end->model].mmproj)
		lengths_note_prompt(row, conversation, end->prompt_bytes, end->tokens_in);
	row->noted_at_ms = (end->ended_at_us + shell_wall_offset_us()) / US_PER_MS;
	if (shell->store)
		store_save_learned(shell->store, row->model, row->key, row, sizeof(*row));
}

/* ---- a larger one ---- */

static void spec_with(const struct shell *shell, uint32_t model, uint32_t step, struct model_spec *out)
{
	struct catalogue_row row = shell->catalogue.rows[model];

	catalogue_choose(&row, step);
	shell_fill_spec(shell, model, &row, out);
}

static enum fits fits_with(const struct shell *shell, uint32_t model, uint32_t step)
{
	struct model_spec spec;

	spec_with(shell, model, step, &spec);
	return arbiter_fits(shell->arbiter, model, &spec);
}

static bool finds_room(enum fits fits)
{
	return fits == FITS_NOW || fits == FITS_TIGHT;
}

struct fitting {
	const struct shell *shell;
	uint32_t model;
	uint32_t least; /* is needed; what is beyond has to find room twice */
};

static enum fits fits_step(void *ctx, uint32_t step)
{
	const struct fitting *fitting = ctx;
	struct model_spec spec, least;

	spec_with(fitting->shell, fitting->model, step, &spec);
	if (step > fitting->least) {
		spec_with(fitting->shell, fitting->model, fitting->least, &least);
		struct amount beyond = spec.base;
		amount_subtract(&beyond, &least.base);
		amount_add(&spec.base, &beyond);
		amount_add(&spec.peak, &beyond);
	}
	return arbiter_fits(fitting->shell->arbiter, fitting->model, &spec);
}

static void resize(struct shell *shell, uint32_t model, uint32_t step, uint64_t request)
{
	struct catalogue_row *row = &shell->catalogue.rows[model];
	int64_t was = row->elastic.step[row->elastic.now].context;

	catalogue_choose(row, step);
	shell_recall_word(shell, model);
	log_info("%s: its context is %lld tokens from its next start on, instead of %lld",
	         shell->conf->models[model].name, (long long)row->elastic.step[step].context, (long long)was);
	shell_push_resized(shell, model, request);
	shell_recall_learned(shell, model);
}

/* The context that the next load takes holds what is needed, if any that can be had does. */
static void make_room_for(struct shell *shell, uint32_t model, const struct elastic_need *need, uint64_t request)
{
	const struct elastic *elastic = &shell->catalogue.rows[model].elastic;
	uint32_t least = elastic_step_for(elastic, need->tokens);
	struct fitting fitting = { shell, model, least };
	bool loaded = !id_is_none(arbiter_instance(shell->arbiter, model));

	if (loaded && least <= elastic->now)
		return;
	uint32_t step = loaded ? elastic_step_to_grow(elastic, need, fits_step, &fitting)
	                       : elastic_step_to_load(elastic, least, fits_step, &fitting);
	if (step != elastic->now)
		resize(shell, model, step, request);
}

/* An engine that is there counts them itself. */
int64_t shell_context_tokens(const struct shell *shell, uint32_t model, const struct prompt_size *prompt)
{
	struct prompt_size size = prompt_longest(prompt);

	if (size.tokens < 0 && !id_is_none(arbiter_instance(shell->arbiter, model)))
		return 0;
	if (size.tokens < 0 && size.bytes > 0 && size.bytes < INT32_MAX)
		size.bytes = size.bytes * 1000 / dense_milli(shell, model);
	return shell_most_tokens(shell, model, &size);
}

bool shell_context_may_exceed(void *ctx, uint32_t model, const struct prompt_size *prompt)
{
	const struct shell *shell = ctx;
	struct prompt_size size = prompt_longest(prompt);
	struct model_view view;

	return arbiter_model(shell->arbiter, model, &view) && !shell->conf->models[model].mmproj &&
	       shell_most_tokens(shell, model, &size) > view.context_tokens;
}

void shell_context_arrived(struct shell *shell, const struct request_spec *spec)
{
	const struct elastic_need need = { .tokens = spec->tokens };

	if (spec->kind == REQUEST_INFER && shell->catalogue.rows[spec->model].elastic.count)
		make_room_for(shell, spec->model, &need, spec->sequence);
}

bool shell_context_is_elastic(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;

	return shell->catalogue.rows[model].elastic.count > 0;
}

bool shell_context_outgrown(void *ctx, const struct outgrown *request)
{
	struct shell *shell = ctx;
	const struct elastic *elastic = &shell->catalogue.rows[request->model].elastic;
	const struct elastic_need need = { request->prompt_tokens + request->reply_tokens, request->prompt_tokens };
	struct model_view view;

	if (!elastic->count || shell->phase != PHASE_SERVING ||
	    elastic->step[elastic->count - 1].context <= request->prompt_tokens)
		return false; /* no context holds it: none is started for it */
	make_room_for(shell, request->model, &need, request->sequence);
	int64_t context = elastic->step[elastic->now].context;
	bool same = arbiter_model(shell->arbiter, request->model, &view) &&
	            id_equal(view.instance, request->instance) && (int64_t)view.context_tokens >= context;
	return !same && context > request->prompt_tokens;
}

bool shell_context_is_grown(const struct shell *shell, uint32_t model, const struct catalogue_row *row)
{
	return row->elastic.count > 0 && row->elastic.now > first_step(shell, model);
}

/* Told to end: the next load starts as large as is usual, unless it is ended to be larger. */
void shell_context_stopped(struct shell *shell, const struct action *stop)
{
	struct catalogue_row *row = &shell->catalogue.rows[stop->model];

	if (shell->phase != PHASE_SERVING || stop->reason == REASON_CONTEXT || stop->reason == REASON_CONFIG ||
	    row->elastic.count == 0)
		return;
	uint32_t step = first_step(shell, stop->model);
	if (step != row->elastic.now)
		resize(shell, stop->model, step, 0);
}

static enum fits fits_tokens(const struct shell *shell, uint32_t model, int64_t tokens)
{
	struct amount need = { 0 };

	need.bytes[0][USE_HOST] = kv_shape_bytes(&shell->catalogue.rows[model].kv, tokens);
	return arbiter_fits_request(shell->arbiter, model, &need);
}

/* `later`: once what runs has ended, too. */
static bool could_have(const struct shell *shell, uint32_t model, int64_t tokens, bool later)
{
	enum fits fits = fits_tokens(shell, model, tokens);

	return finds_room(fits) || fits == FITS_AFTER_EVICTION || (later && fits == FITS_NOT_NOW);
}

/* Of `least` to `most` tokens the largest that could be had. */
static int64_t most_tokens(const struct shell *shell, uint32_t model, int64_t least, int64_t most, bool later)
{
	if (could_have(shell, model, most, later))
		return most;
	while (least < most) {
		int64_t tokens = most - (most - least) / 2;
		if (could_have(shell, model, tokens, later))
			least = tokens;
		else
			most = tokens - 1;
	}
	return least;
}

/* A slot goes on with what it holds, however short memory is; of several the fullest holds no less than this. */
static int64_t held_tokens(const struct model_view *view)
{
	return view->slots ? view->kept_tokens / view->slots : 0;
}

/* Where KV follows use: as far as there is room for it. */
static int64_t lazy_now(const struct shell *shell, uint32_t model)
{
	struct model_view view;

	if (!arbiter_model(shell->arbiter, model, &view) || arbiter_pools(shell->arbiter) == 0)
		return 0;
	int64_t most = view.context_tokens ? view.context_tokens : view.spec->context_tokens;
	int64_t least = held_tokens(&view) < most ? held_tokens(&view) : most;
	return most_tokens(shell, model, least, most, false);
}

void shell_context_allow(void *ctx, uint32_t model, const struct prompt_size *prompt, struct allowance *out)
{
	const struct shell *shell = ctx;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	struct prompt_size alone = *prompt;
	struct model_view view;

	if (!row->lazy || row->not_lazy[0] || (prompt->bytes < 0 && prompt->tokens < 0) || shell->phase != PHASE_SERVING ||
	    shell->conf->models[model].mmproj || arbiter_pools(shell->arbiter) == 0 ||
	    !arbiter_model(shell->arbiter, model, &view))
		return;
	alone.reply_tokens = 0;
	out->prompt_tokens = shell_most_tokens(shell, model, &alone);
	int64_t context = view.context_tokens ? view.context_tokens : view.spec->context_tokens;
	int64_t most = most_tokens(shell, model, 0, context, true);
	out->most_tokens = most < context ? most : 0; /* and 0 where its model itself has no room: that is told by others */
}

bool shell_context_counts_first(void *ctx, uint32_t model, const struct prompt_size *prompt)
{
	const struct shell *shell = ctx;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	struct request_spec spec = { 0 };
	struct model_view view;

	shell_need(ctx, model, prompt, &spec);
	return row->lazy && spec.tokens > 0 && shell->phase == PHASE_SERVING &&
	       arbiter_model(shell->arbiter, model, &view) &&
	       (view.state == MODEL_IDLE || view.state == MODEL_BUSY) &&
	       !finds_room(fits_tokens(shell, model, spec.tokens));
}

int64_t shell_context_now(void *ctx, uint32_t model)
{
	const struct shell *shell = ctx;
	const struct elastic *elastic = &shell->catalogue.rows[model].elastic;
	struct model_view view;

	if (shell->catalogue.rows[model].lazy && !shell->catalogue.rows[model].not_lazy[0])
		return lazy_now(shell, model);
	if (!elastic->count)
		return 0;
	bool known = arbiter_model(shell->arbiter, model, &view);
	bool loaded = known && !id_is_none(view.instance);
	for (uint32_t step = elastic->count; known && step-- > 0;) {
		enum fits fits = loaded && step <= elastic->now ? FITS_NOW : fits_with(shell, model, step);
		if (finds_room(fits) || fits == FITS_AFTER_EVICTION)
			return elastic->step[step].context;
	}
	return elastic->step[0].context;
}
