#include "conf/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Where the next is kept: behind the others, or instead of one that is no mistake; NULL: nowhere. */
static struct problem *place_for(struct problems *problems, enum problem_kind kind)
{
	if (problems->count < PROBLEMS_MAX)
		return &problems->items[problems->count++];
	problems->more++;
	for (size_t i = 0; kind == PROBLEM_ERROR && i < problems->count; i++) {
		struct problem *problem = &problems->items[i];
		if (problem->kind != PROBLEM_UNBUILT)
			continue;
		free(problem->text);
		return problem;
	}
	return NULL;
}

__attribute__((format(printf, 4, 0)))
static void add(struct problems *problems, struct place at, enum problem_kind kind, const char *format,
                va_list args)
{
	char text[1024];

	problems->errors += kind == PROBLEM_ERROR;
	problems->unbuilt += kind == PROBLEM_UNBUILT;
	struct problem *problem = place_for(problems, kind);
	if (!problem)
		return;
	vsnprintf(text, sizeof(text), format, args);
	*problem = (struct problem){ .at = at, .kind = kind, .text = xstrdup(text) };
}

void problem_error(struct problems *problems, struct place at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(problems, at, PROBLEM_ERROR, format, args);
	va_end(args);
}

void problem_warn(struct problems *problems, struct place at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(problems, at, PROBLEM_WARNING, format, args);
	va_end(args);
}

void problem_unbuilt(struct problems *problems, struct place at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(problems, at, PROBLEM_UNBUILT, format, args);
	va_end(args);
}

size_t problems_refusing(const struct problems *problems)
{
	return problems->errors + problems->unbuilt;
}

static bool is_before(const struct problem *a, const struct problem *b)
{
	bool a_waits = a->kind == PROBLEM_UNBUILT, b_waits = b->kind == PROBLEM_UNBUILT;

	if (a_waits != b_waits)
		return b_waits;
	return a->at.line != b->at.line ? a->at.line < b->at.line : a->at.column < b->at.column;
}

/* By insertion: it is stable, and there are at most 32. */
static void sort(struct problems *problems)
{
	for (size_t i = 1; i < problems->count; i++) {
		struct problem moved = problems->items[i];
		size_t j = i;
		for (; j > 0 && is_before(&moved, &problems->items[j - 1]); j--)
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
			buf_printf(out, " %s: %s\n", problem->kind == PROBLEM_WARNING ? "warning" : "error",
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
	char *whole = str_hide_passwords(xstrndup(text.data ? text.data : "", text.length));
	bool fits = str_copy(out, EXCERPT, str_from(whole));

	free(whole);
	if (!fits) {
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
