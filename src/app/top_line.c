#include "app/top_line.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "http/utf8.h"

struct range {
	uint32_t first, last;
};

static bool within(uint32_t point, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	return false;
}

/* As terminals do it, roughly: East Asian scripts and pictures are two wide, marks have no room of their own. */
static int width_of_point(uint32_t point)
{
	static const struct range wide[] = { { 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 },
		                             { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f }, { 0xff00, 0xff60 },
		                             { 0xffe0, 0xffe6 }, { 0x1f300, 0x1f64f }, { 0x1f680, 0x1f6ff },
		                             { 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd } };
	static const struct range none[] = { { 0x0300, 0x036f }, { 0x200b, 0x200f }, { 0x202a, 0x202e },
		                             { 0x2060, 0x2064 }, { 0xfe00, 0xfe0f }, { 0xfeff, 0xfeff } };

	if (within(point, none, sizeof(none) / sizeof(none[0])))
		return 0;
	return within(point, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

static uint32_t point_of(const char *text, size_t length)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t point = (unsigned char)text[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		point = point << 6 | ((unsigned char)text[i] & 0x3f);
	return point;
}

/* One character: how many bytes, how wide, and whether it may be shown as it is. */
static size_t next_character(const char *text, size_t left, bool utf8, int *width, bool *shown)
{
	size_t length = utf8_length(text, left);
	uint32_t point = length ? point_of(text, length) : 0;

	*shown = length && point >= 0x20 && (point < 0x7f || (utf8 && point >= 0xa0));
	*width = *shown ? width_of_point(point) : 1;
	/* Marks that turn the direction of a line, or have no width, are no business of a name. */
	if (*shown && *width == 0 && (point < 0x0300 || point > 0x036f)) {
		*shown = false;
		*width = 1;
	}
	return length ? length : 1;
}

int line_width_of(const char *text)
{
	size_t left = strlen(text);
	int total = 0;

	while (left) {
		int width;
		bool shown;
		size_t length = next_character(text, left, true, &width, &shown);
		total += width;
		text += length;
		left -= length;
	}
	return total;
}

/* At most `width` columns of it; returns how many it took. */
static int put(struct line *line, const char *text, int width)
{
	size_t left = strlen(text);
	int used = 0;

	if (width > line->columns - line->used)
		width = line->columns - line->used;
	while (left) {
		int columns;
		bool shown;
		size_t length = next_character(text, left, line->utf8, &columns, &shown);
		if (used + columns > width)
			break;
		if (shown)
			buf_append(line->out, text, length);
		else
			buf_append_char(line->out, '?');
		used += columns;
		text += length;
		left -= length;
	}
	line->used += used;
	return used;
}

static void blanks(struct line *line, int count)
{
	for (int i = 0; i < count; i++)
		put(line, " ", 1);
}

void line_text(struct line *line, const char *text)
{
	put(line, text, line->columns);
}

void line_left(struct line *line, const char *text, int width)
{
	int used = put(line, text, width);
	blanks(line, width - used);
}

void line_right(struct line *line, const char *text, int width)
{
	blanks(line, width - line_width_of(text));
	put(line, text, width);
}

void line_printf(struct line *line, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	line_text(line, text);
}

void line_style(struct line *line, const char *sgr)
{
	if (line->colour)
		buf_printf(line->out, "\033[%sm", sgr);
}
