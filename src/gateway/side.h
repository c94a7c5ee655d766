#ifndef GATEWAY_SIDE_H
#define GATEWAY_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "conf/conf.h"

/*
 * side - is a request side traffic: a title, tags, a summary that a chat program asks beside the talk?
 *
 * Nobody waits for those, and an eviction for a title costs more than the title is worth. The rules are
 * the user's (`side_traffic:`); the first that holds counts.
 */
struct side_ask {
	struct str body;      /* as it came; of a long one the beginning */
	uint64_t prompt_bytes;
	int64_t reply_tokens; /* asked for; -1 = it does not say */
};

enum { SIDE_GAP_MAX = 60 }; /* bytes that a * in a rule's text may stand for */

/* The rule that holds, which lives as long as `conf`; NULL: none. Of all rules 64 texts are looked for. */
const struct conf_side *side_find(const struct conf *conf, const struct side_ask *ask);

#endif
