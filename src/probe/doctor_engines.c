/* Checks of engines that run, whoever started them. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/doctor_parts.h"
#include "probe/doctor_service.h"
#include "probe/vllm.h"

enum { MOST_PERMILLE = 850 };

/* The first that takes too much, else any. */
static pid_t find_vllm(const struct doctor *d, struct vllm *out)
{
	char path[PATH_MAX];
	struct dirent *entry;
	struct vllm one;
	uint64_t pid;
	pid_t any = 0;
	bool too_much = false;
	int length = snprintf(path, sizeof path, "%s/proc", d->root);

	DIR *folder = length >= 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
	while (folder && !too_much && (entry = readdir(folder))) {
		if (!str_to_u64(str_from(entry->d_name), &pid) || pid == 0 || pid > INT32_MAX ||
		    !vllm_read(d->root, (pid_t)pid, &one))
			continue;
		too_much = !one.cache_given && one.permille > MOST_PERMILLE;
		if (too_much || !any)
			*out = one;
		any = too_much || !any ? (pid_t)pid : any;
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

/* Ray runs with vLLM: its own environment tells. */
enum finding_status check_ray(const struct doctor *d, struct finding *f)
{
	static const char name[] = "RAY_memory_monitor_refresh_ms";
	struct doctor_environment its;
	struct vllm vllm;

	if (d->programs->processes == 0)
		return found(f, FINDING_UNKNOWN, "no processes were seen");
	pid_t pid = find_vllm(d, &vllm);
	if (pid == 0)
		return found(f, FINDING_OK, "no vLLM runs");
	bool read = doctor_environment_read(d->root, pid, &its);
	struct str value = doctor_environment_value(&its, name);
	bool off = str_is(value, "0");
	free(its.words);
	if (!read)
		return found(f, FINDING_UNKNOWN, "vLLM runs (PID %d), and its environment may not be read", (int)pid);
	return found(f, off ? FINDING_OK : FINDING_ADVICE, off ? "0 for vLLM (PID %d)" : "not 0 for vLLM (PID %d)", (int)pid);
}
