#ifndef APP_TOP_LINE_H
#define APP_TOP_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * top_line - one line of a screen, which knows how wide it is.
 *
 * Text is cut where the line is full, by characters and not by bytes; control
 * bytes and what is no UTF-8 become '?', and characters count as wide as a
 * terminal shows them. Colours take no room.
 */
struct line {
	struct buf *out;
	int columns; /* how wide it may be */
	int used;
	bool colour;
	bool utf8;
};

void line_text(struct line *line, const char *text);
/* In `width` columns: cut, or filled with blanks behind it (left) or before it (right). */
void line_left(struct line *line, const char *text, int width);
void line_right(struct line *line, const char *text, int width);
void line_printf(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* SGR parameters such as "1;32"; "0" ends them. */
void line_style(struct line *line, const char *sgr);
/* How many columns the text takes. */
int line_width_of(const char *text);

#endif
