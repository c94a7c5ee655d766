#include "probe/programs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "probe/gpu_use.h"
#include "probe/group_sum.h"
#include "probe/lines.h"
#include "probe/process.h"
#include "probe/topology_parts.h"

enum { PROCESSES_MOST = 65536, OURS_MOST = 4096, FAMILIES_MOST = 4096 };

#define DOUBT_LEAST_BYTES (INT64_C(64) << 20)  /* of a program: less is not worth to walk its processes for */
#define HEAVY_BYTES (INT64_C(16) << 20)        /* of a process: the same */
#define WALKED_MOST_BYTES (INT64_C(8) << 30)   /* in one pass */

struct one {
	char name[32];
	pid_t pid, parent;
	uint32_t place; /* of its program in the list */
	bool family;    /* its parent is of the same program, or a child: after a fork they share pages */
	int64_t anon, shmem, swap;
};

/* What a pass needs to know. */
struct pass {
	const char *root;
	const struct programs_skip *skip;
	struct programs *programs;
	struct gpu_use use;
	struct one *one; /* those that have memory */
	uint32_t ones, room;
	int64_t walked_bytes;
	pid_t ours[OURS_MOST]; /* skipped, and so are their children */
	uint32_t ours_count;
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
		if (lines_named(line, "PPid:", &kib))
			out->parent = (pid_t)kib;
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

static int64_t weight(const struct program *program)
{
	int64_t bytes = program->anon_bytes + program->shmem_bytes + program->swap_bytes + program->left_out_bytes;

	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		bytes += program->gpu_bytes[pool];
	return bytes;
}

/* Where the table is full the lightest gives way, unless the new one is lighter still. */
static uint32_t new_place(struct pass *pass, int64_t bytes)
{
	struct programs *programs = pass->programs;
	uint32_t lightest = 0;

	if (programs->count < PROGRAMS_MAX)
		return programs->count++;
	for (uint32_t i = 1; i < PROGRAMS_MAX; i++)
		if (weight(&programs->list[i]) < weight(&programs->list[lightest]))
			lightest = i;
	if (weight(&programs->list[lightest]) >= bytes)
		return UINT32_MAX;
	for (uint32_t i = 0; i < pass->ones; i++)
		if (pass->one[i].place == lightest)
			pass->one[i].place = UINT32_MAX;
	return lightest;
}

static uint32_t place_of(struct pass *pass, const char *name, int64_t bytes)
{
	struct programs *programs = pass->programs;

	for (uint32_t i = 0; i < programs->count; i++)
		if (strcmp(programs->list[i].name, name) == 0)
			return i;
	uint32_t place = new_place(pass, bytes);
	if (place == UINT32_MAX)
		return place;
	programs->list[place] = (struct program){ 0 };
	snprintf(programs->list[place].name, sizeof programs->list[place].name, "%s", name);
	return place;
}

int64_t program_ram_bytes(const struct program *program)
{
	return program->anon_bytes + program->shmem_bytes + program->gpu_bytes[0];
}

static void keep(struct pass *pass, const struct one *one)
{
	if (pass->ones == pass->room) {
		pass->room = pass->room ? pass->room * 2 : 256;
		pass->one = xrealloc(pass->one, pass->room * sizeof *pass->one);
	}
	pass->one[pass->ones++] = *one;
}

/* Kernel threads have none, and take no place of those that have. */
static void add_process(struct pass *pass, pid_t pid)
{
	struct programs *programs = pass->programs;
	int64_t gpu[POOLS_KNOWN_MAX];
	struct one one;

	bool known = read_one(pass->root, pid, &one);
	/* What it holds of a GPU may be told where its name is not. */
	gpu_use_look(&pass->use, pid, gpu);
	int64_t bytes = one.anon + one.shmem + one.swap + pass->use.left_out_bytes;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		bytes += gpu[pool];
	if (!known && bytes == 0)
		return;
	if (!known)
		snprintf(one.name, sizeof one.name, "process %d", (int)pid);
	programs->processes++;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		programs->gpu_bytes[pool] += gpu[pool];
	programs->left_out_bytes += pass->use.left_out_bytes;
	one.pid = pid;
	one.place = bytes > 0 ? place_of(pass, one.name, bytes) : UINT32_MAX;
	if (one.place == UINT32_MAX)
		return;
	struct program *program = &programs->list[one.place];
	program->processes++;
	program->anon_bytes += one.anon;
	program->swap_bytes += one.swap;
	if (one.shmem > program->shmem_bytes)
		program->shmem_bytes = one.shmem;
	for (uint32_t pool = 0; pool < POOLS_KNOWN_MAX; pool++)
		program->gpu_bytes[pool] += gpu[pool];
	program->left_out_bytes += pass->use.left_out_bytes;
	keep(pass, &one);
}

/* ---- what processes of a name share ---- */

static void find_families(struct pass *pass)
{
	for (uint32_t i = 0; i < pass->ones && pass->ones <= FAMILIES_MOST; i++)
		for (uint32_t j = 0; j < pass->ones; j++)
			if (pass->one[i].pid == pass->one[j].parent && pass->one[i].place == pass->one[j].place)
				pass->one[i].family = pass->one[j].family = true;
}

static bool share_of(struct pass *pass, const struct one *one, struct share *share)
{
	const struct process_memory memory = { .anon_bytes = one->anon + one->swap, .shmem_bytes = one->shmem };

	*share = (struct share){ .known = true, .anon = 1, .shmem = 1 };
	if (one->anon + one->shmem < HEAVY_BYTES)
		return true;
	pass->walked_bytes += one->anon + one->shmem;
	return pass->walked_bytes <= WALKED_MOST_BYTES && share_read(pass->root, one->pid, &memory, share);
}

/* As each of a family bears it, where the kernel tells that of all of them. */
static void settle(struct pass *pass, uint32_t place)
{
	struct program *program = &pass->programs->list[place];
	struct program borne = *program;
	int64_t shmem_most = 0;
	struct share share = { 0 };

	borne.anon_bytes = borne.shmem_bytes = borne.swap_bytes = 0;
	for (uint32_t i = 0; i < pass->ones; i++) {
		const struct one *one = &pass->one[i];
		if (one->place != place)
			continue;
		if (one->family && !share_of(pass, one, &share))
			return;
		double anon = one->family ? (double)share.anon : 1;
		borne.anon_bytes += (int64_t)((double)one->anon * anon);
		borne.swap_bytes += (int64_t)((double)one->swap * anon);
		if (one->family)
			borne.shmem_bytes += (int64_t)((double)one->shmem * (double)share.shmem);
		else if (one->shmem > shmem_most)
			shmem_most = one->shmem;
	}
	borne.shmem_bytes += shmem_most;
	*program = borne;
}

static int64_t doubt(const struct pass *pass, uint32_t place)
{
	struct group_sum sum = { 0 };

	for (uint32_t i = 0; i < pass->ones; i++) {
		const struct one *one = &pass->one[i];
		const struct process_memory memory = { .anon_bytes = one->anon + one->swap, .shmem_bytes = one->shmem };
		if (one->family && one->place == place)
			group_add(&sum, &memory, NULL);
	}
	return group_doubt(&sum);
}

static int heavier_first(const void *left, const void *right)
{
	const struct program *a = left, *b = right;
	int64_t x = weight(a), y = weight(b);

	return x != y ? (x < y ? 1 : -1) : strcmp(a->name, b->name);
}

/* ---- all of them ---- */

static bool is_ours(const struct pass *pass, pid_t parent)
{
	for (uint32_t i = 0; i < pass->ours_count; i++)
		if (pass->ours[i] == parent)
			return true;
	return false;
}

/*
 * Ours, and what comes of it: an engine's process may have a session of its own, and may have lost its parent; then
 * the keeper has it, which is our child.
 */
static bool is_skipped(struct pass *pass, pid_t pid)
{
	const struct programs_skip *skip = pass->skip;
	struct process process;

	if (!skip || process_read(pass->root, pid, &process) < 0)
		return false;
	bool ours = pid == skip->self || is_ours(pass, process.parent), skipped = ours;
	for (uint32_t i = 0; i < skip->count; i++)
		skipped |= pid == skip->group[i] || process.pgid == skip->group[i] || process.session == skip->group[i];
	if (ours && pass->ours_count < OURS_MOST)
		pass->ours[pass->ours_count++] = pid;
	return skipped;
}

static void read_all(struct pass *pass, DIR *folder)
{
	struct dirent *entry;
	uint64_t pid;

	for (int i = 0; i < PROCESSES_MOST && (entry = readdir(folder)); i++)
		if (str_to_u64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT32_MAX &&
		    !is_skipped(pass, (pid_t)pid))
			add_process(pass, (pid_t)pid);
	find_families(pass);
	for (uint32_t place = 0; place < pass->programs->count; place++)
		if (pass->programs->list[place].processes > 1 && doubt(pass, place) > DOUBT_LEAST_BYTES)
			settle(pass, place);
}

int programs_read(const char *root, const struct topology *topology, const struct programs_skip *skip,
                  struct programs *out)
{
	char path[PATH_MAX];

	memset(out, 0, sizeof *out);
	int length = snprintf(path, sizeof path, "%s/proc", root);
	if (length < 0 || (size_t)length >= sizeof path)
		return -ENAMETOOLONG;
	DIR *folder = opendir(path);
	if (!folder)
		return -errno;
	struct pass *pass = xcalloc(1, sizeof *pass);
	pass->root = root;
	pass->skip = skip;
	pass->programs = out;
	gpu_use_open(&pass->use, root, topology);
	read_all(pass, folder);
	closedir(folder);
	out->gpu_unreadable = pass->use.refused;
	free(pass->one);
	free(pass);
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
