#include "probe/group_sum.h"

#include <stdio.h>

#include "probe/lines.h"

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void group_add(struct group_sum *group, const struct process_memory *memory, const struct share *share)
{
	bool known = share && share->known;

	group->shares_known = known && (group->processes == 0 || group->shares_known);
	group->processes++;
	group->anon_bytes += memory->anon_bytes;
	group->shmem_bytes += memory->shmem_bytes;
	group->anon_most_bytes = larger(group->anon_most_bytes, memory->anon_bytes);
	group->shmem_most_bytes = larger(group->shmem_most_bytes, memory->shmem_bytes);
	if (!known)
		return;
	int64_t shmem = (int64_t)((double)memory->shmem_bytes * (double)share->shmem);
	group->shmem_borne_bytes += shmem;
	group->borne_bytes += (int64_t)((double)memory->anon_bytes * (double)share->anon) + shmem;
}

int64_t group_bytes(const struct group_sum *group)
{
	if (group->processes > 1 && group->shares_known)
		return group->borne_bytes;
	return group->anon_bytes + group->shmem_most_bytes;
}

int64_t group_shmem(const struct group_sum *group)
{
	return group->processes > 1 && group->shares_known ? group->shmem_borne_bytes : group->shmem_most_bytes;
}

int64_t group_doubt(const struct group_sum *group)
{
	return group->anon_bytes - group->anon_most_bytes + group->shmem_bytes - group->shmem_most_bytes;
}

static float part_of(int64_t borne, int64_t resident)
{
	if (resident <= 0)
		return 1;
	return borne < resident ? (float)borne / (float)resident : 1;
}

bool share_read(const char *root, pid_t pid, const struct process_memory *memory, struct share *out)
{
	char name[64];
	struct lines lines;
	struct str line;
	int64_t kib, anon = 0, shmem = 0;
	bool any = false;

	*out = (struct share){ 0 };
	snprintf(name, sizeof name, "/proc/%d/smaps_rollup", (int)pid);
	if (lines_open(&lines, root, name) < 0)
		return false;
	while (lines_next(&lines, &line)) {
		if (lines_named(line, "Pss_Anon:", &kib)) {
			anon += kib * 1024;
			any = true;
		} else if (lines_named(line, "SwapPss:", &kib)) {
			anon += kib * 1024;
		} else if (lines_named(line, "Pss_Shmem:", &kib)) {
			shmem += kib * 1024;
		}
	}
	lines_close(&lines);
	*out = (struct share){ any, part_of(anon, memory->anon_bytes), part_of(shmem, memory->shmem_bytes) };
	return any;
}
