#include "app/top_bar.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

static void add(struct bar *bar, char letter, const char *sgr, const char *name, int64_t bytes)
{
	if (bytes > 0)
		bar->segment[bar->segments++] = (struct bar_segment){ letter, sgr, name, bytes, 0 };
}

/* Programs are told apart by `memory`; here they are one. */
static void add_others(struct bar *bar, int64_t bytes)
{
	for (int i = 0; i < bar->segments; i++) {
		if (bar->segment[i].letter == '%') {
			bar->segment[i].bytes += bytes;
			return;
		}
	}
	add(bar, '%', "37;100", "others", bytes);
}

static void add_owner(struct bar *bar, const struct top_owner *owner, int *models)
{
	static const char *const colours[] = { "30;42", "30;46", "30;43", "30;45", "37;44", "30;102" };
	int index = *models;

	switch (owner->kind) {
	case TOP_SYSTEM:
		add(bar, '#', "30;47", "system", owner->bytes);
		return;
	case TOP_FOREIGN:
		add_others(bar, owner->bytes);
		return;
	case TOP_MODEL:
		add(bar, index < 26 ? (char)('A' + index) : '+', colours[index % 6], owner->name, owner->bytes);
		*models += 1;
		return;
	case TOP_OTHER:
		break;
	}
	add(bar, '=', "30;41", owner->name, owner->bytes);
}

/* In proportion, one cell at least; what that makes too many or too few is the largest's. */
static void share_cells(struct bar *bar, int64_t total, int cells)
{
	int left = cells;

	for (int i = 0; i < bar->segments; i++) {
		struct bar_segment *segment = &bar->segment[i];
		segment->cells = (int)((double)segment->bytes * cells / (double)total + 0.5);
		if (segment->cells == 0)
			segment->cells = 1;
		left -= segment->cells;
	}
	while (left != 0 && bar->segments) {
		struct bar_segment *largest = &bar->segment[0];
		for (int i = 1; i < bar->segments; i++)
			if (bar->segment[i].cells > largest->cells)
				largest = &bar->segment[i];
		largest->cells += left > 0 ? 1 : -1;
		left += left > 0 ? -1 : 1;
	}
}

void bar_make(const struct top_data *data, int cells, struct bar *out)
{
	int64_t used = 0;
	int models = 0;

	*out = (struct bar){ 0 };
	if (data->size_bytes <= 0 || cells <= 0)
		return;
	for (int i = 0; i < data->owners; i++) {
		add_owner(out, &data->owner[i], &models);
		used += data->owner[i].bytes > 0 ? data->owner[i].bytes : 0;
	}
	int64_t rest = data->size_bytes > used ? data->size_bytes - used : 0;
	int64_t room = data->free_bytes < rest ? data->free_bytes : rest;
	add(out, '.', "32", "free", room > 0 ? room : 0);
	add(out, '-', "90", "not for models", rest - (room > 0 ? room : 0));
	share_cells(out, used + rest, cells);
}

void bar_draw(const struct bar *bar, struct line *line)
{
	for (int i = 0; i < bar->segments; i++) {
		char cell[2] = { bar->segment[i].letter, '\0' };
		line_style(line, bar->segment[i].sgr);
		for (int k = 0; k < bar->segment[i].cells; k++)
			line_text(line, cell);
		line_style(line, "0");
	}
}

bool bar_legend(const struct bar *bar, int *next, struct line *line)
{
	bool any = false;

	while (*next < bar->segments) {
		const struct bar_segment *segment = &bar->segment[*next];
		char text[TOP_NAME_BYTES + UNITS_TEXT + 8], letter[2] = { segment->letter, '\0' };
		char size[UNITS_TEXT];
		snprintf(text, sizeof(text), " %s %s", segment->name, units_size(size, segment->bytes));
		if (any && line->used + 3 + line_width_of(text) > line->columns)
			return true;
		if (any)
			line_text(line, "  ");
		line_style(line, segment->sgr);
		line_text(line, letter);
		line_style(line, "0");
		line_text(line, text);
		any = true;
		(*next)++;
	}
	return any;
}

static const struct bar_segment *segment_of(const struct bar *bar, const char *model)
{
	for (int i = 0; i < bar->segments; i++) {
		char letter = bar->segment[i].letter;
		bool is_model = (letter >= 'A' && letter <= 'Z') || letter == '+';
		if (is_model && strcmp(bar->segment[i].name, model) == 0)
			return &bar->segment[i];
	}
	return NULL;
}

char bar_letter(const struct bar *bar, const char *model)
{
	const struct bar_segment *segment = segment_of(bar, model);
	return segment ? segment->letter : ' ';
}

const char *bar_sgr(const struct bar *bar, const char *model)
{
	const struct bar_segment *segment = segment_of(bar, model);
	return segment ? segment->sgr : "0";
}
