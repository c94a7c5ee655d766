#ifndef HTTP_JSON_TEXT_H
#define HTTP_JSON_TEXT_H

#include "base/buf.h"
#include "base/str.h"

/*
 * json_text - a text as a JSON string.
 *
 * With quotes, escaped so that it fits on one line; bytes that are not UTF-8
 * become U+FFFD, so that what we write is JSON whatever an engine printed.
 */
void json_append_string(struct buf *out, struct str text);

#endif
