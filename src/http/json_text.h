#ifndef HTTP_JSON_TEXT_H
#define HTTP_JSON_TEXT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * json_text - a text as a JSON string.
 *
 * With quotes, escaped so that it fits on one line; bytes that are not UTF-8
 * become U+FFFD, so that what we write is JSON whatever an engine printed.
 */
void json_append_string(struct buf *out, struct str text);

/*
 * How many of the bytes at `text` stand for themselves inside a JSON string, up
 * to the first that does not: a quote, a backslash, a control byte, a sequence
 * that is not UTF-8 or is cut short. Eight bytes at a time where they are ASCII.
 */
size_t json_plain_run(const char *text, size_t count);

#endif
