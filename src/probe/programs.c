#include "probe/programs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "probe/gpu_use.h"
#include "probe/lines.h"
#include "probe/process.h"
#include "probe/topology_parts.h"

enum { PROCESSES_MOST = 65536 };

struct one {
	char name[32];
	int64_t anon, shmem, swap;
};

static bool read_one(const char *root, pid_t pid, struct one *out)
{
	char name[64];
	struct lines lines;
	struct str line, field;
	int64_t kib;

	*out = (struct one){ 0 };
	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	if (lines_open(&lines, root, name) < 0)
		return false;
	while (lines_next(&lines, &line)) {
		if (str_starts(line, "Name:")) {
			str_copy(out->name, sizeof out->name,
			         str_trim((struct str){ line.data + 5, line.length - 5 }));
			continue;
		}
		if (!lines_field(line, &field, &kib) || kib >= INT64_C(1) << 36)
			continue;
		if (str_is(field, "RssAnon"))
			out->anon = kib * 1024;
		else if (str_is(field, "RssShmem"))
			out->shmem = kib * 1024;
		else if (str_is(field, "VmSwap"))
			out->swap = kib * 1024;
	}
	lines_close(&lines);
	return out->name[0] != '\0'; /* each has one */
}

static struct program *program_named(struct programs *programs, const char *name)
{
	for (uint32_t i = 0; i < programs->count; i++)
		if (strcmp(programs->list[i].name, name) == 0)
			return &programs->list[i];
	if (programs->count == PROGRAMS_MAX)
		return NULL;
	struct program *program = &programs->list[programs->count++];
	*program = (struct program){ 0 };
	snprintf(program->name, sizeof program->name, "%s", name);
	return program;
}

int64_t program_ram_bytes(const struct program *program)
{
	return program->anon_bytes + program->shmem_bytes + program->gpu_bytes[0];
}

static void add_process(const char *root, struct programs *programs, struct gpu_use *use, pid_t pid)
{
	int64_t gpu[POOLS_KNOWN_MAX];
	struct one one;
	int64_t held = 0;
	bool known = read_one(root, pid, &one);

	/* What it holds of a GPU may be told where its name is not. */
	gpu_use_look(use, pid, gpu);
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		held += gpu[pool];
	if (!known && held + use->left_out_bytes == 0)
		return;
	if (!known)
		snprintf(one.name, sizeof one.name, "process %d", (int)pid);
	programs->processes++;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		programs->gpu_bytes[pool] += gpu[pool];
	programs->left_out_bytes += use->left_out_bytes;
	struct program *program = program_named(programs, one.name);
	if (!program)
		return;
	program->processes++;
	program->anon_bytes += one.anon;
	program->swap_bytes += one.swap;
	if (one.shmem > program->shmem_bytes)
		program->shmem_bytes = one.shmem;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		program->gpu_bytes[pool] += gpu[pool];
	program->left_out_bytes += use->left_out_bytes;
}

static int64_t weight(const struct program *program)
{
	int64_t bytes = program->anon_bytes + program->shmem_bytes + program->swap_bytes + program->left_out_bytes;

	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		bytes += program->gpu_bytes[pool];
	return bytes;
}

static int heavier_first(const void *left, const void *right)
{
	const struct program *a = left, *b = right;
	int64_t x = weight(a), y = weight(b);

	return x != y ? (x < y ? 1 : -1) : strcmp(a->name, b->name);
}

static bool is_skipped(const char *root, const struct programs_skip *skip, pid_t pid)
{
	struct process process;

	if (!skip || process_read(root, pid, &process) < 0)
		return false;
	for (uint32_t i = 0; i < skip->count; i++)
		if (pid == skip->group[i] || process.pgid == skip->group[i] || process.session == skip->group[i])
			return true;
	return false;
}

int programs_read(const char *root, const struct topology *topology, const struct programs_skip *skip,
                  struct programs *out)
{
	char path[PATH_MAX];
	struct dirent *entry;
	uint64_t pid;
	struct gpu_use *use;

	memset(out, 0, sizeof *out);
	int length = snprintf(path, sizeof path, "%s/proc", root);
	if (length < 0 || (size_t)length >= sizeof path)
		return -ENAMETOOLONG;
	DIR *folder = opendir(path);
	if (!folder)
		return -errno;
	use = xmalloc(sizeof *use);
	gpu_use_open(use, root, topology);
	for (int i = 0; i < PROCESSES_MOST && (entry = readdir(folder)); i++)
		if (str_to_u64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT32_MAX &&
		    !is_skipped(root, skip, (pid_t)pid))
			add_process(root, out, use, (pid_t)pid);
	closedir(folder);
	out->gpu_unreadable = use->refused;
	free(use);
	qsort(out->list, out->count, sizeof out->list[0], heavier_first);
	return 0;
}

int programs_complete(const char *root, struct topology *topology, struct programs *out)
{
	struct err ignored; /* it was read a moment ago */
	int code = programs_read(root, topology, NULL, out);

	if (code < 0 || !topology_needs_clients(topology))
		return code;
	memcpy(topology->clients_bytes, out->gpu_bytes, sizeof topology->clients_bytes);
	topology_read(root, topology, &ignored);
	return 0;
}

int64_t programs_leak_bytes(const struct topology *topology, const struct programs *programs)
{
	static const int64_t least = 1 << 30;
	int64_t gtt = topology_gtt_used(topology);

	if (topology->gpu_silent)
		return -1;
	if (gtt > least) {
		if (programs->processes == 0 || programs->gpu_unreadable)
			return -1;
		/* A desktop's own buffers are in there: an eighth of a GiB is no leak. */
		int64_t orphan = gtt - programs->gpu_bytes[0] - least / 8;
		return orphan > least ? orphan : 0;
	}
	if (!topology_is_nvidia_unified(topology))
		return 0;
	if (!topology->drift_known)
		return -1;
	return topology->drift_bytes > 2 * least ? topology->drift_bytes : 0;
}
