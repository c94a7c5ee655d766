#include "estimate/override.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { NAME_MOST = 128, PATTERN_MOST = 256 };

struct override {
	struct {
		regex_t pattern;
		bool host;
	} rule[OVERRIDES_MOST];
	uint32_t count;
	bool whole;
};

/* "(?:", "\d", "\b" and counts that take as little as they can mean other things to POSIX, or nothing. */
static bool is_common(const char *pattern)
{
	for (const char *c = pattern; *c; c++) {
		bool counted = c > pattern && strchr("*+?}", c[-1]) && !(c > pattern + 1 && c[-2] == '\\');
		if (c[0] == '(' && c[1] == '?')
			return false;
		if (c[0] == '?' && counted)
			return false;
		if (c[0] != '\\')
			continue;
		if (c[1] == '\0' || !strchr("\\.^$|()[]{}*+?/-_", c[1]))
			return false;
		c++;
	}
	return true;
}

/* One "PATTERN=BUFFER"; a pattern may hold '=', a buffer's name does not. */
static bool add(struct override *override, struct str text)
{
	char pattern[PATTERN_MOST];
	const char *sign = text.length ? memrchr(text.data, '=', text.length) : NULL;

	if (!sign || override->count == OVERRIDES_MOST)
		return false;
	size_t length = (size_t)(sign - text.data);
	struct str buffer = { sign + 1, text.length - length - 1 };
	if (!str_copy(pattern, sizeof(pattern), (struct str){ text.data, length }) || !is_common(pattern))
		return false;
	if (regcomp(&override->rule[override->count].pattern, pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	override->rule[override->count++].host = str_is(buffer, "CPU");
	return true;
}

struct override *override_new(const char *const *texts, uint32_t count)
{
	struct override *override = xcalloc(1, sizeof(*override));

	override->whole = true;
	for (uint32_t i = 0; i < count; i++) {
		for (struct str rest = str_from(texts[i]); rest.length;) {
			struct str one = str_cut(rest, ',', &rest);
			if (one.length && !add(override, one))
				override->whole = false;
		}
	}
	return override;
}

void override_free(struct override *override)
{
	for (uint32_t i = 0; i < override->count; i++)
		regfree(&override->rule[i].pattern);
	free(override);
}

bool override_is_whole(const struct override *override)
{
	return override->whole;
}

bool override_keeps(const struct override *override, struct str name)
{
	char text[NAME_MOST];

	if (!str_copy(text, sizeof(text), name))
		return false;
	for (uint32_t i = 0; i < override->count; i++)
		if (regexec(&override->rule[i].pattern, text, 0, NULL, 0) == 0)
			return override->rule[i].host;
	return false;
}
