#include "probe/sample.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "probe/cgroup.h"
#include "probe/gpu_use.h"
#include "probe/hot_file.h"
#include "probe/machine.h"
#include "probe/process.h"

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

static bool has_ended(int code)
{
	return code == -ENOENT || code == -ESRCH;
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
};

/* Reading its maps costs most: not where it had none of the files mapped. True where it has. */
static bool add_process(const struct pass *pass, uint32_t index, const struct process *process, bool may_map)
{
	struct sample_owner *owner = &pass->sample->owner[index];
	struct process_memory memory;

	int rc = process_read_memory(pass->root, process->pid, &memory);
	if (rc < 0 && has_ended(rc))
		return false;
	owner->processes++;
	owner->cpu_us += process->cpu_us;
	if (rc < 0) {
		owner->complete = false;
		return true;
	}
	owner->anon_bytes += memory.anon_bytes;
	owner->file_bytes += memory.file_bytes;
	add_gpu_bytes(pass->gpus, owner, process->pid);
	return may_map && hot_files_look(pass->files, pass->root, process->pid, index, memory.file_bytes);
}

static void note(struct sample_seen *seen, pid_t pid, bool maps)
{
	if (seen->count == SAMPLE_SEEN_MAX) {
		seen->whole = false;
		return;
	}
	seen->maps[seen->count] = maps;
	seen->pid[seen->count++] = pid;
}

static void look_at(const struct pass *pass, pid_t pid, bool may_map, struct sample_seen *seen)
{
	struct process process;

	if (process_read(pass->root, pid, &process) < 0 || process.kernel_thread)
		return;
	if (process.state == 'Z' || process.state == 'X')
		return;
	uint32_t owner = owner_of(pass->sample, pass->members, &process);
	if (owner == UINT32_MAX)
		return;
	bool maps = add_process(pass, owner, &process, may_map);
	if (seen)
		note(seen, pid, maps);
}

/* All of them, and who was an owner's is noted. */
static int look_at_all(const struct pass *pass, struct err *err)
{
	struct sample_seen *seen = &pass->sample->seen;
	char path[PATH_MAX];
	struct dirent *entry;
	uint64_t pid;
	int length = snprintf(path, sizeof path, "%s/proc", pass->root);

	if (length < 0 || (size_t)length >= sizeof path)
		return err_set(err, -ENAMETOOLONG, "the path of the recording is too long");
	DIR *folder = opendir(path);
	if (!folder)
		return err_set(err, -errno, "%s: %s", path, strerror(errno));
	seen->count = 0;
	seen->whole = true;
	while ((entry = readdir(folder)))
		if (str_to_u64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT32_MAX)
			look_at(pass, (pid_t)pid, true, seen);
	closedir(folder);
	seen->owners = 0;
	for (uint32_t i = 0; i < pass->sample->owners; i++)
		if (pass->sample->owner[i].processes > 0)
			seen->pgid[seen->owners++] = pass->sample->owner[i].pgid;
	return 0;
}

static bool was_looked_for(const struct sample_seen *seen, const struct sample_owner *owner)
{
	if (owner->pid > 0 || owner->cgroup)
		return false; /* who came to it since is not known */
	for (uint32_t i = 0; i < seen->owners && owner->pgid > 0; i++)
		if (seen->pgid[i] == owner->pgid)
			return true;
	return owner->pgid <= 0; /* it has ended */
}

/* Others may have come or gone since. */
static bool may_be_quick(const struct sample *sample)
{
	if (!sample->quick || !sample->seen.whole)
		return false;
	for (uint32_t i = 0; i < sample->owners; i++)
		if (!was_looked_for(&sample->seen, &sample->owner[i]))
			return false;
	return true;
}

static int look_at_processes(const struct pass *pass, struct err *err)
{
	const struct sample_seen *seen = &pass->sample->seen;

	if (!may_be_quick(pass->sample))
		return look_at_all(pass, err);
	for (uint32_t i = 0; i < seen->count; i++)
		look_at(pass, seen->pid[i], seen->maps[i], NULL);
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
		owner->cpu_us = 0;
		memset(owner->gpu_bytes, 0, sizeof owner->gpu_bytes);
	}
}

static int read_owners(const char *root, struct sample *sample, const struct cgroup_mounts *mounts,
                       struct err *err)
{
	struct hot_files files;
	struct members *members;
	struct gpu_use *gpus = NULL;

	clear_answers(sample);
	if (sample->owners == 0)
		return 0;
	members = xmalloc(sizeof *members);
	find_members(root, mounts, sample, members);
	hot_files_open(&files, root, sample);
	if (sample->topology && sample->topology->devices > 0) {
		gpus = xmalloc(sizeof *gpus);
		gpu_use_open(gpus, root, sample->topology);
	}
	const struct pass pass = { root, sample, members, &files, gpus };
	int rc = look_at_processes(&pass, err);
	free(gpus);
	hot_files_close(&files, sample);
	free(members);
	for (uint32_t i = 0; i < sample->owners; i++)
		sample->owner[i].own_bytes = sample->owner[i].anon_bytes + sample->owner[i].hot_file_bytes;
	return rc;
}

/* The whole before and after the owners: they compare only if it stood still meanwhile. */
static int read_once(const char *root, struct sample *sample, const struct cgroup_mounts *mounts,
                     bool *torn, struct err *err)
{
	int rc = machine_read_memory(root, sample, err);
	if (rc < 0)
		return rc;
	int64_t free_before = sample->free_bytes;
	rc = read_owners(root, sample, mounts, err);
	if (rc == 0)
		rc = machine_read_memory(root, sample, err);
	if (rc == 0)
		machine_read_zones(root, sample);
	int64_t moved = sample->free_bytes - free_before;
	*torn = (moved < 0 ? -moved : moved) > sample->total_bytes / 100;
	return rc;
}

int sample_read(const char *root, struct sample *sample, struct err *err)
{
	struct cgroup_mounts *mounts = xmalloc(sizeof *mounts);
	bool torn = false;

	assert(sample->owners <= SAMPLE_OWNERS_MAX);
	cgroup_find_mounts(root, mounts);
	int rc = read_once(root, sample, mounts, &torn, err);
	if (rc == 0 && torn)
		rc = read_once(root, sample, mounts, &torn, err);
	if (rc == 0) {
		machine_read_pressure(root, sample);
		if (!sample->quick)
			machine_read_slow(root, sample);
		cgroup_read_limit(root, mounts, sample);
		sample->cgroup_hard_bytes += sample->hot_file_bytes;
		/* si_mem_available() calls mapped weights available; for us they are not. */
		sample->unreclaimable_bytes = sample->total_bytes - sample->available_bytes +
		                              sample->hot_file_bytes;
	}
	free(mounts);
	return rc;
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
