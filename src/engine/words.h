#ifndef ENGINE_WORDS_H
#define ENGINE_WORDS_H

#include <stddef.h>

/*
 * words - an argv or an environment in the making.
 *
 * `items` is NULL-terminated once anything was added, and owned with its texts.
 */
struct words {
	char **items;
	size_t count;
};

#define WORDS_INIT ((struct words){ 0 })

void words_add(struct words *words, const char *text);
void words_addf(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "name=value"; the same name's older value goes, so that there is never a choice. */
void words_set(struct words *words, const char *name, const char *value);
void words_release(struct words *words);

#endif
