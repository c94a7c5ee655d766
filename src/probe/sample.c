#include "probe/sample.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "probe/cgroup.h"
#include "probe/machine.h"
#include "probe/owners.h"
#include "probe/seen.h"

enum {
	SMALL_POOL_PART = 8,
	RESERVE_PERCENT = 3,
};

#define RESERVE_LEAST (INT64_C(2) << 30)

/* What is free before and after the owners were read: they and the whole compare only if it stood still meanwhile. */
static int read_once(const char *root, struct sample *sample, bool *torn, struct err *err)
{
	struct handles *handles = &sample->seen->handles;
	bool live = root[0] == '\0';
	int64_t free_before = live ? machine_free_now() : 0;
	int rc = owners_read(root, sample, err);

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
