#ifndef APP_CLI_TABLE_H
#define APP_CLI_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * cli_table - rows for a person, each column as wide as its widest cell.
 *
 * Cells are added from left to right, row after row. Control bytes are shown
 * as '?': names come from files and peers.
 */
enum { TABLE_COLUMNS_MAX = 16 };

struct table {
	const char *title[TABLE_COLUMNS_MAX]; /* a '>' before it: the column is aligned right */
	int columns;
	char **cell;
	size_t cells;
	size_t capacity;
};

/* `titles` ends with NULL and outlives the table. */
void table_begin(struct table *table, const char *const *titles);
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_add_size(struct table *table, int64_t bytes);  /* "4.20 GiB"; "-" for 0 */
void table_add_count(struct table *table, int64_t count); /* "-" for 0 */
void table_add_ms(struct table *table, int64_t ms);       /* "4.2 s"; "-" for 0 */
/* Print to `out` and release; a table without rows prints nothing. */
void table_end(struct table *table, struct buf *out);

#endif
