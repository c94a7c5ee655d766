/*
 * What keys used of their tokens of a day, kept over restarts: one row a key,
 * with the time at which it has all of them again, by the wall clock.
 */
#include <string.h>

#include "app/shell.h"
#include "base/units.h"

struct kept_usage {
	uint64_t key;
	int64_t whole_at_ms; /* Unix time */
	uint64_t version;
};
_Static_assert(sizeof(struct kept_usage) == 24, "stored rows are told apart by their size (shell_learning.c)");

enum { USAGE_VERSION = 1 };

static const uint64_t usage_key = UINT64_C(0x746f6b656e732f64); /* "tokens/d" */

void shell_on_tokens(void *ctx, uint64_t key, int64_t whole_at_us)
{
	struct shell *shell = ctx;
	const struct kept_usage kept = {
		.key = key,
		.whole_at_ms = (whole_at_us + shell_wall_offset_us()) / US_PER_MS,
		.version = USAGE_VERSION,
	};

	if (shell->store)
		store_save_learned(shell->store, usage_key ^ key, usage_key, &kept, sizeof(kept));
}

static void on_usage(void *ctx, const void *row)
{
	struct shell *shell = ctx;
	struct kept_usage kept;

	memcpy(&kept, row, sizeof(kept));
	if (kept.version != USAGE_VERSION)
		return;
	int64_t whole_at_us = kept.whole_at_ms * US_PER_MS - shell_wall_offset_us();
	if (whole_at_us > shell_now_us())
		gateway_restore_tokens(shell->gateway, kept.key, whole_at_us);
	else /* it has all of them again: there is nothing to remember of a key that may be gone for good */
		store_forget_learned(shell->store, usage_key ^ kept.key, usage_key, sizeof(kept));
}

void shell_open_usage(struct shell *shell)
{
	if (shell->store)
		store_load_learned(shell->store, sizeof(struct kept_usage), on_usage, shell);
}
