#ifndef API_VALUE_H
#define API_VALUE_H

#include <jansson.h>

#include "base/str.h"

/* value - texts of any origin as JSON. New references. */

/* A string whatever the bytes: what is not UTF-8 becomes U+FFFD. */
json_t *json_lossy(struct str text);
/* The same of a C string; null for NULL and "". */
json_t *json_name(const char *text);

#endif
