#include "conf/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

__attribute__((format(printf, 4, 0)))
static void add(struct problems *problems, struct place at, bool warning, const char *format,
                va_list args)
{
	char text[1024];

	problems->errors += !warning;
	if (problems->count == PROBLEMS_MAX) {
		problems->more++;
		return;
	}
	vsnprintf(text, sizeof(text), format, args);
	problems->items[problems->count++] =
		(struct problem){ .at = at, .warning = warning, .text = xstrdup(text) };
}

void problem_error(struct problems *problems, struct place at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(problems, at, false, format, args);
	va_end(args);
}

void problem_warn(struct problems *problems, struct place at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(problems, at, true, format, args);
	va_end(args);
}

static bool is_before(struct place a, struct place b)
{
	return a.line != b.line ? a.line < b.line : a.column < b.column;
}

/* By insertion: it is stable, and there are at most 32. */
static void sort(struct problems *problems)
{
	for (size_t i = 1; i < problems->count; i++) {
		struct problem moved = problems->items[i];
		size_t j = i;
		for (; j > 0 && is_before(moved.at, problems->items[j - 1].at); j--)
			problems->items[j] = problems->items[j - 1];
		problems->items[j] = moved;
	}
}

void problems_finish(struct problems *problems, struct buf *out)
{
	sort(problems);
	for (size_t i = 0; i < problems->count; i++) {
		struct problem *problem = &problems->items[i];
		if (out) {
			buf_printf(out, "%s:", problems->path);
			if (problem->at.line)
				buf_printf(out, "%u:%u:", problem->at.line, problem->at.column);
			buf_printf(out, " %s: %s\n", problem->warning ? "warning" : "error",
			           problem->text);
		}
		free(problem->text);
	}
	if (out && problems->more)
		buf_printf(out, "%s: and %zu more\n", problems->path, problems->more);
	problems->count = problems->more = 0;
}

const char *excerpt(char out[EXCERPT], struct str text)
{
	if (!str_copy(out, EXCERPT, text)) {
		size_t end = EXCERPT - 4;
		while (end > 0 && ((unsigned char)out[end] & 0xC0) == 0x80)
			end--; /* not within a character */
		str_copy(out + end, EXCERPT - end, STR("..."));
	}
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7F)
			*c = '?';
	return out;
}
