#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * table - the columns of each kind of row, once.
 *
 * Copying a row into the queue, writing it and reading it as JSON all walk
 * these lists; only the CREATE TABLE of the migrations stands apart, because a
 * migration must say what was true when it was written.
 */
struct column {
	const char *name;
	bool text;      /* const char *, else int64_t */
	size_t offset;  /* in the struct of store.h */
};

struct table {
	const char *name;
	const char *time;  /* the column that orders it */
	const struct column *columns; /* the last has no name */
	size_t bytes;      /* of the struct */
};

enum table_kind {
	TABLE_DECISIONS,
	TABLE_REQUESTS,
	TABLE_OBSERVATIONS,
	TABLE_COUNT,
};

extern const struct table tables[TABLE_COUNT];

/* TABLE_COUNT where there is none of that name. */
enum table_kind table_find(const char *name);

void table_insert_sql(const struct table *table, struct buf *out);
/* ?1 = since, ?2 = limit, ?3 = model where `by_model`. */
void table_select_sql(const struct table *table, bool by_model, struct buf *out);

/* Values of a row. */
const char *column_text(const struct column *column, const void *row);
long long column_number(const struct column *column, const void *row);

#endif
