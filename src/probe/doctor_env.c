/* Checks of the environment that engines inherit; a recording holds none. */
#include <stdlib.h>
#include <string.h>

#include "probe/doctor_parts.h"

static enum finding_status in_recording(struct finding *f)
{
	return found(f, FINDING_UNKNOWN, "a recording holds no environment");
}

static enum finding_status should_be_unset(const struct doctor *d, struct finding *f,
                                           const char *name)
{
	if (d->root[0])
		return in_recording(f);
	return found(f, getenv(name) ? FINDING_ADVICE : FINDING_OK,
	             getenv(name) ? "%s is set here" : "%s is unset", name);
}

enum finding_status check_unified_env(const struct doctor *d, struct finding *f)
{
	return should_be_unset(d, f, "GGML_CUDA_ENABLE_UNIFIED_MEMORY");
}

enum finding_status check_hsa_override(const struct doctor *d, struct finding *f)
{
	return should_be_unset(d, f, "HSA_OVERRIDE_GFX_VERSION");
}

enum finding_status check_hsa_caps(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "HSA_XNACK", "GPU_MAX_HEAP_SIZE",
		                             "GPU_MAX_ALLOC_PERCENT", "GPU_SINGLE_ALLOC_PERCENT" };

	if (d->root[0])
		return in_recording(f);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (getenv(names[i]))
			return found(f, FINDING_ADVICE, "%s is set here", names[i]);
	return found(f, FINDING_OK, "unset");
}

enum finding_status check_torch_conf(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
		                             "PYTORCH_CUDA_ALLOC_CONF" };

	if (d->root[0])
		return in_recording(f);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *value = getenv(names[i]);
		if (value && strstr(value, "expandable_segments"))
			return found(f, FINDING_ADVICE, "%s sets it for all", names[i]);
	}
	return found(f, FINDING_OK, "not set for all");
}

enum finding_status check_ray(const struct doctor *d, struct finding *f)
{
	if (d->root[0])
		return in_recording(f);
	const char *value = getenv("RAY_memory_monitor_refresh_ms");
	bool off = value && strcmp(value, "0") == 0;
	return found(f, off ? FINDING_OK : FINDING_UNKNOWN,
	             off ? "set" : "not set here; it matters with vLLM on Ray");
}
