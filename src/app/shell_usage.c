/*
 * What keys used of their tokens of a day, kept over restarts: one row a key,
 * by the wall clock. Written at once: who can end the daemon at will shall not
 * make answers free.
 */
#include <string.h>

#include "app/shell.h"
#include "base/units.h"
#include "gateway/quota.h"

struct kept_usage {
	uint64_t key;
	uint64_t version;
	int64_t whole_at_ms; /* struct quota_tokens, in Unix time */
	int64_t per_day;
	uint64_t zero;
};
_Static_assert(sizeof(struct kept_usage) == 40 && sizeof(struct baseline_row) != 40,
               "stored rows are told apart by their size (shell_learning.c)");

enum { USAGE_VERSION = 2 };

static const uint64_t usage_key = UINT64_C(0x746f6b656e732f64); /* "tokens/d" */

void shell_on_tokens(void *ctx, uint64_t key, const struct quota_tokens *tokens)
{
	struct shell *shell = ctx;
	const struct kept_usage kept = {
		.key = key,
		.version = USAGE_VERSION,
		.whole_at_ms = (tokens->whole_at_us + shell_wall_offset_us()) / US_PER_MS,
		.per_day = tokens->per_day,
	};

	if (!shell->store)
		return;
	store_save_learned(shell->store, usage_key ^ key, usage_key, &kept, sizeof(kept));
	store_hurry(shell->store);
}

static void on_usage(void *ctx, const void *row)
{
	struct shell *shell = ctx;
	struct kept_usage kept;

	memcpy(&kept, row, sizeof(kept));
	if (kept.version != USAGE_VERSION)
		return;
	const struct quota_tokens tokens = {
		.whole_at_us = kept.whole_at_ms * US_PER_MS - shell_wall_offset_us(),
		.per_day = kept.per_day,
	};
	if (tokens.whole_at_us > shell_now_us())
		gateway_restore_tokens(shell->gateway, kept.key, &tokens);
	else /* it has all of them again: there is nothing to remember of a key that may be gone for good */
		store_forget_learned(shell->store, usage_key ^ kept.key, usage_key, sizeof(kept));
}

void shell_open_usage(struct shell *shell)
{
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct kept_usage), on_usage, shell);
}
