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

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/dirs.h"
#include "app/saved.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/conversations.h"
#include "engine/preload.h"

enum { RECENT_MAX = 16, TEMPLATE_TOKENS = 256 }; /* what a chat template puts around the words */

/* A dispatched request whose conversation is brought back first. */
struct restoring {
	struct kept_talk *kept;
	struct conversations_talk *talk;
	struct action dispatch;
	uint64_t conversation;
	struct restoring *next;
};

struct ended {
	uint64_t conversation;
	int64_t tokens; /* of prompt and answer; 0 = not told */
};

struct kept_talk {
	struct shell *shell;
	struct id instance;
	uint32_t model;
	uint64_t key;             /* of files that it can read */
	bool lazy;                /* else its cache is reserved whole, and nobody counts what it holds */
	struct kv_shape shape;
	int64_t state_bytes;      /* of recurrent layers: in the same buffers, and in base */
	struct conversations_talk *talk; /* NULL: nothing is asked */
	uint32_t ended, ended_when_asked;
	bool checked;
	bool plain;               /* the library had no effect: all of it is there */
	uint32_t slots;
	int64_t most_tokens[SLOTS_TOLD_MAX]; /* since the last discard */
	int64_t tokens;
	uint32_t recent_count;    /* requests that ended since the slots were read */
	struct ended recent[RECENT_MAX];
	uint64_t conversation[SLOTS_TOLD_MAX]; /* that each slot holds; 0 = not known */
	int64_t held_tokens[SLOTS_TOLD_MAX];
	int64_t task[SLOTS_TOLD_MAX];
	bool clearing;            /* `talk` gives them up */
	bool clear_asked;         /* ... for the arbiter */
	bool stop_then;           /* what is asked is awaited, and then the engine is to end */
	bool keeps_all;           /* ... to be started anew: whatever `kv_keep` says */
	struct restoring *restoring;
};

/* ---- what a request may take ---- */

/* A token is at least a byte, but for what a template puts around the words. */
int64_t shell_most_tokens(const struct shell *shell, uint32_t model, const struct prompt_size *prompt)
{
	int64_t reply = prompt->reply_tokens >= 0 ? prompt->reply_tokens : shell->conf->models[model].reply_tokens;
	int64_t tokens = prompt->tokens >= 0 ? prompt->tokens
	                                     : (prompt->bytes < INT32_MAX ? prompt->bytes : INT32_MAX) + TEMPLATE_TOKENS;

	tokens = tokens < INT32_MAX ? tokens : INT32_MAX;
	return reply < INT32_MAX ? tokens + reply : 2 * (int64_t)INT32_MAX;
}

void shell_need(void *ctx, uint32_t model, const struct prompt_size *prompt, struct request_spec *out)
{
	const struct shell *shell = ctx;
	const struct catalogue_row *row = &shell->catalogue.rows[model];
	/* Of a picture that is named by its address nobody knows how many tokens it is. */
	bool known = (prompt->bytes >= 0 || prompt->tokens >= 0) && !shell->conf->models[model].mmproj;

	if ((row->lazy || row->untried) && known) {
		int64_t most = row->spec.context_tokens ? row->spec.context_tokens : INT32_MAX;
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

/* What was saved holds for the same file in the same engine, started the same way. */
static uint64_t saved_key(const struct catalogue_row *row)
{
	uint64_t parts[] = { row->spec.file_key, row->launch_key };

	return str_hash((struct str){ (const char *)parts, sizeof(parts) });
}

void shell_load_saved(struct shell *shell)
{
	struct saved_share *models = xcalloc(shell->catalogue.count + 1, sizeof(*models));

	for (size_t i = 0; i < shell->catalogue.count; i++)
		models[i] = (struct saved_share){ saved_key(&shell->catalogue.rows[i]),
			                          shell->conf->models[i].kv_keep_bytes };
	saved_load(shell->saved, models, (uint32_t)shell->catalogue.count, shell_wall_offset_us());
	free(models);
}

void shell_ground(struct shell *shell, struct catalogue_ground *out)
{
	*out = (struct catalogue_ground){
		.room_bytes = shell->room_bytes,
		.has_devices = shell_has_devices(shell),
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
	str_copy(row->not_lazy, sizeof(row->not_lazy), STR("the preload library took no effect in its engine"));
	log_warn("%s: %s; its cache is counted whole", kept->shell->conf->models[kept->model].name, row->not_lazy);
}

static void ask(struct kept_talk *kept);
static void keep_and_stop(struct kept_talk *kept);

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
	kept->recent[best] = kept->recent[--kept->recent_count];
	return conversation;
}

static void take_slots(struct kept_talk *kept, const struct slots_told *slots)
{
	uint32_t changed = 0;

	kept->slots = slots->count;
	kept->tokens = 0;
	for (uint32_t i = 0; i < slots->count; i++)
		changed += slots->slot[i].task != kept->task[i] && !slots->slot[i].busy;
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
}

static void on_told(void *ctx, const struct conversations_told *told)
{
	struct kept_talk *kept = ctx;

	kept->talk = NULL;
	if (told->error == 0) {
		take_slots(kept, &told->slots);
		if (kept->lazy && !kept->checked)
			check_effect(kept, told);
	}
	bool settled = kept->ended == kept->ended_when_asked;
	if (settled)
		kept->recent_count = 0;
	push_held(kept, told->error == 0 ? told : NULL);
	if (kept->stop_then)
		keep_and_stop(kept);
	else if (!settled)
		ask(kept);
}

static bool reach(const struct kept_talk *kept, struct conversations_order *order)
{
	struct supervisor *supervisor = kept->shell->supervisor;

	order->loop = &kept->shell->loop;
	return supervisor_endpoint(supervisor, kept->instance, &order->endpoint) &&
	       supervisor_lazy_socket(supervisor, kept->instance, order->lazy_socket);
}

static void ask(struct kept_talk *kept)
{
	struct conversations_order order = { .work = CONVERSATIONS_READ, .ctx = kept, .done = on_told };

	if (kept->talk)
		return;
	kept->ended_when_asked = kept->ended;
	if (reach(kept, &order))
		kept->talk = conversations_start(&order);
}

/* ---- giving up ---- */

static void push_erased(struct kept_talk *kept, bool failed, int64_t saved_bytes)
{
	struct event event = shell_event(EVENT_CONVERSATION_ERASED);

	event.erased.instance = kept->instance;
	event.erased.failed = failed;
	event.erased.saved_bytes = saved_bytes;
	shell_push(kept->shell, &event);
}

/* As much as may lie in files. Those of an engine that is only started anew are soon asked for. */
static int64_t keeps_bytes(const struct kept_talk *kept)
{
	return kept->keeps_all ? INT64_MAX : kept->shell->conf->models[kept->model].kv_keep_bytes;
}

static struct saved_conversation entry_of(const struct kept_talk *kept, uint32_t slot)
{
	struct saved_conversation entry = {
		.model = kept->model,
		.conversation = kept->conversation[slot],
		.key = kept->key,
		.tokens = kept->held_tokens[slot],
		.bytes = kept->held_tokens[slot] * kept->shape.token_bytes,
		.at_us = shell_now_us(),
	};

	saved_name(&entry);
	return entry;
}

static void keep_saved(struct kept_talk *kept, const struct conversations_told *told)
{
	for (uint32_t i = 0; i < kept->slots; i++) {
		struct saved_conversation entry = entry_of(kept, i);
		if (told->saved >> i & 1)
			saved_put(kept->shell->saved, &entry, keeps_bytes(kept));
		else if (told->spoilt >> i & 1)
			saved_spoilt(kept->shell->saved, &entry);
	}
}

static void on_cleared(void *ctx, const struct conversations_told *told)
{
	struct kept_talk *kept = ctx;
	const char *name = kept->shell->conf->models[kept->model].name;

	kept->talk = NULL;
	kept->clearing = false;
	keep_saved(kept, told);
	if (told->error) {
		log_warn("%s: its conversations stay in memory: %s", name, told->text);
	} else {
		log_info("%s: %lld tokens of idle conversations given up, %lld of them saved, in %lld ms", name,
		         (long long)told->held_tokens, (long long)told->saved_tokens,
		         (long long)told->took_us / 1000);
		memset(kept->most_tokens, 0, sizeof(kept->most_tokens));
		memset(kept->held_tokens, 0, sizeof(kept->held_tokens));
		memset(kept->conversation, 0, sizeof(kept->conversation));
		kept->tokens = 0;
	}
	if (kept->clear_asked)
		push_erased(kept, told->error != 0, told->saved_bytes);
	kept->clear_asked = false;
	if (kept->stop_then)
		supervisor_stop(kept->shell->supervisor, kept->instance, 0);
	else if (told->error)
		ask(kept);
}

/* Names for those that are known and may be kept. */
static void name_files(const struct kept_talk *kept, struct conversations_order *order)
{
	int64_t left = keeps_bytes(kept);

	for (uint32_t i = 0; i < kept->slots; i++) {
		struct saved_conversation entry = entry_of(kept, i);
		if (!entry.conversation || entry.bytes > left)
			continue;
		left -= entry.bytes;
		str_copy(order->file[i], sizeof(order->file[i]), str_from(entry.file));
	}
}

static bool clear(struct kept_talk *kept)
{
	struct conversations_order order = { .work = CONVERSATIONS_CLEAR, .ctx = kept, .done = on_cleared };

	if (kept->clearing)
		return true;
	if (!reach(kept, &order))
		return false;
	if (kept->talk)
		conversations_cancel(kept->talk); /* what it would tell is about to change */
	name_files(kept, &order);
	kept->clearing = true;
	kept->talk = conversations_start(&order);
	return true;
}

void shell_kept_discard(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	row->kept->clear_asked = true;
	if (!clear(row->kept)) {
		row->kept->clear_asked = false;
		push_erased(row->kept, true, 0);
	}
}

/* What is worth keeping is saved first. Nothing is being asked. */
static void keep_and_stop(struct kept_talk *kept)
{
	bool keeps = kept->shell->phase != PHASE_CLOSING && kept->tokens && keeps_bytes(kept);

	if (!keeps || !clear(kept))
		supervisor_stop(kept->shell->supervisor, kept->instance, 0);
}

/*
 * An engine that is told to end while it has a question before it may not end: its
 * queue is closed, and the question waits in it. So the answer is awaited: for a
 * moment, or, where conversations are to be kept, until it tells which they are.
 */
void shell_kept_stop(struct shell *shell, struct id instance, bool starts_anew)
{
	enum { ANSWER_MS = 1000 };
	struct instance_row *row = shell_instance(shell, instance);
	struct kept_talk *kept = row ? row->kept : NULL;

	if (!kept) {
		supervisor_stop(shell->supervisor, instance, 0);
		return;
	}
	kept->stop_then = true;
	kept->keeps_all = starts_anew;
	/* What was saved to be started anew and was not asked for since is no longer beyond the rule. */
	saved_trim(shell->saved, kept->model, shell->conf->models[kept->model].kv_keep_bytes);
	if (!kept->talk)
		keep_and_stop(kept);
	else if (!kept->clearing && !(shell->phase != PHASE_CLOSING && keeps_bytes(kept)))
		supervisor_stop(shell->supervisor, instance, ANSWER_MS);
}

/* ---- bringing back ---- */

static void unlink_restoring(const struct restoring *restoring)
{
	struct restoring **at = &restoring->kept->restoring;

	while (*at != restoring)
		at = &(*at)->next;
	*at = restoring->next;
}

/* Restored or not, the request goes on: at worst its prompt is read from the start. */
static void on_restored(void *ctx, const struct conversations_told *told)
{
	struct restoring *restoring = ctx;
	struct kept_talk *kept = restoring->kept;
	struct shell *shell = kept->shell;

	if (told->error)
		log_warn("%s: a saved conversation was not brought back: %s",
		         shell->conf->models[kept->model].name, told->text);
	else
		log_info("%s: a saved conversation of %lld tokens was brought back in %lld ms",
		         shell->conf->models[kept->model].name, (long long)told->restored_tokens,
		         (long long)told->took_us / 1000);
	saved_drop(shell->saved, kept->model, restoring->conversation);
	unlink_restoring(restoring);
	ticket_verdict(shell->tickets, &restoring->dispatch);
	free(restoring);
}

bool shell_kept_restore(struct shell *shell, const struct action *dispatch)
{
	struct instance_row *row = shell_instance(shell, dispatch->instance);
	struct conversations_order order = { .work = CONVERSATIONS_RESTORE, .done = on_restored };
	uint64_t conversation = shell->conversation_of[dispatch->request.index];

	if (!row || !row->kept || !conversation)
		return false;
	const struct saved_conversation *saved = saved_find(shell->saved, row->model, conversation);
	if (!saved || saved->key != row->kept->key || !reach(row->kept, &order))
		return false;
	struct restoring *restoring = xcalloc(1, sizeof(*restoring));
	*restoring = (struct restoring){ row->kept, NULL, *dispatch, conversation, row->kept->restoring };
	row->kept->restoring = restoring;
	str_copy(order.file[0], sizeof(order.file[0]), str_from(saved->file));
	order.ctx = restoring;
	restoring->talk = conversations_start(&order);
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
				.slot = (int)slot,
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
			.slot = -1,
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
	if (kept->recent_count < RECENT_MAX)
		kept->recent[kept->recent_count++] = (struct ended){ conversation, tokens };
	ask(kept);
}

void shell_kept_ask(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	ask(row->kept);
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
		.key = saved_key(known),
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
	while (row->kept->restoring) {
		struct restoring *restoring = row->kept->restoring;
		row->kept->restoring = restoring->next;
		conversations_cancel(restoring->talk);
		free(restoring);
	}
	free(row->kept);
	row->kept = NULL;
}
