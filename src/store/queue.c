#include "store/queue.h"

#include <string.h>

#include "base/alloc.h"

static struct item *make(enum item_kind kind, size_t data_bytes)
{
	struct item *item = xcalloc(1, sizeof(*item) + data_bytes);

	item->kind = kind;
	item->bytes = sizeof(*item) + data_bytes;
	return item;
}

/* Cut where a character ends, so that what is UTF-8 stays UTF-8. */
static size_t text_length(const char *text)
{
	size_t length = text ? strnlen(text, QUEUE_TEXT_MAX) : 0;

	if (length == QUEUE_TEXT_MAX)
		while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
			length--;
	return length;
}

struct item *item_of_row(enum table_kind kind, const void *row)
{
	const struct table *table = &tables[kind];
	size_t bytes = table->bytes;

	for (const struct column *column = table->columns; column->name; column++)
		if (column->text)
			bytes += text_length(column_text(column, row)) + 1;

	struct item *item = make(ITEM_ROW, bytes);
	char *at = item->data + table->bytes;
	item->table = kind;
	memcpy(item->data, row, table->bytes);
	for (const struct column *column = table->columns; column->name; column++) {
		if (!column->text)
			continue;
		const char *text = column_text(column, row);
		size_t length = text_length(text);
		if (length)
			memcpy(at, text, length);
		memcpy(item->data + column->offset, &at, sizeof(at));
		at += length + 1; /* zeroed, so it ends here */
	}
	return item;
}

struct item *item_of_learned(uint64_t file_key, uint64_t build_key, const void *row,
                             uint32_t row_bytes)
{
	struct item *item = make(ITEM_LEARNED, row_bytes);

	item->file_key = file_key;
	item->build_key = build_key;
	item->row_bytes = row_bytes;
	memcpy(item->data, row, row_bytes);
	return item;
}

struct item *item_of_query(enum table_kind table, const struct store_query *query,
                           void (*done)(void *ctx, const char *json), void *ctx)
{
	size_t length = text_length(query->model);
	struct item *item = make(ITEM_QUERY, length + 1);

	item->table = table;
	item->query = *query;
	if (length)
		memcpy(item->data, query->model, length);
	item->query.kind = tables[table].name;
	item->query.model = item->data;
	item->done = done;
	item->ctx = ctx;
	return item;
}

bool queue_put(struct queue *queue, struct item *item)
{
	if (queue->count >= QUEUE_ITEMS_MAX || queue->bytes + item->bytes > QUEUE_BYTES_MAX)
		return false;
	*(queue->last ? &queue->last->next : &queue->first) = item;
	queue->last = item;
	queue->count++;
	queue->bytes += item->bytes;
	return true;
}

struct item *queue_take_all(struct queue *queue)
{
	struct item *first = queue->first;

	*queue = (struct queue){ 0 };
	return first;
}
