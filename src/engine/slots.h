#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * slots - what llama-server tells of its slots, and what the preload library tells
 * of the memory behind them.
 *
 * Only numbers at their own place are taken (a prompt quoted inside cannot pass
 * for one), and every one is bounded.
 */
enum { SLOTS_TOLD_MAX = 64 };

struct slot_told {
	uint32_t id;
	bool busy;
	int64_t task;   /* the last that ran there; -1 = none yet */
	int64_t tokens; /* it holds now; while it runs too */
};

struct slots_told {
	uint32_t count;
	struct slot_told slot[SLOTS_TOLD_MAX];
};

/* The body of GET /slots. False where it is not that. */
bool slots_parse(struct str body, struct slots_told *out);

struct lazy_told {
	bool reached;
	int64_t reserved_bytes;
	int64_t resident_bytes;
};

/* The body of the library's GET / (lazy/lazy.h). */
bool lazy_parse(struct str body, struct lazy_told *out);

/*
 * Whether the library has the caches in its hands, `expected_bytes` in all. It leaves small buffers
 * to the engine, of which there are up to three: the cache, that of windows, the recurrent state.
 */
bool lazy_took_effect(const struct lazy_told *told, int64_t expected_bytes);

/*
 * The body of llama-server's refusal of a prompt that its context does not hold: how many tokens that
 * is, as it counted them; -1 where it says something else.
 */
int64_t exceeded_tokens(struct str body);

/*
 * In the answer to llama-server's GET /props the digits of the context that it has for each conversation;
 * empty where there are none.
 */
struct str props_context(struct str body);

/* The number of a key of the outermost object; -1 where there is none. */
int64_t json_number(struct str object, const char *key);

#endif
