/* What vendors' interfaces say that cannot be: each such value is bounded or not used, and told. */
#include "probe/topology_parts.h"

#include <string.h>

/* No device has so much memory of its own. */
static const int64_t device_most = INT64_C(4) << 40;

static long long in_mib(int64_t bytes)
{
	return (long long)(bytes / MIB);
}

/* A size that is out of the world counts as not told. */
static void disbelieve(struct topology *t, int64_t *bytes, const char *who, const char *what)
{
	if (*bytes <= device_most)
		return;
	topology_warn(t, "vendor_value", "%s says that %s is %lld MiB, which no device has: not used", who, what, in_mib(*bytes));
	*bytes = -1;
}

static bool tells_use(const struct calls *calls, const char *card)
{
	for (uint32_t i = 0; i < calls->regions; i++)
		if (strcmp(calls->region[i].card, card) == 0 && calls->region[i].used_bytes > 0)
			return true;
	return false;
}

/*
 * Who lacks CAP_PERFMON is told by xe that nothing is used, of every region. That is never so: the driver itself has
 * pages from its start. And capabilities of a container are no measure: the kernel asks for those of the machine.
 */
static void disbelieve_no_use(struct calls *calls)
{
	bool told[CALLS_REGIONS_MAX];

	for (uint32_t i = 0; i < calls->regions; i++)
		told[i] = tells_use(calls, calls->region[i].card);
	for (uint32_t i = 0; i < calls->regions; i++)
		if (!told[i])
			calls->region[i].used_bytes = -1;
}

void topology_disbelieve(struct topology *t)
{
	struct calls *calls = &t->calls;

	disbelieve_no_use(calls);
	disbelieve(t, &calls->hip_total_bytes, "HIP", "the device's memory");
	disbelieve(t, &calls->hip_free_bytes, "HIP", "what is free");
	disbelieve(t, &calls->cuda_total_bytes, "CUDA", "the device's memory");
	disbelieve(t, &calls->cuda_free_bytes, "CUDA", "what is free");
	for (uint32_t i = 0; i < calls->nvmls; i++) {
		disbelieve(t, &calls->nvml[i].total_bytes, "NVML", "a device's memory");
		disbelieve(t, &calls->nvml[i].free_bytes, "NVML", "what is free of a device");
	}
	for (uint32_t i = 0; i < calls->regions; i++) {
		disbelieve(t, &calls->region[i].total_bytes, calls->region[i].card, "a region");
		disbelieve(t, &calls->region[i].used_bytes, calls->region[i].card, "what is used of a region");
	}
	for (uint32_t i = 0; i < t->cards.count; i++)
		disbelieve(t, &t->cards.card[i].vram_total, t->cards.card[i].name, "its own memory");
}

static int64_t all_there_is(const struct topology *t)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < t->pools; i++)
		sum += t->pool[i].size_bytes;
	return sum;
}

/* Of the reading's own rounding two percent. */
static bool is_beyond(int64_t bytes, int64_t most)
{
	return bytes > most + most / 50;
}

static void judge_totals(struct topology *t)
{
	const struct calls *calls = &t->calls;
	int64_t all = all_there_is(t);

	if (!topology_knows_ram(t))
		return;
	if (is_beyond(calls->kfd_available_bytes, all))
		topology_warn(t, "vendor_value", "KFD says that %lld MiB could be allocated, more than there is (%lld MiB): not used",
		              in_mib(calls->kfd_available_bytes), in_mib(all));
	if (is_beyond(calls->hip_total_bytes, all))
		topology_warn(t, "vendor_value", "HIP says that the device has %lld MiB, more than there is (%lld MiB): not used",
		              in_mib(calls->hip_total_bytes), in_mib(all));
	for (uint32_t i = 0; i < calls->regions; i++)
		if (!calls->region[i].vram && is_beyond(calls->region[i].total_bytes, t->mem.total))
			topology_warn(t, "vendor_value", "%s may map %lld MiB, more than the RAM has: bounds nothing",
			              calls->region[i].card, in_mib(calls->region[i].total_bytes));
}

/* More used than there is: full. */
static void judge_use(struct topology *t, const char *who, int64_t used, int64_t total)
{
	if (total > 0 && used > total)
		topology_warn(t, "vendor_value", "%s says that more is used (%lld MiB) than there is (%lld MiB): counts as full",
		              who, in_mib(used), in_mib(total));
}

static void judge_uses(struct topology *t)
{
	for (uint32_t i = 0; i < t->calls.regions; i++)
		judge_use(t, t->calls.region[i].card, t->calls.region[i].used_bytes, t->calls.region[i].total_bytes);
	for (uint32_t i = 0; i < t->cards.count; i++) {
		const struct card *card = &t->cards.card[i];
		judge_use(t, card->name, card->vram_used, card->vram_total);
		judge_use(t, card->name, card->gtt_used, card->gtt_total);
	}
	for (uint32_t i = 0; i < t->calls.nvmls; i++) {
		const struct calls_nvml *gpu = &t->calls.nvml[i];
		int64_t used = gpu->left_out_bytes;
		for (uint32_t j = 0; j < gpu->processes; j++)
			used += gpu->process[j].used_bytes;
		if (gpu->total_bytes <= 0) /* of the RAM, where it tells of none of its own */
			judge_use(t, "NVML", used, t->mem.total);
	}
}

static void judge_frees(struct topology *t)
{
	const struct calls *calls = &t->calls;

	if (calls->hip_free_bytes > calls->hip_total_bytes && calls->hip_total_bytes >= 0)
		topology_warn(t, "vendor_value",
		              "HIP says more is free (%lld MiB) than there is (%lld MiB): not used",
		              (long long)(calls->hip_free_bytes / MIB),
		              (long long)(calls->hip_total_bytes / MIB));
	for (uint32_t i = 0; i < calls->nvmls; i++)
		if (calls->nvml[i].total_bytes > 0 &&
		    calls->nvml[i].free_bytes > calls->nvml[i].total_bytes)
			topology_warn(t, "vendor_value",
			              "NVML says more is free than there is of device %u: not used",
			              i);
	if (calls->cuda_total_bytes > 0 && calls->cuda_free_bytes > calls->cuda_total_bytes)
		topology_warn(t, "vendor_value", "CUDA says more is free than there is: not used");
}

/* Of shared memory nobody has more free than all have; a carve-out is not in the first two where ROCm uses GTT. */
static void judge_shared(struct topology *t, const char *who, int64_t free)
{
	if (free > t->allocatable_bytes + GIB)
		topology_warn(t, "vendor_value",
		              "%s says that %lld MiB are free of the shared memory, of which %lld MiB can be had (MemTotal - U - reserve): "
		              "the latter counts",
		              who, in_mib(free), in_mib(t->allocatable_bytes));
}

static void judge_shared_frees(struct topology *t)
{
	const struct device *device = &t->device[0];

	if (!topology_knows_ram(t) || t->devices != 1 || device->pool != 0)
		return;
	if (device->kind == DEVICE_AMD_GTT) {
		judge_shared(t, "HIP", t->calls.hip_free_bytes);
		judge_shared(t, "KFD", t->calls.kfd_available_bytes);
	} else if (topology_is_nvidia_unified(t)) {
		judge_shared(t, "CUDA", t->calls.cuda_free_bytes);
		if (device->nvml != NOWHERE)
			judge_shared(t, "NVML", t->calls.nvml[device->nvml].free_bytes);
	}
}

void topology_judge_vendors(struct topology *t)
{
	judge_frees(t);
	judge_shared_frees(t);
	judge_totals(t);
	judge_uses(t);
}
