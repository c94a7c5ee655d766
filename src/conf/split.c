#include "conf/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The room doubles whenever the count is a power of two, so no capacity is kept. */
void strings_add(struct conf_strings *strings, char *text)
{
	if ((strings->count & (strings->count - 1)) == 0)
		strings->items = xrealloc(strings->items, (strings->count ? strings->count * 2 : 1) *
		                                                  sizeof(*strings->items));
	strings->items[strings->count++] = text;
}

static void add(struct conf_strings *out, struct buf *word)
{
	strings_add(out, xstrndup(buf_cstr(word), buf_length(word)));
	buf_consume(word, buf_length(word));
}

static void clear(struct conf_strings *out)
{
	for (size_t i = 0; i < out->count; i++)
		free(out->items[i]);
	free(out->items);
	*out = (struct conf_strings){ 0 };
}

const char *split_words(struct str line, struct conf_strings *out)
{
	struct buf word = BUF_INIT;
	bool inside = false; /* a word, perhaps an empty one: '' */
	char quote = 0;

	*out = (struct conf_strings){ 0 };
	for (size_t i = 0; i < line.length; i++) {
		char c = line.data[i], next = i + 1 < line.length ? line.data[i + 1] : 0;
		if (quote && c == quote) {
			quote = 0;
		} else if (quote == '\'') {
			buf_append_char(&word, c);
		} else if (c == '\\' && next && (!quote || strchr("\"\\$`\n", next))) {
			buf_append_char(&word, next);
			i++;
			inside = true;
		} else if (quote) {
			buf_append_char(&word, c);
		} else if (c == '\'' || c == '"') {
			quote = c;
			inside = true;
		} else if (is_blank(c)) {
			if (inside)
				add(out, &word);
			inside = false;
		} else {
			buf_append_char(&word, c);
			inside = true;
		}
	}
	if (inside && !quote)
		add(out, &word);
	buf_release(&word);
	if (quote)
		clear(out);
	return quote ? "a quote is not closed; try: close it, or write a list of words" : NULL;
}

void split_join(const struct conf_strings *words, struct buf *out)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-./:=,@%+${}";

	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->items[i];
		if (i)
			buf_append_char(out, ' ');
		if (*word && strspn(word, plain) == strlen(word)) {
			buf_printf(out, "%s", word);
			continue;
		}
		buf_append_char(out, '\'');
		for (; *word; word++)
			buf_printf(out, *word == '\'' ? "'\\''" : "%c", *word);
		buf_append_char(out, '\'');
	}
}
