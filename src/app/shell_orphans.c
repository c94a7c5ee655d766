/*
 * GPU memory that no process owns. A driver counts it, and nobody who asks would think of asking: so a daemon that has
 * a GPU looks by itself, where for half a minute far more is counted than its engines have.
 */
#include "app/shell.h"

#include "base/log.h"
#include "base/units.h"

enum { STAYS_US = 30000000, AGAIN_US = 600000000 };

#define LEAST_BYTES (INT64_C(1) << 30)

static void on_programs(void *arg, const struct programs *programs)
{
	struct shell *shell = arg;
	int64_t leak = programs_leak_bytes(&shell->topology, programs);
	char size[UNITS_TEXT];

	if (leak > 0 && shell->orphan_bytes == 0)
		log_warn("%s of the GPU's memory belong to no process: a driver's leak, which a reboot gives back",
		         units_size(size, leak));
	if (leak == 0 && shell->orphan_bytes > 0)
		log_info("all of the GPU's memory has an owner again");
	if (leak >= 0)
		shell->orphan_bytes = leak;
}

void shell_look_orphans(struct shell *shell, const struct sample *sample)
{
	int64_t others = shell->topology.gpu_counter_bytes, now = shell_now_us();

	if (!shell_has_devices(shell))
		return;
	for (uint32_t i = 0; i < sample->owners; i++)
		others -= sample->owner[i].gpu_bytes[0];
	if (topology_is_nvidia_unified(&shell->topology) && shell->topology.drift_bytes > others)
		others = shell->topology.drift_bytes;
	if (others <= LEAST_BYTES && shell->orphan_bytes == 0)
		shell->orphans_since_us = now; /* since when it may be so */
	if (now - shell->orphans_since_us < STAYS_US ||
	    (shell->orphans_looked_us && now - shell->orphans_looked_us < AGAIN_US))
		return;
	shell->orphans_looked_us = now;
	shell_ask_programs(shell, on_programs, shell);
}
