#include "probe/sample.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/cgroup.h"
#include "probe/gpu_use.h"
#include "probe/hot_file.h"
#include "probe/machine.h"
#include "probe/process.h"
#include "probe/seen.h"

enum {
	MEMBERS_MOST = 4096,   /* processes named by cgroups, over all owners */
	PROCESSES_MOST = 1 << 20,
	SMALL_POOL_PART = 8,
	RESERVE_PERCENT = 3,
};

#define RESERVE_LEAST (INT64_C(2) << 30)

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

static void add_gpu_bytes(struct gpu_use *gpus, struct sample_owner *owner, pid_t pid)
{
	int64_t bytes[POOLS_KNOWN_MAX];

	if (!gpus)
		return;
	owner->complete = gpu_use_look(gpus, pid, bytes) && owner->complete;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		owner->gpu_bytes[pool] += bytes[pool];
}

/* What needs to be known of a pass over processes. */
struct pass {
	const char *root;
	struct sample *sample;
	const struct members *members;
	struct hot_files *files;
	struct gpu_use *gpus;
	bool all;  /* of them are looked at, else those of the last such pass and who was born since */
	bool maps; /* what they map is looked at, else it is what it was as long as as much of it lies in memory */
};

static void add_memory(const struct pass *pass, uint32_t index, pid_t pid, const struct process_memory *memory)
{
	struct sample_owner *owner = &pass->sample->owner[index];

	owner->processes++;
	owner->anon_bytes += memory->anon_bytes;
	owner->file_bytes += memory->file_bytes;
	add_gpu_bytes(pass->gpus, owner, pid);
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

	if (owner == UINT32_MAX || process_read_open(process->status, &memory) < 0 ||
	    !process_has_memory(memory.state))
		return false;
	add_memory(pass, owner, process->pid, &memory);
	if (pass->maps || !hot_files_recall(pass->files, &process->maps, owner, memory.file_bytes))
		process->maps = hot_files_look(pass->files, pass->root, process->pid, owner, memory.file_bytes);
	return true;
}

/* ---- all others ---- */

static bool has_ended(int code)
{
	return code == -ENOENT || code == -ESRCH;
}

/* `maps`: what was found before, or NULL; what was found now. */
static struct hot_maps add_process(const struct pass *pass, uint32_t index, pid_t pid, const struct hot_maps *maps)
{
	const struct hot_maps none = { MAPS_NONE, 0, 0 };
	struct process_memory memory;

	int rc = process_read_memory(pass->root, pid, &memory);
	if (rc < 0 && has_ended(rc))
		return none;
	if (rc < 0) {
		pass->sample->owner[index].processes++;
		pass->sample->owner[index].complete = false;
		return none;
	}
	add_memory(pass, index, pid, &memory);
	if (maps && hot_files_recall(pass->files, maps, index, memory.file_bytes))
		return *maps;
	return hot_files_look(pass->files, pass->root, pid, index, memory.file_bytes);
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

/*
 * Of a process of this machine its session can be asked for without a file, which tells most apart: an engine leads
 * one. Not where it may be somebody's by its parent.
 */
static bool is_strange(const struct pass *pass, pid_t pid)
{
	const struct sample *sample = pass->sample;
	pid_t session = pass->root[0] == '\0' ? getsid(pid) : -1;

	for (uint32_t i = 0; i < sample->owners; i++)
		if (sample->owner[i].pid > 0 || (sample->owner[i].pgid > 0 && sample->owner[i].pgid == session))
			return false;
	return session >= 0 && !is_named(pass, pid);
}

/* Whose it is, UINT32_MAX: nobody's. False: it has no memory. */
static bool find_owner(const struct pass *pass, pid_t pid, uint32_t *owner)
{
	struct process process;

	*owner = UINT32_MAX;
	if (is_strange(pass, pid))
		return true;
	if (process_read(pass->root, pid, &process) < 0 || !process_has_memory(process.state))
		return false;
	if (!process.kernel_thread)
		*owner = owner_of(pass->sample, pass->members, &process);
	return true;
}

static void look_at(const struct pass *pass, pid_t pid)
{
	bool live = pass->root[0] == '\0'; /* a recording changes as files do */
	struct seen *seen = pass->sample->seen;
	struct seen_process *before = live ? seen_before(seen, pid) : NULL;
	uint32_t owner;

	if (before && look_again(pass, before)) {
		seen_take(seen, before);
		return;
	}
	if (live && seen_was_other(seen, pid) && !is_named(pass, pid)) {
		seen_note_other(seen, pid);
		return;
	}
	if (!find_owner(pass, pid, &owner))
		return;
	if (owner == UINT32_MAX) {
		seen_note_other(seen, pid);
		return;
	}
	struct hot_maps maps = add_process(pass, owner, pid, NULL);
	pid_t pgid = pass->sample->owner[owner].pgid;
	seen_note(seen, pid, pgid, &maps, live && pgid > 0);
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
	uint32_t owner;

	for (uint32_t i = 0; i < list->count; i++) {
		struct seen_process *process = &list->process[i];
		if (process->status >= 0)
			look_again(pass, process);
		else if (find_owner(pass, process->pid, &owner) && owner != UINT32_MAX)
			process->maps = add_process(pass, owner, process->pid, &process->maps);
	}
}

/*
 * A child that was just forked may be as large as its parent a moment later. To find it among all costs a walk through
 * /proc; its number is known to be a new one, and of a number the session can be asked for without a file.
 */
static void look_at_born(const struct pass *pass, pid_t after, pid_t newest)
{
	struct seen *seen = pass->sample->seen;

	for (pid_t pid = after + 1; pid <= newest; pid++) {
		pid_t session = getsid(pid);
		uint32_t owner = session > 0 ? owner_with(pass->sample, session) : UINT32_MAX;
		if (owner == UINT32_MAX || seen_has(seen, pid) || !process_is_one(pid))
			continue;
		struct hot_maps maps = add_process(pass, owner, pid, NULL);
		seen_add(seen, pid, session, &maps);
	}
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

static int read_owners(const char *root, struct sample *sample, struct err *err)
{
	struct hot_files files;
	struct members *members;
	struct gpu_use *gpus = NULL;

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
	struct pass pass = { root, sample, members, &files, gpus, !may_be_quick(sample), !sample->quick };
	int rc = look_at_processes(&pass, err);
	free(gpus);
	hot_files_close(&files, sample);
	free(members);
	for (uint32_t i = 0; i < sample->owners; i++)
		sample->owner[i].own_bytes = sample->owner[i].anon_bytes + sample->owner[i].hot_file_bytes;
	return rc;
}

/* What is free before and after the owners were read: they and the whole compare only if it stood still meanwhile. */
static int read_once(const char *root, struct sample *sample, bool *torn, struct err *err)
{
	struct handles *handles = &sample->seen->handles;
	bool live = root[0] == '\0';
	int64_t free_before = live ? machine_free_now() : 0;
	int rc = read_owners(root, sample, err);

	if (rc == 0)
		rc = machine_read_memory(handles, root, sample, err);
	if (rc < 0)
		return rc;
	machine_read_zones(handles, root, sample);
	int64_t moved = live ? machine_free_now() - free_before : 0;
	*torn = (moved < 0 ? -moved : moved) > sample->total_bytes / 100;
	return 0;
}

static void find_limits(const char *root, struct seen *seen, int64_t total_bytes)
{
	struct cgroup_limits *before = NULL;

	if (seen->has_limits && seen->limits.count > 0) {
		before = xmalloc(sizeof *before);
		*before = seen->limits;
	}
	cgroup_find_limits(root, &seen->mounts, total_bytes, &seen->limits);
	if (before)
		cgroup_keep_limits(&seen->limits, before);
	free(before);
	seen->has_limits = true;
}

static int read_whole(const char *root, struct sample *sample, struct err *err)
{
	struct seen *seen = sample->seen;
	bool slow = !sample->quick || !seen->has_limits;
	bool torn = false;

	sample->inputs.count = 0;
	if (slow)
		cgroup_find_mounts(root, &seen->mounts);
	int rc = read_once(root, sample, &torn, err);
	if (rc == 0 && torn)
		rc = read_once(root, sample, &torn, err);
	if (rc < 0)
		return rc;
	if (slow) {
		machine_read_slow(root, sample);
		find_limits(root, seen, sample->total_bytes);
	}
	machine_read_pressure(&seen->handles, root, sample);
	cgroup_read_limits(root, &seen->handles, &seen->limits, sample);
	if (slow)
		handles_sweep(&seen->handles);
	sample->cgroup_hard_bytes += sample->hot_file_bytes;
	/* si_mem_available() calls mapped weights available; for us they are not. */
	sample->unreclaimable_bytes = sample->total_bytes - sample->available_bytes + sample->hot_file_bytes;
	return 0;
}

int sample_read(const char *root, struct sample *sample, struct err *err)
{
	struct seen *given = sample->seen;

	assert(sample->owners <= SAMPLE_OWNERS_MAX);
	if (!given)
		sample->seen = seen_new();
	int rc = read_whole(root, sample, err);
	if (!given)
		seen_free(sample->seen);
	sample->seen = given;
	return rc;
}

void sample_copy(struct sample *to, const struct sample *from)
{
	memcpy(to, from, offsetof(struct sample, owner) + from->owners * sizeof from->owner[0]);
	to->seen = NULL;
	to->topology = NULL;
}

int64_t sample_default_reserve(const struct sample *sample)
{
	int64_t least = sample->total_bytes / SMALL_POOL_PART;
	if (least > RESERVE_LEAST)
		least = RESERVE_LEAST;
	int64_t share = sample->total_bytes / 100 * RESERVE_PERCENT;
	int64_t watermarks = 2 * sample->high_watermark_bytes;
	int64_t reserve = least > share ? least : share;
	return reserve > watermarks ? reserve : watermarks;
}
