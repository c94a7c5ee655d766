#ifndef CONF_TEXT_H
#define CONF_TEXT_H

#include "base/buf.h"
#include "base/str.h"

/*
 * text - values as they stand in a file, exact: what is written reads as the
 * same value again.
 */

/* In double quotes, by the rules of JSON, which YAML's double quotes know too. */
void text_quote(struct str text, struct buf *out);
/* As a plain YAML word where that is the same to every reader, else in quotes. */
void text_word(struct str text, struct buf *out);
void text_size(int64_t bytes, struct buf *out);     /* "4GiB", the largest unit that divides it */
void text_duration(int64_t us, struct buf *out);    /* "5m" */
void text_thousandths(int64_t value, int64_t scale, struct buf *out); /* 1500, 1000 -> "1.5" */

#endif
