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
	for (uint32_t i = 0; i < sample->owners; i++) {
		const struct sample_owner *owner = &sample->owner[i];
		if ((owner->pgid > 0 || owner->pid > 0) && seen_owner(seen, owner) == UINT32_MAX)
			return true;
	}
	return false;
}

/* What was noted of owners is at hand in the sample's order. */
static void line_up(struct seen *seen, const struct sample *sample)
{
	struct seen_owner before[SAMPLE_OWNERS_MAX];
	uint32_t owners = seen->owners;

	memcpy(before, seen->owner, owners * sizeof before[0]);
	seen->owners = sample->owners;
	for (uint32_t i = 0; i < sample->owners; i++) {
		const struct sample_owner *asked = &sample->owner[i];
		seen->owner[i] = (struct seen_owner){ .pgid = asked->pgid, .pid = asked->pid };
		for (uint32_t j = 0; j < owners; j++)
			if (before[j].pgid == asked->pgid && before[j].pid == asked->pid)
				seen->owner[i] = before[j];
	}
}

void seen_begin(struct seen *seen, const struct sample *sample)
{
	struct seen_list *next = next_list(seen);

	close_list(next);
	next->whole = true;
	seen->strangers = has_new_owner(seen, sample);
	seen->anew = seen->until_anew == 0 || seen->strangers;
	seen->until_anew = seen->anew ? ANEW_EVERY - 1 : seen->until_anew - 1;
	line_up(seen, sample);
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

void seen_recall(struct seen *seen, struct seen_process *process)
{
	struct seen_list *last = seen_last(seen);
	const struct seen_process *found =
	        bsearch(&process->pid, last->process, last->count, sizeof last->process[0], compare_pids);

	if (!found)
		return;
	process->share = found->share;
	process->score = found->score;
}

bool seen_was_other(const struct seen *seen, pid_t pid)
{
	const struct seen_list *last = &seen->list[seen->now];
	const struct seen_other *found =
	        seen->strangers ? NULL : bsearch(&pid, last->other, last->others, sizeof last->other[0], compare_pids);

	return found && (!seen->anew || getsid(pid) == found->session);
}

struct seen_process *seen_now(struct seen *seen, pid_t pid)
{
	struct seen_list *next = next_list(seen);

	for (uint32_t i = next->count; i > 0; i--)
		if (next->process[i - 1].pid == pid)
			return &next->process[i - 1];
	return NULL;
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

struct seen_process *seen_note(struct seen *seen, const struct seen_process *process, bool stays)
{
	struct seen_list *next = next_list(seen);

	if (next->count == SEEN_MAX) {
		next->whole = false;
		return NULL;
	}
	struct seen_process *noted = &next->process[next->count];
	*noted = *process;
	noted->status = stays && next->count < SEEN_OPEN_MAX ? process_open(process->pid) : -1;
	next->count++;
	return noted;
}

void seen_note_other(struct seen *seen, pid_t pid, pid_t session)
{
	struct seen_list *next = next_list(seen);

	if (next->others < SEEN_OTHERS_MAX)
		next->other[next->others++] = (struct seen_other){ pid, session };
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

void seen_add(struct seen *seen, const struct seen_process *process)
{
	struct seen_list *last = seen_last(seen);
	uint32_t at = last->count;

	if (last->count == SEEN_MAX) {
		last->whole = false;
		return;
	}
	while (at > 0 && last->process[at - 1].pid > process->pid)
		at--;
	memmove(&last->process[at + 1], &last->process[at], (last->count - at) * sizeof last->process[0]);
	last->process[at] = *process;
	last->process[at].status = last->count < SEEN_OPEN_MAX ? process_open(process->pid) : -1;
	last->count++;
}

void seen_end(struct seen *seen, const struct sample *sample)
{
	close_list(seen_last(seen));
	seen->now = 1 - seen->now;
	for (uint32_t i = 0; i < sample->owners; i++)
		seen->owner[i].found = sample->owner[i].processes > 0;
}
