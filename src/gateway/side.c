/*
 * All texts are looked for in one pass: two bytes that begin none of them, which are most, cost a look
 * into two tables.
 */
#include "gateway/side.h"

#include <string.h>

enum { TEXTS_MAX = 64 };

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

static bool begins_with(struct str text, struct str word)
{
	if (text.length < word.length)
		return false;
	for (size_t i = 0; i < word.length; i++)
		if (lower(text.data[i]) != lower(word.data[i]))
			return false;
	return true;
}

static struct str from(struct str text, size_t at)
{
	return (struct str){ text.data + at, text.length - at };
}

/* Does the pattern stand at the beginning of the text, each word at most the gap behind the last? */
static bool stands_here(struct str text, struct str pattern)
{
	size_t most = 0; /* the first word stands right here */

	while (pattern.length > 0) {
		struct str rest, word = str_cut(pattern, '*', &rest);
		size_t at = 0;
		while (at <= most && at <= text.length && !begins_with(from(text, at), word))
			at++;
		if (at > most || at > text.length)
			return false;
		text = from(text, at + word.length);
		pattern = rest;
		most = SIDE_GAP_MAX;
	}
	return true;
}

struct search {
	struct str pattern[TEXTS_MAX];
	const struct conf_side *side[TEXTS_MAX];
	uint32_t count;
	uint64_t any_second; /* patterns whose second byte may be any, or none */
	uint64_t first[256], second[256]; /* patterns by a byte of theirs, in either case */
};

static void note(uint64_t bytes[256], char c, uint64_t pattern)
{
	unsigned char small = lower(c);

	bytes[small] |= pattern;
	if (small >= 'a' && small <= 'z')
		bytes[small - 'a' + 'A'] |= pattern;
}

static void add(struct search *search, const struct conf_side *side, const char *text)
{
	struct str pattern = str_from(text);

	while (pattern.length > 0 && pattern.data[0] == '*')
		pattern = from(pattern, 1);
	if (pattern.length == 0 || search->count == TEXTS_MAX)
		return;
	uint64_t bit = UINT64_C(1) << search->count;
	note(search->first, pattern.data[0], bit);
	if (pattern.length > 1 && pattern.data[1] != '*')
		note(search->second, pattern.data[1], bit);
	else
		search->any_second |= bit;
	search->pattern[search->count] = pattern;
	search->side[search->count++] = side;
}

/* The first rule, in the order they were added, of which a text stands in the body. */
static const struct conf_side *run(const struct search *search, struct str body)
{
	uint32_t first = search->count;
	const unsigned char *bytes = (const unsigned char *)body.data;

	for (size_t at = 0; at < body.length && first > 0; at++) {
		uint64_t may = search->first[bytes[at]];
		if (!may)
			continue;
		uint64_t next = at + 1 < body.length ? search->second[bytes[at + 1]] : 0;
		may &= next | search->any_second;
		for (; may; may &= may - 1) {
			uint32_t i = (uint32_t)__builtin_ctzll(may);
			if (i >= first)
				break;
			if (stands_here(from(body, at), search->pattern[i]))
				first = i;
		}
	}
	return first < search->count ? search->side[first] : NULL;
}

static bool fits(const struct conf_side *side, const struct side_ask *ask)
{
	return ask->prompt_bytes <= (uint64_t)side->prompt_max_bytes &&
	       (!side->max_tokens || (ask->reply_tokens >= 0 && ask->reply_tokens <= side->max_tokens));
}

const struct conf_side *side_find(const struct conf *conf, const struct side_ask *ask)
{
	struct search search = { .count = 0 };
	const struct conf_side *silent = NULL; /* the first that asks for no text */

	for (size_t i = 0; i < conf->side_count && !silent; i++) {
		const struct conf_side *side = &conf->sides[i];
		if (!fits(side, ask))
			continue;
		if (side->says.count == 0)
			silent = side;
		for (size_t j = 0; j < side->says.count; j++)
			add(&search, side, side->says.items[j]);
	}
	const struct conf_side *found = search.count ? run(&search, ask->body) : NULL;
	return found ? found : silent;
}
