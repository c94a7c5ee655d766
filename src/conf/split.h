#ifndef CONF_SPLIT_H
#define CONF_SPLIT_H

#include "base/str.h"
#include "conf/conf.h"

/*
 * split - a command line into words, as a POSIX shell would, without running
 * one: blanks part, '...' and "..." hold together, \ takes the next byte as it
 * is. Nothing is expanded: $ * ~ | & ; < > # are bytes like others.
 *
 * Returns NULL, or what is wrong with the line; then `out` is empty.
 */
const char *split_words(struct str line, struct conf_strings *out);

/* Add an allocated text, which the list owns from then on. */
void strings_add(struct conf_strings *strings, char *text);

/* The words as one line that splits into them again. */
struct buf;
void split_join(const struct conf_strings *words, struct buf *out);

#endif
