#ifndef API_DECISION_H
#define API_DECISION_H

#include <jansson.h>

#include "api/sentence.h"

/*
 * decision - one decision as JSON: the sentence and the numbers it was made by.
 * `boot_id` is before the public numbers; `wall_offset_us` makes Unix time of
 * the arbiter's. A new reference.
 */
json_t *decision_json(const struct decision *decision, const struct names *names, const char *boot_id,
                      int64_t wall_offset_us);

#endif
