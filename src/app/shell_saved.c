/*
 * Conversations that an engine has to give up, on their way to files and back.
 *
 * An engine writes the files and says how many tokens went into each; then a thread
 * reads them back and seals them (saved.h), and no file is given to an engine that
 * is not what was sealed. Where one is not, the prompt is read from the start.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "app/kept.h"
#include "base/alloc.h"
#include "base/log.h"
#include "io/worker.h"

struct sealing {
	struct job job;
	struct kept_talk *kept; /* NULL: its engine is gone, and nobody knows these files */
	const char *folder;
	struct conversations_told told;
	uint32_t count;
	struct saved_conversation entry[SLOTS_TOLD_MAX];
	int code[SLOTS_TOLD_MAX];
	int64_t token_bytes;
	int64_t lost, lost_tokens; /* conversations that were to be saved and are not */
	int64_t free_bytes;
};

/* A dispatched request whose conversation is brought back first. */
struct restoring {
	struct job job;
	struct kept_talk *kept; /* NULL: its engine is gone */
	const char *folder;
	struct conversations_talk *talk; /* NULL: its file is being looked at */
	struct action dispatch;
	struct saved_conversation saved;
	int code;
	struct restoring *next;
};

static const char *name_of(const struct kept_talk *kept)
{
	return kept->shell->conf->models[kept->model].name;
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

	saved_begin(&entry, slot);
	return entry;
}

static void forget_held(struct kept_talk *kept)
{
	memset(kept->most_tokens, 0, sizeof(kept->most_tokens));
	memset(kept->held_tokens, 0, sizeof(kept->held_tokens));
	memset(kept->conversation, 0, sizeof(kept->conversation));
	kept->tokens = 0;
}

/* What was to be saved is, or never will be. */
static void after_clear(struct kept_talk *kept, const struct conversations_told *told)
{
	kept->clearing = false;
	kept->saving = 0;
	if (told->error)
		log_warn("%s: its conversations could not all be given up: %s", name_of(kept), told->text);
	else
		log_info("%s: %lld tokens of idle conversations given up, %lld of them saved, in %lld ms",
		         name_of(kept), (long long)told->held_tokens, (long long)told->saved_tokens,
		         (long long)told->took_us / 1000);
	if (!told->error)
		forget_held(kept);
	if (kept->clear_asked)
		push_erased(kept, told->error != 0, told->saved_bytes);
	kept->clear_asked = false;
	if (kept->stop_then && kept->keeping)
		supervisor_stop(kept->shell->supervisor, kept->instance, 0);
	else if (kept->stop_then)
		kept_save_and_stop(kept); /* the arbiter's order came to nothing, or there is nothing left to save */
	else if (told->error)
		kept_ask(kept, 0);
}

static void seal(struct job *job)
{
	struct sealing *sealing = LIST_ENTRY(job, struct sealing, job);

	for (uint32_t i = 0; i < sealing->count; i++)
		sealing->code[i] = saved_seal(sealing->folder, &sealing->entry[i]);
	sealing->free_bytes = unsaved_free_bytes(sealing->folder);
}

static void tell_unsaved(const struct sealing *sealing)
{
	const struct kept_talk *kept = sealing->kept;
	const struct unsaved_loss loss = {
		.model = kept->model,
		.name = name_of(kept),
		.folder = sealing->folder,
		.conversations = sealing->lost,
		.tokens = sealing->lost_tokens,
		.bytes = sealing->lost_tokens * sealing->token_bytes,
		.free_bytes = sealing->free_bytes,
		.at_us = shell_now_us(),
	};

	if (sealing->told.saved_tokens > 0 && !sealing->lost)
		unsaved_over(&kept->shell->unsaved);
	unsaved_note(&kept->shell->unsaved, &loss);
}

static void lose(struct sealing *sealing, const struct saved_conversation *entry)
{
	saved_spoilt(sealing->folder, entry);
	sealing->lost++;
	sealing->lost_tokens += entry->tokens;
}

static void after_seal(struct job *job)
{
	struct sealing *sealing = LIST_ENTRY(job, struct sealing, job);
	struct kept_talk *kept = sealing->kept;

	for (uint32_t i = 0; i < sealing->count; i++) {
		const struct saved_conversation *entry = &sealing->entry[i];
		if (sealing->code[i] == 0 && kept) {
			saved_put(kept->shell->saved, entry, keeps_bytes(kept));
			continue;
		}
		lose(sealing, entry);
		sealing->told.saved_tokens -= entry->tokens;
		if (kept)
			log_warn("%s: a conversation of %lld tokens was not saved: %s", name_of(kept),
			         (long long)entry->tokens, strerror(-sealing->code[i]));
	}
	if (kept) {
		kept->sealing = NULL;
		tell_unsaved(sealing);
		after_clear(kept, &sealing->told);
	}
	free(sealing);
}

static void on_cleared(void *ctx, const struct conversations_told *told)
{
	struct kept_talk *kept = ctx;
	struct sealing *sealing = xcalloc(1, sizeof(*sealing));

	kept->talk = NULL;
	if (!told->saved && !told->spoilt) {
		free(sealing);
		after_clear(kept, told);
		return;
	}
	sealing->folder = kept->shell->save_dir;
	sealing->token_bytes = kept->shape.token_bytes;
	for (uint32_t i = 0; i < kept->slots; i++) {
		struct saved_conversation entry = entry_of(kept, i);
		if (told->saved >> i & 1)
			sealing->entry[sealing->count++] = entry;
		else if (told->spoilt >> i & 1)
			lose(sealing, &entry);
	}
	if (!told->error && !kept->keeping) /* erased, and not in a file */
		for (uint32_t i = 0; i < kept->slots; i++)
			kept->held_tokens[i] = told->saved >> i & 1 ? kept->held_tokens[i] : 0;
	kept->saving = told->saved;
	sealing->kept = kept;
	sealing->told = *told;
	sealing->job = (struct job){ .run = seal, .done = after_seal };
	kept->sealing = sealing;
	worker_start(&kept->shell->loop, &sealing->job);
}

/* Names for those that are known and may be kept. */
static void name_files(struct kept_talk *kept, struct conversations_order *order)
{
	int64_t left = keeps_bytes(kept);

	kept->saving = 0;
	for (uint32_t i = 0; i < kept->slots; i++) {
		struct saved_conversation entry = entry_of(kept, i);
		if (!entry.conversation || entry.bytes > left)
			continue;
		left -= entry.bytes;
		str_copy(order->file[i], sizeof(order->file[i]), str_from(entry.file));
		kept->saving |= UINT64_C(1) << i;
	}
}

static bool clear(struct kept_talk *kept, enum conversations_work work)
{
	struct conversations_order order = { .work = work, .ctx = kept, .done = on_cleared };

	if (kept->clearing)
		return true;
	if (!kept_reach(kept, &order))
		return false;
	if (kept->talk)
		conversations_cancel(kept->talk); /* what it would tell is about to change */
	name_files(kept, &order);
	kept->clearing = true;
	kept->keeping = work == CONVERSATIONS_KEEP;
	kept->talk = conversations_start(&order);
	return true;
}

void shell_kept_discard(struct shell *shell, struct id instance)
{
	struct instance_row *row = shell_instance(shell, instance);

	if (!row || !row->kept)
		return;
	row->kept->clear_asked = true;
	if (!clear(row->kept, CONVERSATIONS_CLEAR)) {
		row->kept->clear_asked = false;
		push_erased(row->kept, true, 0);
	}
}

bool kept_saves(const struct kept_talk *kept)
{
	return kept->shell->phase != PHASE_CLOSING && kept->tokens && keeps_bytes(kept);
}

void kept_save_and_stop(struct kept_talk *kept)
{
	if (!kept_saves(kept) || !clear(kept, CONVERSATIONS_KEEP))
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
	bool asked = kept->talk || kept->clearing;
	if (kept_saves(kept) && !asked)
		asked = kept_ask(kept, 0);
	if (!asked)
		supervisor_stop(shell->supervisor, instance, 0);
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
static void finish_restoring(struct restoring *restoring)
{
	struct shell *shell = restoring->kept->shell;

	saved_drop(shell->saved, restoring->kept->model, restoring->saved.conversation);
	unlink_restoring(restoring);
	ticket_verdict(shell->tickets, &restoring->dispatch);
	free(restoring);
}

static void on_restored(void *ctx, const struct conversations_told *told)
{
	struct restoring *restoring = ctx;

	if (told->error)
		log_warn("%s: a saved conversation was not brought back: %s", name_of(restoring->kept), told->text);
	else
		log_info("%s: a saved conversation of %lld tokens was brought back in %lld ms",
		         name_of(restoring->kept), (long long)told->restored_tokens,
		         (long long)told->took_us / 1000);
	finish_restoring(restoring);
}

static void check(struct job *job)
{
	struct restoring *restoring = LIST_ENTRY(job, struct restoring, job);

	restoring->code = saved_check(restoring->folder, &restoring->saved);
}

static void after_check(struct job *job)
{
	struct restoring *restoring = LIST_ENTRY(job, struct restoring, job);
	struct conversations_order order = { .work = CONVERSATIONS_RESTORE, .ctx = restoring, .done = on_restored };
	char wrong[SAVED_WRONG];

	if (!restoring->kept) {
		free(restoring);
		return;
	}
	if (restoring->code < 0)
		log_warn("%s: a saved conversation is given up and read anew: its file %s", name_of(restoring->kept),
		         saved_wrong(wrong, restoring->code));
	if (restoring->code < 0 || !kept_reach(restoring->kept, &order)) {
		finish_restoring(restoring);
		return;
	}
	str_copy(order.file[0], sizeof(order.file[0]), str_from(restoring->saved.file));
	restoring->talk = conversations_start(&order);
}

bool shell_kept_restore(struct shell *shell, const struct action *dispatch)
{
	struct instance_row *row = shell_instance(shell, dispatch->instance);
	uint64_t conversation = shell->conversation_of[dispatch->request.index];

	if (!row || !row->kept || !conversation)
		return false;
	const struct saved_conversation *saved = saved_find(shell->saved, row->model, conversation);
	if (!saved || saved->key != row->kept->key)
		return false;
	struct restoring *restoring = xcalloc(1, sizeof(*restoring));
	*restoring = (struct restoring){
		.job = { .run = check, .done = after_check },
		.kept = row->kept,
		.folder = shell->save_dir,
		.dispatch = *dispatch,
		.saved = *saved,
		.next = row->kept->restoring,
	};
	row->kept->restoring = restoring;
	worker_start(&shell->loop, &restoring->job);
	return true;
}

/* ---- the end ---- */

void kept_forget(struct kept_talk *kept)
{
	if (kept->sealing)
		kept->sealing->kept = NULL;
	while (kept->restoring) {
		struct restoring *restoring = kept->restoring;
		kept->restoring = restoring->next;
		restoring->kept = NULL;
		if (!restoring->talk)
			continue; /* after_check() frees it */
		conversations_cancel(restoring->talk);
		free(restoring);
	}
}
