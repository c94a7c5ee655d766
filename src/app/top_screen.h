#ifndef APP_TOP_SCREEN_H
#define APP_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "app/top_data.h"
#include "base/buf.h"

/*
 * top_screen - a picture of the data as lines of text.
 *
 * From above: the title, one bar of the whole memory by owner with its legend,
 * the models, the last decisions, the keys. It fills exactly the rows and
 * columns it is given and no more: columns and blank lines go first where there
 * is little room, then decisions, never the selected model. The bar is made of
 * letters, so it reads the same without colours. Every line ends with its rest
 * wiped, and nothing but text, SGR and "erase to the end of the line" is used.
 */
struct top_view {
	int rows, columns;   /* rows 0: as many as it takes, without keys (a snapshot) */
	int selected;        /* index of a model */
	bool colour;
	bool utf8;           /* false: what is not ASCII is shown as '?' */
	int64_t now_ms;      /* Unix epoch */
	int32_t utc_offset_s; /* for the times of decisions */
	const char *where;   /* the daemon that is shown, "" = the local one */
	const char *message; /* one line in place of the keys, NULL = the keys */
	bool lost;           /* the daemon does not answer: what is shown is old */
};

enum { TOP_ROWS_MIN = 5, TOP_COLUMNS_MIN = 20 };

/* The lines, each with '\n' behind it but the last. */
void top_screen_draw(const struct top_data *data, const struct top_view *view, struct buf *out);

#endif
