/* Whose a process is, and what each owner has in all of its processes. */
#include "probe/owners.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/cgroup.h"
#include "probe/gpu_use.h"
#include "probe/group_sum.h"
#include "probe/hot_file.h"
#include "probe/machine.h"
#include "probe/process.h"
#include "probe/seen.h"

enum {
	MEMBERS_MOST = 4096, /* processes named by cgroups, over all owners */
};

#define SHARED_LEAST_BYTES (INT64_C(32) << 20) /* less is not worth to walk processes for */
#define SHARES_CHEAP_BYTES (INT64_C(1) << 30)  /* ... of so few is worth it now and then */

/* Which processes belong to owners by their cgroup, whatever group they moved to. */
struct members {
	pid_t pid[MEMBERS_MOST];
	uint8_t owner[MEMBERS_MOST];
	uint32_t count;
};

static void find_members(const char *root, const struct cgroup_mounts *mounts,
                         const struct sample *sample, struct members *members)
{
	members->count = 0;
	for (uint32_t i = 0; i < sample->owners; i++) {
		if (!sample->owner[i].cgroup)
			continue;
		uint32_t found = cgroup_read_processes(root, mounts, sample->owner[i].cgroup,
		                                       members->pid + members->count,
		                                       MEMBERS_MOST - members->count);
		memset(members->owner + members->count, (int)i, found);
		members->count += found;
	}
}

/* The owner's index, or UINT32_MAX. */
static uint32_t owner_of(const struct sample *sample, const struct members *members,
                         const struct process *process)
{
	for (uint32_t i = 0; i < sample->owners; i++) {
		pid_t pgid = sample->owner[i].pgid;
		pid_t pid = sample->owner[i].pid;
		if (pgid > 0 && (process->session == pgid || process->pgid == pgid))
			return i;
		if (pid > 0 && (process->pid == pid || process->parent == pid || process->pgid == pid))
			return i;
	}
	for (uint32_t i = 0; i < members->count; i++)
		if (members->pid[i] == process->pid)
			return members->owner[i];
	return UINT32_MAX;
}

/* What system RAM holds of it. */
static int64_t add_gpu_bytes(struct gpu_use *gpus, struct sample_owner *owner, pid_t pid)
{
	int64_t bytes[POOLS_KNOWN_MAX];

	if (!gpus)
		return 0;
	owner->complete = gpu_use_look(gpus, pid, bytes) && owner->complete;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		owner->gpu_bytes[pool] += bytes[pool];
	return bytes[0];
}

/* What needs to be known of a pass over processes. */
struct pass {
	const char *root;
	struct sample *sample;
	const struct members *members;
	struct hot_files *files;
	struct gpu_use *gpus;
	struct group_sum *group; /* of each owner */
	bool all;  /* of them are looked at, else those of the last such pass and who was born since */
	bool maps; /* what they map is looked at, else it is what it was as long as as much of it lies in memory */
};

static void add_memory(const struct pass *pass, uint32_t index, struct seen_process *process,
                       const struct process_memory *memory)
{
	struct sample_owner *owner = &pass->sample->owner[index];

	process->owner = index;
	process->memory = *memory;
	owner->processes++;
	owner->file_bytes += memory->file_bytes;
	group_add(&pass->group[index], memory, &process->share);
	process->gpu_bytes = add_gpu_bytes(pass->gpus, owner, process->pid);
}

/* ---- processes that were seen before ---- */

static uint32_t owner_with(const struct sample *sample, pid_t pgid)
{
	for (uint32_t i = 0; i < sample->owners; i++)
		if (sample->owner[i].pgid == pgid)
			return i;
	return UINT32_MAX;
}

/* False: it has ended, or is no longer asked for. */
static bool look_again(const struct pass *pass, struct seen_process *process)
{
	uint32_t owner = owner_with(pass->sample, process->pgid);
	struct process_memory memory;

	process->owner = UINT32_MAX;
	if (owner == UINT32_MAX || process_read_open(process->status, &memory) < 0 ||
	    !process_has_memory(memory.state))
		return false;
	add_memory(pass, owner, process, &memory);
	if (pass->maps || !hot_files_recall(pass->files, &process->maps, owner, memory.file_bytes))
		process->maps = hot_files_look(pass->files, pass->root, process->pid, owner, memory.file_bytes);
	return true;
}

/* ---- all others ---- */

static bool has_ended(int code)
{
	return code == -ENOENT || code == -ESRCH;
}

/* It is its owner's, and is not held open. */
static void add_process(const struct pass *pass, uint32_t index, struct seen_process *process, bool recall)
{
	struct process_memory memory;

	process->owner = UINT32_MAX;
	int rc = process_read_memory(pass->root, process->pid, &memory);
	if (rc < 0 && has_ended(rc))
		return;
	if (rc < 0) {
		pass->sample->owner[index].processes++;
		pass->sample->owner[index].complete = false;
		return;
	}
	add_memory(pass, index, process, &memory);
	if (recall && hot_files_recall(pass->files, &process->maps, index, memory.file_bytes))
		return;
	process->maps = hot_files_look(pass->files, pass->root, process->pid, index, memory.file_bytes);
}

/* Of those whose number somebody asks for, nothing is taken for granted. */
static bool is_named(const struct pass *pass, pid_t pid)
{
	for (uint32_t i = 0; i < pass->sample->owners; i++)
		if (pass->sample->owner[i].pgid == pid || pass->sample->owner[i].pid == pid)
			return true;
	for (uint32_t i = 0; i < pass->members->count; i++)
		if (pass->members->pid[i] == pid)
			return true;
	return false;
}

/* ---- whose it is ---- */

/*
 * Who left its session, as any process may, is still its parent's child. In a list that is in order of pid the parent
 * was looked at before, unless the numbers began anew meanwhile.
 */
static uint32_t owner_of_parent(const struct pass *pass, const struct process *process)
{
	enum { GENERATIONS = 8 };
	struct process parent = *process;
	bool live = pass->root[0] == '\0';

	for (int i = 0; i < GENERATIONS && parent.parent > 1; i++) {
		const struct seen_process *known = seen_now(pass->sample->seen, parent.parent);
		if (known)
			return known->owner;
		if (live && parent.parent < parent.pid)
			return UINT32_MAX;
		if (process_read(pass->root, parent.parent, &parent) < 0)
			return UINT32_MAX;
		uint32_t owner = owner_of(pass->sample, pass->members, &parent);
		if (owner != UINT32_MAX)
			return owner;
	}
	return UINT32_MAX;
}

/* As the keeper tells them: what it started has a mark in its environment, which children inherit. */
static uint32_t owner_by_tag(const struct pass *pass, const struct process *process)
{
	static const char name[] = "COTENANT_SPAWN";
	struct seen *seen = pass->sample->seen;
	char tag[SEEN_TAG_BYTES];
	bool looked = false;

	for (uint32_t i = 0; i < pass->sample->owners; i++) {
		struct seen_owner *owner = &seen->owner[i];
		/* Its own parent has ended: who started the owner's leader has taken it up. */
		if (owner->pgid <= 0 || owner->keeper != process->parent)
			continue;
		if (!owner->tag[0] && !process_variable(pass->root, owner->pgid, name, owner->tag, sizeof owner->tag))
			continue;
		if (!looked && !process_variable(pass->root, process->pid, name, tag, sizeof tag))
			return UINT32_MAX;
		looked = true;
		if (strcmp(tag, owner->tag) == 0)
			return i;
	}
	return UINT32_MAX;
}

/* UINT32_MAX: nobody's. False: it has no memory. */
static bool find_owner(const struct pass *pass, pid_t pid, struct process *process, uint32_t *owner)
{
	*owner = UINT32_MAX;
	if (process_read(pass->root, pid, process) < 0 || !process_has_memory(process->state))
		return false;
	if (process->kernel_thread)
		return true;
	*owner = owner_of(pass->sample, pass->members, process);
	if (*owner == UINT32_MAX)
		*owner = owner_of_parent(pass, process);
	if (*owner == UINT32_MAX && process->parent > 1)
		*owner = owner_by_tag(pass, process);
	if (*owner != UINT32_MAX && pass->sample->owner[*owner].pgid == pid)
		pass->sample->seen->owner[*owner].keeper = process->parent;
	return true;
}

static void look_at(const struct pass *pass, pid_t pid)
{
	bool live = pass->root[0] == '\0'; /* a recording changes as files do */
	struct seen *seen = pass->sample->seen;
	struct seen_process *before = live ? seen_before(seen, pid) : NULL;
	struct process process = { 0 };
	uint32_t owner;

	if (before && look_again(pass, before)) {
		seen_take(seen, before);
		return;
	}
	if (live && !is_named(pass, pid) && seen_was_other(seen, pid)) {
		seen_note_other(seen, pid, getsid(pid));
		return;
	}
	if (!find_owner(pass, pid, &process, &owner))
		return;
	if (owner == UINT32_MAX) {
		seen_note_other(seen, pid, process.session);
		return;
	}
	struct seen_process found = { .pid = pid, .pgid = pass->sample->owner[owner].pgid, .owner = UINT32_MAX };
	seen_recall(seen, &found);
	add_process(pass, owner, &found, false);
	seen_note(seen, &found, live && found.pgid > 0);
}

/* ---- what is shared ---- */

static uint64_t members_of(const struct seen_list *list, uint32_t owner)
{
	uint64_t members = 0;

	for (uint32_t i = 0; i < list->count; i++)
		if (list->process[i].owner == owner)
			members += ((uint64_t)list->process[i].pid * UINT64_C(0x9e3779b97f4a7c15)) | 1;
	return members;
}

/* To walk processes takes its time: where they are others than then, or have become much larger, or smaller. */
static bool shares_are_due(const struct seen *seen, const struct seen_owner *owner, uint64_t members, int64_t bytes)
{
	int64_t moved = bytes - owner->bytes;

	if (owner->members != members)
		return true;
	return (moved < 0 ? -moved : moved) > owner->bytes / 4 || (seen->anew && !seen->strangers && bytes < SHARES_CHEAP_BYTES);
}

static void read_shares(const struct pass *pass, struct seen_list *list, uint32_t owner)
{
	struct group_sum *group = &pass->group[owner];

	*group = (struct group_sum){ 0 };
	for (uint32_t i = 0; i < list->count; i++) {
		struct seen_process *process = &list->process[i];
		if (process->owner != owner)
			continue;
		share_read(pass->root, process->pid, &process->memory, &process->share);
		group_add(group, &process->memory, &process->share);
	}
}

static void settle_shares(const struct pass *pass)
{
	struct seen *seen = pass->sample->seen;
	struct seen_list *list = seen_last(seen);

	for (uint32_t i = 0; i < pass->sample->owners && list->whole; i++) {
		struct seen_owner *owner = &seen->owner[i];
		const struct group_sum *group = &pass->group[i];
		int64_t bytes = group->anon_bytes + group->shmem_bytes;
		if (group->processes < 2 || group_doubt(group) < SHARED_LEAST_BYTES)
			continue;
		uint64_t members = members_of(list, i);
		if (!shares_are_due(seen, owner, members, bytes))
			continue;
		owner->members = members;
		owner->bytes = bytes;
		read_shares(pass, list, i);
	}
}

static int look_at_all(const struct pass *pass, struct err *err)
{
	struct seen *seen = pass->sample->seen;
	char path[PATH_MAX];
	struct dirent *entry;
	uint64_t pid;
	int length = snprintf(path, sizeof path, "%s/proc", pass->root);

	if (length < 0 || (size_t)length >= sizeof path)
		return err_set(err, -ENAMETOOLONG, "the path of the recording is too long");
	DIR *folder = opendir(path);
	if (!folder)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	seen_begin(seen, pass->sample);
	while ((entry = readdir(folder)))
		if (str_to_u64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT32_MAX)
			look_at(pass, (pid_t)pid);
	closedir(folder);
	seen_end(seen, pass->sample);
	settle_shares(pass);
	seen->anew = false;
	return 0;
}

static bool was_looked_for(const struct seen *seen, const struct sample_owner *owner)
{
	if (owner->pid > 0 || owner->cgroup)
		return false; /* who came to it since is not known */
	if (owner->pgid <= 0)
		return true; /* it has ended */
	uint32_t i = seen_owner(seen, owner);
	return i != UINT32_MAX && seen->owner[i].found;
}

/* Others may have come or gone since. */
static bool may_be_quick(const struct sample *sample)
{
	if (!sample->quick || !seen_last(sample->seen)->whole)
		return false;
	for (uint32_t i = 0; i < sample->owners; i++)
		if (!was_looked_for(sample->seen, &sample->owner[i]))
			return false;
	return true;
}

static void look_at_seen(const struct pass *pass)
{
	struct seen_list *list = seen_last(pass->sample->seen);
	struct process read;
	uint32_t owner;

	for (uint32_t i = 0; i < list->count; i++) {
		struct seen_process *process = &list->process[i];
		if (process->status >= 0) {
			look_again(pass, process);
			continue;
		}
		owner = process->pgid > 0 ? owner_with(pass->sample, process->pgid) : UINT32_MAX;
		if (owner != UINT32_MAX || (find_owner(pass, process->pid, &read, &owner) && owner != UINT32_MAX))
			add_process(pass, owner, process, true);
	}
}

/*
 * A child that was just forked may be as large as its parent a moment later. To find it among all costs a walk through
 * /proc; its number is known to be a new one, and of a number the session can be asked for without a file.
 */
static void look_at_born(const struct pass *pass, pid_t after, pid_t newest)
{
	struct seen *seen = pass->sample->seen;
	bool any = false;

	for (pid_t pid = after + 1; pid <= newest; pid++) {
		pid_t session = getsid(pid);
		uint32_t owner = session > 0 ? owner_with(pass->sample, session) : UINT32_MAX;
		if (owner == UINT32_MAX || seen_has(seen, pid) || !process_is_one(pid))
			continue;
		struct seen_process found = { .pid = pid, .pgid = session, .owner = UINT32_MAX };
		add_process(pass, owner, &found, false);
		seen_add(seen, &found);
		any = true;
	}
	if (any)
		settle_shares(pass);
}

static int look_at_processes(struct pass *pass, struct err *err)
{
	struct seen *seen = pass->sample->seen;
	pid_t after, newest = pass->root[0] == '\0' ? machine_newest_pid(&seen->handles, pass->root) : 0;
	bool known = seen_born(seen, newest, &after);

	pass->all = pass->all || (newest > 0 && !known);
	if (pass->all)
		return look_at_all(pass, err);
	look_at_seen(pass);
	if (known)
		look_at_born(pass, after, newest);
	return 0;
}

static void clear_answers(struct sample *sample)
{
	sample->hot_file_bytes = 0;
	for (uint32_t i = 0; i < sample->owners; i++) {
		struct sample_owner *owner = &sample->owner[i];
		owner->processes = 0;
		owner->complete = true;
		owner->anon_bytes = owner->hot_file_bytes = owner->mapped_bytes = owner->file_bytes = owner->own_bytes = 0;
		memset(owner->gpu_bytes, 0, sizeof owner->gpu_bytes);
	}
}

int owners_read(const char *root, struct sample *sample, struct err *err)
{
	struct hot_files files;
	struct members *members;
	struct gpu_use *gpus = NULL;
	struct group_sum group[SAMPLE_OWNERS_MAX] = { 0 };

	clear_answers(sample);
	if (sample->owners == 0)
		return 0;
	members = xmalloc(sizeof *members);
	find_members(root, &sample->seen->mounts, sample, members);
	hot_files_open(&files, sample);
	if (sample->topology && sample->topology->devices > 0) {
		gpus = xmalloc(sizeof *gpus);
		gpu_use_open(gpus, root, sample->topology);
	}
	struct pass pass = { root, sample, members, &files, gpus, group, !may_be_quick(sample), !sample->quick };
	int rc = look_at_processes(&pass, err);
	free(gpus);
	hot_files_close(&files, sample);
	free(members);
	for (uint32_t i = 0; i < sample->owners; i++) {
		sample->owner[i].anon_bytes = group_bytes(&group[i]);
		sample->owner[i].shmem_bytes = group_shmem(&group[i]);
		sample->owner[i].own_bytes = sample->owner[i].anon_bytes + sample->owner[i].hot_file_bytes;
	}
	return rc;
}
