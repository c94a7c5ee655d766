#ifndef API_ARGV_H
#define API_ARGV_H

#include <jansson.h>

#include "conf/conf.h"

/*
 * argv - words that an engine is started with, as they may be shown.
 *
 * Whoever may see a model may read them, and secrets lie in them: what came from the environment stands
 * as the file has it, what a flag names a secret and what stands before an address's "@" is "***".
 */
json_t *argv_json(const struct conf *conf, const struct conf_strings *words);      /* an array */
json_t *argv_line_json(const struct conf *conf, const struct conf_strings *words); /* one text, quoted as a shell's; null: none */

#endif
