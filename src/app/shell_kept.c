/*
 * What conversations hold in engines whose KV follows use, on its way to the
 * arbiter: asked after each request's end, and once at the start, where it also
 * shows whether the preload library took effect.
 *
 * A slot's pages stay when its conversation gets shorter, until all is discarded:
 * so of each the most tokens it ever held count, and the sum is set right by what
 * the library says is there.
 */
#include "app/shell.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/dirs.h"
#include "app/kept.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/preload.h"

enum { TEMPLATE_TOKENS = 256 }; /* what a chat template puts around the words */
enum { RUNS_AGAIN_MS = 100, RUNS_TIMES_MAX = 50 };

/* ---- what a request may take ---- */

/* A token is at least a byte, but for what a template puts around the words. */
int64_t shell_most_tokens(const struct shell *shell, uint32_t model, const struct prompt_size *prompt)
{
	int64_t reply = prompt->reply_tokens >= 0 ? prompt->reply_tokens : shell->conf->models[model].reply_tokens;
	int64_t tokens = prompt->tokens >= 0 ? prompt->tokens
	                                     : (prompt->bytes < INT32_MAX ? prompt->bytes : INT32_MAX) + TEMPLATE_TOKENS;

	int64_t prompts = prompt->prompts < INT16_MAX ? prompt->prompts : INT16_MAX;

	tokens = tokens < INT32_MAX ? tokens : INT32_MAX;
	return reply < INT32_MAX ? tokens + prompts * reply : 2 * (int64_t)INT32_MAX;
}

void shell_need(void *ctx, uint32_t model, const struct prompt_size *prompt, struct request_spec *out)
{
	const struct shell *shell = ctx;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	/* Of a picture that is named by its address nobody knows how many tokens it is. */
	bool known = (prompt->bytes >= 0 || prompt->tokens >= 0) && !shell->conf->models[model].mmproj;

	if ((row->lazy || row->untried) && known) {
		/* So many at once, each in a slot of its own. */
		int64_t at_once = prompt->prompts < row->spec.slots ? prompt->prompts : row->spec.slots;
		int64_t most = row->spec.context_tokens ? row->spec.context_tokens * (at_once ? at_once : 1) : INT32_MAX;
		int64_t tokens = shell_most_tokens(shell, model, prompt);
		out->tokens = tokens < most ? tokens : most;
	}
	if (row->lazy && known)
		out->need.bytes[0][USE_HOST] = kv_shape_bytes(&row->kv, out->tokens);
	if (row->elastic.count && known)
		out->tokens = shell_context_tokens(shell, model, prompt);
}

void shell_need_tried(const struct shell *shell, struct request_spec *spec)
{
	const struct catalogue_row *row = &shell->catalogue.rows[spec->model];

	if (row->lazy && amount_total(&spec->need) == 0)
		spec->need.bytes[0][USE_HOST] = kv_shape_bytes(&row->kv, spec->tokens);
	if (!row->lazy && !row->elastic.count)
		spec->tokens = 0;
}

/* ---- the library, the folder ---- */

void shell_find_lazy(struct shell *shell)
{
	struct err err = { 0 };

	snprintf(shell->save_dir, sizeof(shell->save_dir), "%s/conversations", shell->state_dir);
	if (dirs_make(shell->save_dir, &err) < 0 ||
	    preload_find(shell->lazy_library, sizeof(shell->lazy_library), &err) < 0) {
		shell->lazy_library[0] = '\0';
		str_copy(shell->lazy_missing, sizeof(shell->lazy_missing), str_from(err.text));
	}
	shell->saved = xcalloc(1, sizeof(*shell->saved));
	shell->saved->folder = shell->save_dir;
	shell->conversation_of = xcalloc(shell->limits.requests, sizeof(*shell->conversation_of));
}

/*
 * What was saved holds for the same file in the same engine, started the same way. A file that was written over may
 * have its old times again, but for the one of its last change.
 */
static uint64_t saved_key(const struct shell *shell, uint32_t model)
{
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	uint64_t parts[] = { row->spec.file_key, row->launch_key,
		             (uint64_t)catalogue_file_changed_ns(&shell->conf->models[model]) };

	return str_hash((struct str){ (const char *)parts, sizeof(parts) });
}

void shell_load_saved(struct shell *shell)
{
	struct saved_share *models = xcalloc(shell->catalogue.count + 1, sizeof(*models));

	for (uint32_t i = 0; i < shell->catalogue.count; i++)
		models[i] = (struct saved_share){ saved_key(shell, i), shell->conf->models[i].kv_keep_bytes };
	saved_load(shell->saved, models, (uint32_t)shell->catalogue.count, shell_wall_offset_us());
	free(models);
}

void shell_ground(struct shell *shell, struct catalogue_ground *out)
{
	*out = (struct catalogue_ground){
		.room_bytes = shell->room_bytes,
		.has_devices = shell_has_devices(shell),
		.runs_cuda = topology_runs_cuda(&shell->topology),
		.host_room_bytes = shell_host_room(shell),
		.lazy = {
			.library = shell->lazy_library[0] ? shell->lazy_library : NULL,
			.missing = shell->lazy_missing,
			.folder = shell->state_dir,
			.sockets = shell->runtime_dir,
			.environment = (const char *const *)environ,
		},
	};
}

/* ---- what is held ---- */

static void add_slot(struct event *event, uint32_t place, int64_t bytes)
{
	uint32_t row = place < HELD_SLOTS_MAX ? place : HELD_SLOTS_MAX - 1;

	event->held.slot_bytes[row] += bytes;
	if (event->held.slots < row + 1)
		event->held.slots = row + 1;
}

/* The slots' sum is what is there: what they cannot explain is counted with the largest. */
static void set_right(struct event *event, int64_t resident)
{
	int64_t *slot = event->held.slot_bytes;
	int64_t sum = 0;

	for (uint32_t i = 0; i < event->held.slots; i++)
		sum += slot[i];
	for (uint32_t left = event->held.slots; left && sum != resident; left--) {
		uint32_t largest = 0;
		for (uint32_t i = 1; i < event->held.slots; i++)
			if (slot[i] > slot[largest])
				largest = i;
		int64_t was = slot[largest];
		slot[largest] = was + resident - sum > 0 ? was + resident - sum : 0;
		sum += slot[largest] - was;
	}
}

static void push_held(struct kept_talk *kept, const struct conversations_told *told)
{
	struct event event = shell_event(EVENT_TOKENS_HELD);
	bool known = told && !kept->plain;

	if (!kept->lazy)
		return;
	event.held.instance = kept->instance;
	event.held.settled = kept->ended == kept->ended_when_asked;
	int64_t filled = 0;
	for (uint32_t i = 0; i < kept->slots; i++)
		filled += kept->most_tokens[i] > 0;
	for (uint32_t i = 0; i < kept->slots; i++)
		add_slot(&event, i, known ? kv_shape_bytes(&kept->shape, kept->most_tokens[i])
		                          : kept->shape.full_bytes);
	event.held.tokens = kept->tokens;
	if (known && told->lazy.reached) {
		int64_t there = told->lazy.resident_bytes - kept->state_bytes;
		set_right(&event, (there > 0 ? there : 0) + filled * kept->shape.beside_bytes);
	}
	shell_push(kept->shell, &event);
}

/* Once: the cache was reserved in the library's hands, and is not there. */
static void check_effect(struct kept_talk *kept, const struct conversations_told *told)
{
	struct catalogue_row *row = &kept->shell->catalogue.rows[kept->model];

	kept->checked = true;
	if (lazy_took_effect(&told->lazy, (kept->shape.full_bytes - kept->shape.beside_bytes) * kept->slots))
		return;
	kept->plain = true;
	row->no_effect = true;
	str_copy(row->not_lazy, sizeof(row->not_lazy), STR(LAZY_NO_EFFECT));
	log_warn("%s: %s; its cache is counted whole", kept->shell->conf->models[kept->model].name, row->not_lazy);
}

/* Whose tokens a slot holds that ran something new: the ended request that is nearest in tokens. */
static uint64_t take_nearest(struct kept_talk *kept, int64_t tokens, bool only)
{
	uint32_t best = RECENT_MAX;
	int64_t least = INT64_MAX;

	for (uint32_t i = 0; i < kept->recent_count; i++) {
		int64_t off = kept->recent[i].tokens - tokens;
		off = off < 0 ? -off : off;
		if (!only && !kept->recent[i].tokens)
			continue; /* there are several, and nobody told how long this one was */
		if (off < least) {
			least = off;
			best = i;
		}
	}
	/* An answer's last token is not in the cache; templates differ by a few. */
	if (best == RECENT_MAX || (!only && least > 8))
		return 0;
	uint64_t conversation = kept->recent[best].conversation;
	kept->recent_count--;
	memmove(&kept->recent[best], &kept->recent[best + 1], (kept->recent_count - best) * sizeof(kept->recent[0]));
	return conversation;
}

/* True: one of them runs. */
static bool take_slots(struct kept_talk *kept, const struct slots_told *slots)
{
	uint32_t changed = 0;
	bool runs = false;

	kept->slots = slots->count;
	kept->tokens = 0;
	for (uint32_t i = 0; i < slots->count; i++) {
		changed += slots->slot[i].task != kept->task[i] && !slots->slot[i].busy;
		runs |= slots->slot[i].busy;
	}
	bool only = changed == 1 && kept->recent_count == 1;
	for (uint32_t i = 0; i < slots->count; i++) {
		const struct slot_told *slot = &slots->slot[i];
		kept->tokens += slot->tokens;
		kept->held_tokens[i] = slot->tokens;
		if (slot->tokens > kept->most_tokens[i])
			kept->most_tokens[i] = slot->tokens;
		if (slot->task == kept->task[i] || slot->busy)
			continue;
		kept->task[i] = slot->task;
		kept->conversation[i] = take_nearest(kept, slot->tokens, only);
	}
	return runs;
}

/*
 * A slot may run on for a moment when its client has left. So what it holds is told by those who ended before, and
 * an engine that is to end is given that moment: what a slot holds that runs cannot be saved.
 */
static void on_told(void *ctx, const struct conversations_told *told)
{
	struct kept_talk *kept = ctx;
	bool runs = false;

	kept->talk = NULL;
	if (told->error == 0) {
		runs = take_slots(kept, &told->slots);
		if (kept->lazy && !kept->checked)
			check_effect(kept, told);
	}
	bool settled = kept->ended == kept->ended_when_asked;
	if (settled && !runs)
		kept->recent_count = 0;
	push_held(kept, told->error == 0 ? told : NULL);
	if (!kept->stop_then && !settled)
		kept_ask(kept, 0);
	if (!kept->stop_then)
		return;
	bool waits = runs && kept_saves(kept) && kept->runs_times++ < RUNS_TIMES_MAX;
	if (!waits || !kept_ask(kept, RUNS_AGAIN_MS))
		kept_save_and_stop(kept);
}

bool kept_reach(const struct kept_talk *kept, struct conversations_order *order)
{
	struct supervisor *supervisor = kept->shell->supervisor;

	order->loop = &kept->shell->loop;
	return supervisor_endpoint(supervisor, kept->instance, &order->endpoint) &&
	       supervisor_lazy_socket(supervisor, kept->instance, order->lazy_socket);
}

bool kept_ask(struct kept_talk *kept, uint32_t after_ms)
{
	struct conversations_order order = {
		.work = CONVERSATIONS_READ, .after_ms = after_ms, .ctx = kept, .done = on_told,
	};

	if (kept->talk || kept->clearing)
		return true;
	kept->ended_when_asked = kept->ended;
	if (!kept_reach(kept, &order))
		return false;
	kept->talk = conversations_start(&order);
	return true;
}

/* ---- for people ---- */

void shell_each_conversation(void *ctx, void (*each)(void *each_ctx, const struct conversation_view *view),
                             void *each_ctx)
{
	const struct shell *shell = ctx;

	for (uint32_t i = 0; i < shell->instances_used; i++) {
		const struct kept_talk *kept = shell->instances[i].live ? shell->instances[i].kept : NULL;
		for (uint32_t slot = 0; kept && slot < kept->slots; slot++) {
			struct conversation_view view = {
				.model = kept->model,
				.conversation = kept->conversation[slot],
				.place = kept->saving >> slot & 1 ? CONVERSATION_SAVING : CONVERSATION_HELD,
				.slot = slot,
				.tokens = kept->held_tokens[slot],
				.bytes = kv_shape_bytes(&kept->shape, kept->held_tokens[slot]),
			};
			if (view.tokens > 0)
				each(each_ctx, &view);
		}
	}
	for (size_t i = 0; i < shell->saved->count; i++) {
		const struct saved_conversation *saved = &shell->saved->list[i];
		struct conversation_view view = {
			.model = saved->model,
			.conversation = saved->conversation,
			.place = CONVERSATION_SAVED,
			.tokens = saved->tokens,
			.bytes = saved->bytes,
			.saved_at_us = saved->at_us,
		};
		each(each_ctx, &view);
	}
}

/* ---- life ---- */

void shell_kept_ended(struct shell *shell, struct id instance, uint64_t conversation, int64_t tokens)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	struct kept_talk *kept = row->kept;
	kept->ended++;
	if (kept->recent_count == RECENT_MAX)
		memmove(kept->recent, kept->recent + 1, --kept->recent_count * sizeof(kept->recent[0]));
	kept->recent[kept->recent_count++] = (struct ended){ conversation, tokens };
	kept_ask(kept, 0);
}

void shell_kept_ask(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	kept_ask(row->kept, 0);
}

void shell_kept_begin(struct shell *shell, struct instance_row *row)
{
	const struct catalogue_row *known = &shell->catalogue.rows[row->model];

	if (!known->lazy && !known->elastic.count)
		return;
	row->kept = xcalloc(1, sizeof(*row->kept));
	*row->kept = (struct kept_talk){
		.shell = shell,
		.instance = row->id,
		.model = row->model,
		.lazy = known->lazy,
		.key = saved_key(shell, row->model),
		.shape = known->kv,
		.state_bytes = known->estimate.host.recurrent_bytes,
		.slots = known->spec.slots < SLOTS_TOLD_MAX ? known->spec.slots : SLOTS_TOLD_MAX,
	};
	for (uint32_t i = 0; i < SLOTS_TOLD_MAX; i++)
		row->kept->task[i] = -1;
}

void shell_kept_end(struct instance_row *row)
{
	if (!row->kept)
		return;
	if (row->kept->talk)
		conversations_cancel(row->kept->talk);
	kept_forget(row->kept);
	free(row->kept);
	row->kept = NULL;
}
