/*
 * What the arbiter learned, kept over lives of the daemon: each row soon after it changed, so that a daemon that is
 * killed forgets little, and all of them here, so that a model which comes back, in another form or after a reload,
 * is known again. Pools go by their names (stored_learned.h): their numbers may be others' when the next daemon looks
 * at the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "app/shell.h"
#include "app/stored_learned.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

enum { ROWS_MOST = 4096, KEEP_EVERY_US = 2 * US_PER_S };

/* Of more the newest replace the oldest, here and in the store. */
struct learned_rows {
	struct stored_learned *row;
	uint32_t count, capacity, next;
	int64_t kept_at_us;
	uint32_t impossible; /* not told yet */
};

static struct pool_names pool_names(const struct shell *shell)
{
	struct pool_names names = { 0 };

	for (uint32_t pool = 0; pool < shell->topology.pools && pool < POOLS_MAX; pool++)
		names.hash[pool] = str_hash(str_from(shell->topology.pool[pool].name));
	return names;
}

static struct stored_learned *find(struct learned_rows *rows, uint64_t file_key, uint64_t build_key)
{
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->row[i].row.file_key == file_key && rows->row[i].row.build_key == build_key)
			return &rows->row[i];
	return NULL;
}

static void forget_stored(struct shell *shell, const struct stored_learned *stored)
{
	if (shell->store)
		store_forget_learned(shell->store, stored->row.file_key, stored->row.build_key, sizeof(*stored));
}

static void remember(struct shell *shell, const struct stored_learned *stored)
{
	struct learned_rows *rows = shell->learned_rows;
	struct stored_learned *known = find(rows, stored->row.file_key, stored->row.build_key);

	if (!known && rows->count < ROWS_MOST) {
		if (rows->count == rows->capacity) {
			rows->capacity = rows->capacity ? 2 * rows->capacity : 16;
			rows->row = xrealloc(rows->row, rows->capacity * sizeof(*rows->row));
		}
		known = &rows->row[rows->count++];
	} else if (!known) {
		known = &rows->row[rows->next++ % ROWS_MOST];
		forget_stored(shell, known);
	}
	*known = *stored;
}

static void save(struct shell *shell, const struct stored_learned *stored)
{
	remember(shell, stored);
	if (shell->store)
		store_save_learned(shell->store, stored->row.file_key, stored->row.build_key, stored, sizeof(*stored));
}

static void on_stored(void *ctx, const void *row)
{
	struct stored_learned stored;

	memcpy(&stored, row, sizeof(stored));
	remember(ctx, &stored);
}

/* Saved anew under the same keys, it takes its own place. */
static void on_numbered(void *ctx, const void *row)
{
	struct shell *shell = ctx;
	struct pool_names names = pool_names(shell);
	struct numbered_learned old;
	struct stored_learned stored;

	memcpy(&old, row, sizeof(old));
	stored_learned_of_numbered(&old, &names, &stored);
	save(shell, &stored);
}

static void push(struct shell *shell, const struct stored_learned *stored)
{
	struct event event = shell_event(EVENT_LEARNED);
	struct pool_names names = pool_names(shell);

	if (!stored_learned_here(stored, &names, &event.learned))
		return;
	shell_push(shell, &event);
}

void shell_open_learned(struct shell *shell)
{
	struct learned_rows *rows = shell->learned_rows = xcalloc(1, sizeof(*rows));

	if (shell->store) {
		store_load_learned(shell->store, sizeof(struct numbered_learned), on_numbered, shell);
		store_load_learned(shell->store, sizeof(struct stored_learned), on_stored, shell);
	}
	for (uint32_t i = 0; i < rows->count; i++)
		push(shell, &rows->row[i]);
}

void shell_learned_impossible(struct shell *shell, const struct learned_row *row)
{
	struct learned_rows *rows = shell->learned_rows;
	struct pool_names names = pool_names(shell);
	struct stored_learned stored;

	stored_learned_of(row, &names, &stored);
	forget_stored(shell, &stored);
	struct stored_learned *known = find(rows, stored.row.file_key, stored.row.build_key);
	if (known)
		*known = rows->row[--rows->count];
	rows->impossible++;
}

void shell_tell_impossible(struct shell *shell)
{
	struct learned_rows *rows = shell->learned_rows;

	if (!rows || rows->impossible == 0)
		return;
	log_warn("history.db held %u thing%s learned that cannot be true: left out, removed, and learned anew",
	         rows->impossible, rows->impossible == 1 ? "" : "s");
	rows->impossible = 0;
}

void shell_recall_model(struct shell *shell, uint32_t model)
{
	shell_context_start(shell, model);
	shell_correct_model(shell, model);
	shell_recall_word(shell, model);
}

void shell_recall_learned(struct shell *shell, uint32_t model)
{
	const struct model_spec *spec = &shell->catalogue.rows[model].spec;
	const struct stored_learned *stored = find(shell->learned_rows, spec->file_key, spec->build_key);

	if (stored)
		push(shell, stored);
}

void shell_keep_learned(struct shell *shell, bool now)
{
	struct learned_rows *rows = shell->learned_rows;
	struct pool_names names = pool_names(shell);
	struct learned_row fresh[8];
	uint32_t count;

	if (!now && shell_now_us() - rows->kept_at_us < KEEP_EVERY_US)
		return;
	rows->kept_at_us = shell_now_us();
	while ((count = arbiter_export(shell->arbiter, fresh, 8)) > 0)
		for (uint32_t i = 0; i < count; i++) {
			struct stored_learned stored;
			stored_learned_of(&fresh[i], &names, &stored);
			save(shell, &stored);
		}
}

void shell_close_learned(struct shell *shell)
{
	if (!shell->learned_rows)
		return;
	free(shell->learned_rows->row);
	free(shell->learned_rows);
}
