/* What the system needs by itself, kept over lives of the daemon. */
#include <string.h>

#include "app/shell.h"
#include "app/stored_learned.h"

/* The key under which it is stored, beside the arbiter's rows. */
static const uint64_t kept_key = UINT64_C(0x62617365);

_Static_assert(sizeof(struct baseline_row) != sizeof(struct stored_learned) &&
                       sizeof(struct baseline_row) != sizeof(struct numbered_learned),
               "stored rows are told apart by their size");

static void on_kept(void *ctx, const void *row)
{
	memcpy(ctx, row, sizeof(struct baseline_row));
}

void shell_open_baseline(struct shell *shell)
{
	struct baseline_row kept = { 0 };
	int64_t reading = shell->sample.unreclaimable_bytes;

	if (shell->store)
		store_load_learned(shell->store, sizeof(kept), on_kept, &kept);
	baseline_open(&shell->baseline, shell->sample.total_bytes, &kept);
	baseline_read(&shell->baseline, &(struct baseline_reading){ .foreign_bytes = reading });
	shell->baseline_bytes = baseline_bytes(&shell->baseline);
	/* Others may use much just now: what models may have is reckoned from what the system needs. */
	if (topology_default_pool(&shell->topology) == 0)
		shell->room_facts.baseline_bytes = shell->baseline_bytes;
	shell->room_bytes = shell_room(&shell->room_facts, shell->conf);
}

void shell_note_baseline(struct shell *shell, const struct sample *sample)
{
	struct baseline_reading reading = {
		.at_us = shell_now_us(),
		.foreign_bytes = sample->unreclaimable_bytes,
		.unaccounted_bytes = shell->topology.unaccounted_bytes,
		.quiet = sample->owners == 0,
	};

	for (uint32_t i = 0; i < sample->owners; i++)
		reading.foreign_bytes -= sample->owner[i].own_bytes + sample->owner[i].gpu_bytes[0];
	if (baseline_read(&shell->baseline, &reading) && shell->store)
		store_save_learned(shell->store, kept_key, 0, &shell->baseline.known, sizeof(shell->baseline.known));
	shell->baseline_bytes = baseline_bytes(&shell->baseline);
	sampler_usual(shell->sampler, shell->baseline.known.unaccounted_bytes);
}
