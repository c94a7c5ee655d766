#ifndef APP_TOP_BAR_H
#define APP_TOP_BAR_H

#include "app/top_data.h"
#include "app/top_line.h"

/*
 * top_bar - the whole memory as one row of cells, by owner.
 *
 * '#' is the system, '%' other programs, a letter a model (A is the first in
 * the catalogue), '.' what one more model could take, '-' what models may not
 * take: the reserve, and what is beyond memory.limit. What takes anything at all has a cell, however little it is,
 * as long as there are cells; the largest gives it.
 */
enum { BAR_SEGMENTS_MAX = TOP_OWNERS_MAX + 2 };

struct bar_segment {
	char letter;
	const char *sgr;
	const char *name;
	int64_t bytes;
	int cells;
};

struct bar {
	struct bar_segment segment[BAR_SEGMENTS_MAX];
	int segments;
};

/* The bar of `data` in `cells` cells; all 0 where nothing is known yet. */
void bar_make(const struct top_data *data, int cells, struct bar *out);
void bar_draw(const struct bar *bar, struct line *line);
/* Legend entries from `*next` on, as many as fit; moves `*next`. False where none was left. */
bool bar_legend(const struct bar *bar, int *next, struct line *line);

/* The letter of a model of that name; ' ' where it takes no memory. */
char bar_letter(const struct bar *bar, const char *model);
/* Its colours. */
const char *bar_sgr(const struct bar *bar, const char *model);

#endif
