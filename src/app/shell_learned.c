/*
 * What the arbiter learned, kept over lives of the daemon: each row soon after it changed, so that a daemon that is
 * killed forgets little, and all of them here, so that a model which comes back, in another form or after a reload,
 * is known again. How models slow one another is kept by the name of their pool: its number may be another's when the
 * next daemon looks at the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "app/shell.h"
#include "base/alloc.h"
#include "base/units.h"

enum { ROWS_MOST = 4096, KEEP_EVERY_US = 2 * US_PER_S };

/* Of more the newest replace the oldest. */
struct learned_rows {
	struct learned_row *row;
	uint32_t count, capacity, next;
	int64_t kept_at_us;
};

static uint64_t pool_key(const struct shell *shell, uint64_t pool)
{
	return pool < shell->topology.pools ? str_hash(str_from(shell->topology.pool[pool].name)) : 0;
}

static struct learned_row *find(struct learned_rows *rows, uint64_t file_key, uint64_t build_key)
{
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->row[i].file_key == file_key && rows->row[i].build_key == build_key)
			return &rows->row[i];
	return NULL;
}

static void remember(struct learned_rows *rows, const struct learned_row *row)
{
	struct learned_row *known = find(rows, row->file_key, row->build_key);

	if (!known && rows->count < ROWS_MOST) {
		if (rows->count == rows->capacity) {
			rows->capacity = rows->capacity ? 2 * rows->capacity : 16;
			rows->row = xrealloc(rows->row, rows->capacity * sizeof(*rows->row));
		}
		known = &rows->row[rows->count++];
	} else if (!known) {
		known = &rows->row[rows->next++ % ROWS_MOST];
	}
	*known = *row;
}

static void on_stored(void *ctx, const void *stored)
{
	struct learned_row row;

	memcpy(&row, stored, sizeof(row));
	remember(ctx, &row);
}

static void push(struct shell *shell, const struct learned_row *row)
{
	struct event event = shell_event(EVENT_LEARNED);

	event.learned = *row;
	shell_push(shell, &event);
}

void shell_open_learned(struct shell *shell)
{
	struct learned_rows *rows = shell->learned_rows = xcalloc(1, sizeof(*rows));

	if (shell->store)
		store_load_learned(shell->store, sizeof(struct learned_row), on_stored, rows);
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->row[i].file_key != LEARNED_PACE)
			push(shell, &rows->row[i]);
	for (uint32_t pool = 0; pool < shell->topology.pools && pool < POOLS_MAX; pool++) {
		const struct learned_row *pace = find(rows, LEARNED_PACE, pool_key(shell, pool));
		if (!pace)
			continue;
		struct learned_row here = *pace;
		here.build_key = pool;
		push(shell, &here);
	}
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
	const struct learned_row *row = find(shell->learned_rows, spec->file_key, spec->build_key);

	if (row)
		push(shell, row);
}

void shell_keep_learned(struct shell *shell, bool now)
{
	struct learned_rows *rows = shell->learned_rows;
	struct learned_row fresh[8];
	uint32_t count;

	if (!now && shell_now_us() - rows->kept_at_us < KEEP_EVERY_US)
		return;
	rows->kept_at_us = shell_now_us();
	while ((count = arbiter_export(shell->arbiter, fresh, 8)) > 0)
		for (uint32_t i = 0; i < count; i++) {
			struct learned_row *row = &fresh[i];
			if (row->file_key == LEARNED_PACE)
				row->build_key = pool_key(shell, row->build_key);
			remember(rows, row);
			store_save_learned(shell->store, row->file_key, row->build_key, row, sizeof(*row));
		}
}

void shell_close_learned(struct shell *shell)
{
	if (!shell->learned_rows)
		return;
	free(shell->learned_rows->row);
	free(shell->learned_rows);
}
