/* Checks of engines that run, whoever started them. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#include "probe/doctor_parts.h"
#include "probe/vllm.h"

enum { MOST_PERMILLE = 850 };

/* The first that takes too much, else any. */
static bool find_vllm(const struct doctor *d, struct vllm *out)
{
	char path[PATH_MAX];
	struct dirent *entry;
	struct vllm one;
	uint64_t pid;
	bool any = false, too_much = false;
	int length = snprintf(path, sizeof path, "%s/proc", d->root);

	DIR *folder = length >= 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
	while (folder && !too_much && (entry = readdir(folder))) {
		if (!str_to_u64(str_from(entry->d_name), &pid) || pid == 0 || pid > INT32_MAX ||
		    !vllm_read(d->root, (pid_t)pid, &one))
			continue;
		too_much = !one.cache_given && one.permille > MOST_PERMILLE;
		if (too_much || !any)
			*out = one;
		any = true;
	}
	if (folder)
		closedir(folder);
	return any;
}

enum finding_status check_vllm(const struct doctor *d, struct finding *f)
{
	struct vllm vllm;

	if (d->programs->processes == 0)
		return found(f, FINDING_UNKNOWN, "no processes were seen");
	if (!find_vllm(d, &vllm))
		return found(f, FINDING_OK, "no vLLM runs");
	if (vllm.cache_given)
		return found(f, FINDING_OK, "runs with --kv-cache-memory-bytes");
	return found(f, vllm.permille > MOST_PERMILLE ? FINDING_ADVICE : FINDING_OK, "runs with %d.%03d%s",
	             vllm.permille / 1000, vllm.permille % 1000, vllm.given ? "" : ", the default");
}
