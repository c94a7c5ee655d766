#include "probe/seen.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/process.h"

enum {
	ANEW_EVERY = 12, /* looks at all */
	BORN_MOST = 1024, /* of so many it is as quick to look at all */
};

struct seen *seen_new(void)
{
	return xcalloc(1, sizeof(struct seen));
}

struct seen_list *seen_last(struct seen *seen)
{
	return &seen->list[seen->now];
}

static struct seen_list *next_list(struct seen *seen)
{
	return &seen->list[1 - seen->now];
}

static void close_list(struct seen_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->process[i].status >= 0)
			close(list->process[i].status);
	list->count = list->others = 0;
}

void seen_free(struct seen *seen)
{
	if (!seen)
		return;
	close_list(&seen->list[0]);
	close_list(&seen->list[1]);
	handles_close(&seen->handles);
	free(seen);
}

uint32_t seen_owner(const struct seen *seen, const struct sample_owner *owner)
{
	for (uint32_t i = 0; i < seen->owners; i++)
		if (seen->owner[i].pgid == owner->pgid && seen->owner[i].pid == owner->pid)
			return i;
	return UINT32_MAX;
}

/* What was nobody's may be its. */
static bool has_new_owner(const struct seen *seen, const struct sample *sample)
{
	for (uint32_t i = 0; i < sample->owners; i++)
		if (seen_owner(seen, &sample->owner[i]) == UINT32_MAX)
			return true;
	return false;
}

void seen_begin(struct seen *seen, const struct sample *sample)
{
	struct seen_list *next = next_list(seen);

	close_list(next);
	next->whole = true;
	seen->anew = seen->until_anew == 0 || has_new_owner(seen, sample);
	seen->until_anew = seen->anew ? ANEW_EVERY - 1 : seen->until_anew - 1;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

struct seen_process *seen_before(struct seen *seen, pid_t pid)
{
	struct seen_list *last = seen_last(seen);
	struct seen_process *found =
	        seen->anew ? NULL : bsearch(&pid, last->process, last->count, sizeof last->process[0], compare_pids);

	return found && found->status >= 0 ? found : NULL;
}

bool seen_was_other(const struct seen *seen, pid_t pid)
{
	const struct seen_list *last = &seen->list[seen->now];

	return !seen->anew && bsearch(&pid, last->other, last->others, sizeof last->other[0], compare_pids);
}

void seen_take(struct seen *seen, struct seen_process *process)
{
	struct seen_list *next = next_list(seen);

	if (next->count == SEEN_MAX) {
		next->whole = false;
		return;
	}
	next->process[next->count++] = *process;
	process->status = -1;
}

void seen_note(struct seen *seen, pid_t pid, pid_t pgid, const struct hot_maps *maps, bool stays)
{
	struct seen_list *next = next_list(seen);

	if (next->count == SEEN_MAX) {
		next->whole = false;
		return;
	}
	next->process[next->count] = (struct seen_process){ .pid = pid, .pgid = pgid, .maps = *maps };
	next->process[next->count].status = stays && next->count < SEEN_OPEN_MAX ? process_open(pid) : -1;
	next->count++;
}

void seen_note_other(struct seen *seen, pid_t pid)
{
	struct seen_list *next = next_list(seen);

	if (next->others < SEEN_OTHERS_MAX)
		next->other[next->others++] = pid;
}

bool seen_born(struct seen *seen, pid_t newest, pid_t *after)
{
	*after = seen->newest[1];
	seen->newest[1] = seen->newest[0] ? seen->newest[0] : newest;
	seen->newest[0] = newest;
	return *after > 0 && newest >= *after && newest - *after <= BORN_MOST;
}

bool seen_has(const struct seen *seen, pid_t pid)
{
	const struct seen_list *last = &seen->list[seen->now];

	return bsearch(&pid, last->process, last->count, sizeof last->process[0], compare_pids) != NULL;
}

void seen_add(struct seen *seen, pid_t pid, pid_t pgid, const struct hot_maps *maps)
{
	struct seen_list *last = seen_last(seen);
	uint32_t at = last->count;

	if (last->count == SEEN_MAX) {
		last->whole = false;
		return;
	}
	while (at > 0 && last->process[at - 1].pid > pid)
		at--;
	memmove(&last->process[at + 1], &last->process[at], (last->count - at) * sizeof last->process[0]);
	last->process[at] = (struct seen_process){ .pid = pid, .pgid = pgid, .maps = *maps };
	last->process[at].status = last->count < SEEN_OPEN_MAX ? process_open(pid) : -1;
	last->count++;
}

void seen_end(struct seen *seen, const struct sample *sample)
{
	close_list(seen_last(seen));
	seen->now = 1 - seen->now;
	seen->owners = sample->owners;
	for (uint32_t i = 0; i < sample->owners; i++) {
		const struct sample_owner *owner = &sample->owner[i];
		seen->owner[i].pgid = owner->pgid;
		seen->owner[i].pid = owner->pid;
		seen->owner[i].found = owner->processes > 0;
	}
}
