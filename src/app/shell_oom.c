/*
 * Whom the kernel would kill. Its OOM killer counts a process' own pages, and
 * none of what a GPU's driver holds for it: so an engine with all of its weights
 * in unified memory looks small, and others die for it. A score of the true
 * size is made by oom_score_adj, of each process from its own bytes, in thousandths
 * of memory and swap; an idle engine comes before a busy one. Lowering it again may take a privilege; then
 * it stays, which is the lesser harm.
 */
#include "app/shell.h"

#include <fcntl.h>
#include <unistd.h>

#include "probe/seen.h"

enum {
	IDLE_PERMILLE = 300,
	MOST_PERMILLE = 1000,
	STEP_PERMILLE = 10, /* less of a change is not worth a write */
};

static int score(const struct sample *sample, int64_t gpu_bytes, bool idle)
{
	int64_t whole = (sample->total_bytes + sample->swap_total_bytes) / MOST_PERMILLE;
	int64_t permille = (whole > 0 ? gpu_bytes / whole : 0) + (idle ? IDLE_PERMILLE : 0);

	return (int)(permille < MOST_PERMILLE ? permille : MOST_PERMILLE);
}

/* False: it ended meanwhile, or is not ours to change. */
static bool write_score(pid_t pid, int value)
{
	char path[48], text[16];
	int length = snprintf(text, sizeof(text), "%d", value);

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool written = write(fd, text, (size_t)length) == length;
	close(fd);
	return written;
}

static bool is_near(int value, int wanted)
{
	int change = wanted - value;

	return wanted == 0 ? change == 0 : change > -STEP_PERMILLE && change < STEP_PERMILLE;
}

/* What was refused it has not, and is not asked for again. */
static void set_score(struct seen_process *process, int value)
{
	if ((process->score.known && is_near(process->score.value, value)) ||
	    (process->score.refused && is_near(process->score.asked, value)))
		return;
	process->score.refused = !write_score(process->pid, value);
	process->score.asked = (int16_t)value;
	if (process->score.refused)
		return;
	process->score.known = true;
	process->score.value = (int16_t)value;
}

/* The processes as this sample found them: nobody else looks at them until the next one. */
void shell_score_engines(struct shell *shell, const struct sample *sample, const struct sampler_owner *owners)
{
	struct seen_list *list = seen_last(sample->seen);

	for (uint32_t i = 0; i < list->count; i++) {
		struct seen_process *process = &list->process[i];
		struct model_hold hold;
		if (process->owner >= sample->owners || process->pgid <= 0)
			continue;
		const struct sampler_owner *owner = &owners[process->owner];
		struct instance_row *row = shell_instance(shell, owner->instance);
		if (!row || owner->gone || !arbiter_hold(shell->arbiter, row->model, &hold))
			continue;
		set_score(process, score(sample, process->gpu_bytes, hold.state == MODEL_IDLE));
	}
}
