#ifndef HTTP_BODY_SCAN_H
#define HTTP_BODY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "http/body_facts.h"
#include "http/opening.h"

/*
 * body_scan - reads a JSON request body as it arrives, without making a tree.
 *
 * A body can be many megabytes of base64 and the loop must not stop for it. The
 * scanner is fed slices of any size, keeps a few hundred bytes of state, and
 * touches each byte about once. It validates all of JSON and UTF-8, so that a
 * bad body is refused here with line and column, before a model is loaded for
 * it; and it notes the few facts the gateway needs (body_facts.h).
 *
 * A key counts as what it spells after its escapes, as the engine will read it.
 * A key noted here that comes twice is refused: two readers could pick
 * differently. The top level must be an object; a byte order mark may stand before it. Depth is at most
 * BODY_SCAN_DEPTH_MAX. Lone surrogates are refused, as engines do.
 */

enum { BODY_SCAN_DEPTH_MAX = 128 };

struct body_scan {
	struct body_facts facts;
	uint64_t offset; /* bytes taken; with a fault, where it is */
	/* private */
	uint64_t line, line_at;                     /* lines begun before; where this one began */
	uint64_t value_at;                          /* of the top level's value being read */
	uint64_t objects[BODY_SCAN_DEPTH_MAX / 64]; /* bit d: level d is an object, else an array */
	const char *fault;                          /* NULL: none yet */
	enum body_key fault_key;                    /* whose value, or coming twice, it is; else BODY_KEY_OTHER */
	const char *literal;                        /* what is still to come of true, false, null */
	uint32_t depth;
	uint32_t seen;       /* keys noted, one bit each */
	uint32_t length;     /* of text */
	uint32_t code, high; /* \u in the making; the first half of a pair */
	uint8_t state, hex_left;
	uint8_t utf8_left, utf8_low, utf8_high;
	uint8_t key, outer_key; /* whose value is being read: here, and at the top level */
	uint8_t kind;           /* of that value */
	bool is_key, capturing, too_long;
	struct opening opening;
	char text[BODY_MODEL_MAX];
};

void body_scan_init(struct body_scan *scan);

/* The next bytes. False where the body is wrong; it stays wrong. */
bool body_scan_feed(struct body_scan *scan, struct str bytes);

/* No more bytes. False where the body is wrong or cut short. Then the facts are complete. */
bool body_scan_end(struct body_scan *scan);

enum { BODY_SCAN_TEXT = 160 };
/* After false: the field that is at fault; NULL where the JSON itself is. */
const char *body_scan_fault_field(const struct body_scan *scan);

/* After false: what is wrong and where, e.g. "expected ':' at line 3, column 9 (byte 41)". */
const char *body_scan_explain(const struct body_scan *scan, char out[BODY_SCAN_TEXT]);

#endif
