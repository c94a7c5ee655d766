#include "app/lengths.h"

#include <stdlib.h>

#include "base/alloc.h"

static uint64_t kept_count(const struct lengths *lengths)
{
	return lengths->next < LENGTHS_KEPT ? lengths->next : LENGTHS_KEPT;
}

/* Where `conversation` is kept; the count where it is not. */
static uint64_t place_of(const struct lengths *lengths, uint64_t conversation)
{
	uint64_t count = kept_count(lengths), at = 0;

	while (at < count && (!conversation || lengths->kept[at].conversation != conversation))
		at++;
	return at;
}

void lengths_note(struct lengths *lengths, uint64_t conversation, int64_t tokens)
{
	uint64_t count = kept_count(lengths);

	if (tokens <= 0)
		return;
	uint64_t at = place_of(lengths, conversation);
	if (at == count) {
		at = lengths->next++ % LENGTHS_KEPT;
		lengths->kept[at].conversation = conversation;
		lengths->kept[at].tokens = lengths->kept[at].dense_milli = 0;
	}
	if (lengths->kept[at].tokens < (uint64_t)tokens)
		lengths->kept[at].tokens = (uint64_t)tokens;
}

void lengths_note_prompt(struct lengths *lengths, uint64_t conversation, int64_t bytes, int64_t tokens)
{
	uint64_t last = (lengths->next + LENGTHS_KEPT - 1) % LENGTHS_KEPT;

	if (bytes < LENGTHS_PROMPT_LEAST || bytes > INT32_MAX || tokens <= 0 || lengths->next == 0)
		return;
	/* Without a name it is the one that was just noted. */
	uint64_t at = conversation ? place_of(lengths, conversation) : last;
	uint64_t milli = (uint64_t)bytes * 1000 / (uint64_t)tokens;
	if (at == kept_count(lengths))
		return;
	uint64_t *dense = &lengths->kept[at].dense_milli;
	*dense = *dense == 0 || milli < *dense ? milli : *dense;
}

int64_t lengths_dense_milli(const struct lengths *lengths)
{
	uint64_t count = kept_count(lengths), told = 0, most = 0;

	for (uint64_t i = 0; i < count; i++)
		told += lengths->kept[i].dense_milli > 0;
	if (told < LENGTHS_SURE)
		return 0;
	/* The largest that no more than one of twenty is below. */
	for (uint64_t i = 0; i < count; i++) {
		uint64_t milli = lengths->kept[i].dense_milli, denser = 0;
		for (uint64_t j = 0; j < count; j++)
			denser += lengths->kept[j].dense_milli > 0 && lengths->kept[j].dense_milli < milli;
		if (denser <= told / 20 && milli > most)
			most = milli;
	}
	return (int64_t)most;
}

int64_t lengths_usual(const struct lengths *lengths)
{
	uint64_t count = kept_count(lengths), beyond = count / 20;
	uint64_t least = 0;

	/* The largest that no more than `beyond` of them exceed. */
	for (uint64_t i = 0; i < count; i++) {
		uint64_t tokens = lengths->kept[i].tokens, longer = 0;
		for (uint64_t j = 0; j < count; j++)
			longer += lengths->kept[j].tokens > tokens;
		if (longer <= beyond && (least == 0 || tokens < least))
			least = tokens;
	}
	return (int64_t)least;
}

/* ---- of all ---- */

static struct lengths *new_row(struct lengths_table *table)
{
	if (table->count == LENGTHS_MOST) {
		struct lengths *oldest = table->rows;
		for (size_t i = 1; i < table->count; i++)
			if (table->rows[i].noted_at_ms < oldest->noted_at_ms)
				oldest = &table->rows[i];
		if (table->dropped)
			table->dropped(table->ctx, oldest);
		return oldest;
	}
	if (table->count == table->capacity) {
		table->capacity = table->capacity ? 2 * table->capacity : 16;
		table->rows = xrealloc(table->rows, table->capacity * sizeof(*table->rows));
	}
	return &table->rows[table->count++];
}

struct lengths *lengths_of(struct lengths_table *table, uint64_t model, uint64_t key)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->rows[i].model == model && table->rows[i].key == key)
			return &table->rows[i];
	struct lengths *row = new_row(table);
	*row = (struct lengths){ .model = model, .key = key };
	return row;
}

void lengths_add(struct lengths_table *table, const struct lengths *row)
{
	*lengths_of(table, row->model, row->key) = *row;
}

void lengths_release(struct lengths_table *table)
{
	free(table->rows);
	*table = (struct lengths_table){ 0 };
}
