/*
 * Whom the kernel would kill. Its OOM killer counts a process' own pages, and
 * none of what a GPU's driver holds for it: so an engine with all of its weights
 * in unified memory looks small, and others die for it. A score of the true
 * size is made by oom_score_adj, in thousandths of memory and swap; an idle
 * engine comes before a busy one. Lowering it again may take a privilege; then
 * it stays, which is the lesser harm.
 */
#include "app/shell.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
	IDLE_PERMILLE = 300,
	MOST_PERMILLE = 1000,
	STEP_PERMILLE = 10, /* less of a change is not worth a write */
};

static int score(const struct sample *sample, const struct sample_owner *owner, bool idle)
{
	int64_t whole = (sample->total_bytes + sample->swap_total_bytes) / MOST_PERMILLE;
	int64_t permille = (whole > 0 ? owner->gpu_bytes[0] / whole : 0) + (idle ? IDLE_PERMILLE : 0);

	return (int)(permille < MOST_PERMILLE ? permille : MOST_PERMILLE);
}

static void set_score(pid_t pid, int value)
{
	char path[48], text[16];
	int length = snprintf(text, sizeof(text), "%d", value);

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* it ended meanwhile, or is not ours to change */
	ssize_t unused = write(fd, text, (size_t)length);
	(void)unused;
	close(fd);
}

void shell_score_engines(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners)
{
	for (uint32_t i = 0; i < sample->owners; i++) {
		struct instance_row *row = shell_instance(shell, owners[i].instance);
		struct model_hold hold;
		if (!row || owners[i].gone || !sample->owner[i].pgid || !arbiter_hold(shell->arbiter, row->model, &hold))
			continue;
		int value = score(sample, &sample->owner[i], hold.state == MODEL_IDLE);
		int change = value - row->oom_score_adj;
		if (value == 0 ? change == 0 : change > -STEP_PERMILLE && change < STEP_PERMILLE)
			continue;
		set_score(sample->owner[i].pgid, value);
		row->oom_score_adj = value;
	}
}
