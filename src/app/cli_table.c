#include "app/cli_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/units.h"

void table_begin(struct table *table, const char *const *titles)
{
	*table = (struct table){ 0 };
	while (titles[table->columns]) {
		assert(table->columns < TABLE_COLUMNS_MAX);
		table->title[table->columns] = titles[table->columns];
		table->columns++;
	}
}

void table_add(struct table *table, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	if (table->cells == table->capacity) {
		table->capacity = table->capacity ? table->capacity * 2 : 64;
		table->cell = xrealloc(table->cell, table->capacity * sizeof(*table->cell));
	}
	table->cell[table->cells++] = xstrdup(text);
}

void table_add_size(struct table *table, int64_t bytes)
{
	char text[UNITS_TEXT];

	table_add(table, "%s", bytes ? units_size(text, bytes) : "-");
}

void table_add_count(struct table *table, int64_t count)
{
	if (count)
		table_add(table, "%lld", (long long)count);
	else
		table_add(table, "-");
}

void table_add_ms(struct table *table, int64_t ms)
{
	char text[UNITS_TEXT];

	table_add(table, "%s", ms ? units_duration(text, ms * US_PER_MS) : "-");
}

/* Places on the screen: bytes that do not continue a UTF-8 sequence. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static bool is_right(const char *title)
{
	return title[0] == '>';
}

static void put_cell(const struct table *table, int column, const char *text, int width,
                     struct buf *out)
{
	int blanks = width - width_of(text);
	bool last = column == table->columns - 1;

	if (is_right(table->title[column]))
		buf_printf(out, "%*s%s", blanks, "", text);
	else
		buf_printf(out, "%s%*s", text, last ? 0 : blanks, "");
	buf_printf(out, "%s", last ? "\n" : "  ");
}

void table_end(struct table *table, struct buf *out)
{
	int width[TABLE_COLUMNS_MAX];

	for (int column = 0; column < table->columns; column++)
		width[column] = width_of(table->title[column]) - is_right(table->title[column]);
	for (size_t i = 0; i < table->cells; i++) {
		int column = (int)(i % (size_t)table->columns), cell = width_of(table->cell[i]);
		if (cell > width[column])
			width[column] = cell;
	}
	for (int column = 0; table->cells && column < table->columns; column++)
		put_cell(table, column, table->title[column] + is_right(table->title[column]),
		         width[column], out);
	for (size_t i = 0; i < table->cells; i++) {
		int column = (int)(i % (size_t)table->columns);
		put_cell(table, column, table->cell[i], width[column], out);
		free(table->cell[i]);
	}
	free(table->cell);
	*table = (struct table){ 0 };
}
