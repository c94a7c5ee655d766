/* Checks of the environment that engines start with: the daemon's or ours, and what models get by the configuration. */
#include <string.h>

#include "probe/doctor_parts.h"
#include "probe/doctor_service.h"

/* The first environment that has the variable, NULL: none that could be looked at. */
static const struct doctor_environment *who_has(const struct doctor *d, const char *name)
{
	for (uint32_t i = 0; d->service && i < d->service->environments; i++)
		if (doctor_environment_value(&d->service->environment[i], name).data)
			return &d->service->environment[i];
	return NULL;
}

/* Of nothing that was found: was there an environment that all have, and could it be read? */
static enum finding_status nothing_found(const struct doctor *d, struct finding *f, const char *what)
{
	const struct doctor_environment *all = d->service && d->service->environments ? &d->service->environment[0] : NULL;

	if (!all)
		return found(f, FINDING_UNKNOWN, "a recording holds no environment");
	if (!all->for_all)
		return found(f, FINDING_UNKNOWN, "%s in the configuration; a recording holds no environment", what);
	if (all->refused)
		return found(f, FINDING_UNKNOWN, "the environment %s may not be read", all->whose);
	return found(f, FINDING_OK, "%s %s", what, all->whose);
}

static enum finding_status should_be_unset(const struct doctor *d, struct finding *f, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct doctor_environment *has = who_has(d, names[i]);
		if (has)
			return found(f, FINDING_ADVICE, "%s is set %s", names[i], has->whose);
	}
	return nothing_found(d, f, "unset");
}

enum finding_status check_unified_env(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "GGML_CUDA_ENABLE_UNIFIED_MEMORY" };

	return should_be_unset(d, f, names, 1);
}

enum finding_status check_hsa_override(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "HSA_OVERRIDE_GFX_VERSION" };

	return should_be_unset(d, f, names, 1);
}

enum finding_status check_hsa_caps(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "HSA_XNACK", "GPU_MAX_HEAP_SIZE", "GPU_MAX_ALLOC_PERCENT",
		                             "GPU_SINGLE_ALLOC_PERCENT" };

	return should_be_unset(d, f, names, sizeof names / sizeof names[0]);
}

static bool is_expandable(const struct doctor_environment *environment, const char *name)
{
	static const char word[] = "expandable_segments";
	struct str value = doctor_environment_value(environment, name);

	return value.data && memmem(value.data, value.length, word, sizeof word - 1);
}

/* For one model it is as it is wanted. */
enum finding_status check_torch_conf(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF" };

	for (uint32_t i = 0; d->service && i < d->service->environments; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			if (d->service->environment[i].for_all && is_expandable(&d->service->environment[i], names[j]))
				return found(f, FINDING_ADVICE, "%s sets it for all, %s", names[j], d->service->environment[i].whose);
	return nothing_found(d, f, "not set for all");
}
