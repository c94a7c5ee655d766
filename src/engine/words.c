#include "engine/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static void add_owned(struct words *words, char *text)
{
	words->items = xrealloc(words->items, (words->count + 2) * sizeof(*words->items));
	words->items[words->count++] = text;
	words->items[words->count] = NULL;
}

void words_add(struct words *words, const char *text)
{
	add_owned(words, xstrdup(text));
}

void words_addf(struct words *words, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *text = xmalloc((size_t)length + 1);
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	add_owned(words, text);
}

void words_set(struct words *words, const char *name, const char *value)
{
	size_t length = strlen(name);
	char *text = xasprintf("%s=%s", name, value);

	for (size_t i = 0; i < words->count; i++) {
		if (strncmp(words->items[i], name, length) == 0 && words->items[i][length] == '=') {
			free(words->items[i]);
			words->items[i] = text;
			return;
		}
	}
	add_owned(words, text);
}

void words_release(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i]);
	free(words->items);
	*words = WORDS_INIT;
}
