/* What each runtime could take of each device now, before harm. */
#include "probe/topology_parts.h"

#include <string.h>

enum { BUDGET_PERCENT = 85, CONTEXT_MIB = 300, DEVICE_MIB = 256 };

static const struct card *card_of(const struct topology *t, const struct device *device)
{
	return device->card == NOWHERE ? NULL : &t->cards.card[device->card];
}

/* What is left under the caps on GPUs' use of a pool, those of KFD apart. */
static int64_t room_for_gpus(const struct topology *t, uint32_t pool, bool with_kfd)
{
	int64_t room = INT64_MAX;

	for (uint32_t i = 0; i < t->views; i++) {
		const struct view *view = &t->view[i];
		if (view->role != VIEW_CAP || !view->bounds_gpu || view->pool != pool)
			continue;
		if (!with_kfd && strcmp(view->name, "kfd_system_limit") == 0)
			continue;
		room = smaller(room, at_least_zero(view->bytes - view->used_bytes));
	}
	return room;
}

/* Free of a device's own memory. */
static int64_t own_free(const struct topology *t, uint32_t pool)
{
	return t->pool[pool].size_bytes - t->pool[pool].unreclaimable_bytes;
}

/* The driver's answer, where it makes sense at all. */
static int64_t kfd_answer(const struct topology *t)
{
	int64_t bytes = t->calls.kfd_available_bytes;
	int64_t most = 0;

	for (uint32_t i = 0; i < t->pools; i++)
		most += t->pool[i].size_bytes;
	return bytes >= 0 && bytes <= most + most / 50 ? bytes : -1;
}

static void weigh_amd(struct topology *t, struct device *device)
{
	int64_t kfd = kfd_answer(t);
	int64_t vram = 0;

	if (device->kind == DEVICE_AMD_CARD) {
		vram = at_least_zero(own_free(t, device->pool) - DEVICE_MIB * MIB);
		device->vulkan_bytes = vram;
		device->rocm_bytes = t->kind == TOPOLOGY_DISCRETE_AMD && t->devices == 1 && kfd >= 0
		                             ? smaller(vram, kfd)
		                             : vram;
		return;
	}
	int64_t gtt = smaller(t->allocatable_bytes, room_for_gpus(t, 0, false));
	if (device->carveout != NOWHERE)
		vram = at_least_zero(own_free(t, device->carveout) - DEVICE_MIB * MIB);
	device->vulkan_bytes = gtt + vram; /* disjoint memories: here the sum is right */
	if (device->kind == DEVICE_AMD_CARVEOUT)
		device->rocm_bytes = kfd >= 0 ? smaller(vram, kfd) : vram;
	else
		device->rocm_bytes =
		        smaller(smaller(t->allocatable_bytes, room_for_gpus(t, 0, true)),
		                kfd >= 0 ? kfd : INT64_MAX);
}

static int64_t reserve_kept(const struct topology *t, int64_t bytes)
{
	return at_least_zero(bytes - t->pool[0].reserve_bytes);
}

static void weigh_nvidia(struct topology *t, struct device *device)
{
	int64_t bytes = t->allocatable_bytes;

	if (device->kind == DEVICE_JETSON)
		bytes = smaller(bytes, reserve_kept(t, t->mem.available - at_least_zero(t->mem.cma_free)));
	else if (device->kind == DEVICE_GH200)
		bytes = at_least_zero(own_free(t, device->pool) -
		                      t->pool[device->pool].reserve_bytes);
	else if (device->kind == DEVICE_NVIDIA_CARD)
		bytes = at_least_zero(own_free(t, device->pool) - CONTEXT_MIB * MIB);
	device->cuda_bytes = device->vulkan_bytes = bytes;
}

static void weigh_intel(struct topology *t, struct device *device)
{
	const struct card *card = card_of(t, device);

	if (device->kind == DEVICE_INTEL_CARD) {
		device->vulkan_bytes = at_least_zero(own_free(t, device->pool) - DEVICE_MIB * MIB);
		return;
	}
	device->vulkan_bytes = smaller(t->allocatable_bytes, room_for_gpus(t, 0, false));
	if (card && card->driver == CARD_XE && room_for_gpus(t, 0, false) == INT64_MAX)
		topology_warn(
		        t, "device_limit_unknown",
		        "%s was not asked for its share of the RAM: older kernels allow it half",
		        device->name);
}

/* What is taken of the RAM, of which nothing is known. */
static void forget(struct device *device)
{
	int64_t *const runtimes[] = { &device->rocm_bytes, &device->vulkan_bytes, &device->cuda_bytes };

	for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++)
		if (*runtimes[i] >= 0)
			*runtimes[i] = TAKE_UNKNOWN;
}

void topology_weigh(struct topology *t)
{
	const struct pool *ram = &t->pool[0];

	t->allocatable_bytes =
	        at_least_zero(ram->size_bytes - ram->unreclaimable_bytes - ram->reserve_bytes);
	t->allocatable_cpu_bytes = t->allocatable_bytes;
	if (t->cgroup_limit_bytes < ram->size_bytes)
		t->allocatable_cpu_bytes =
		        smaller(t->allocatable_bytes,
		                at_least_zero(t->cgroup_limit_bytes - t->cgroup_used_bytes));
	for (uint32_t i = 0; i < t->devices; i++) {
		struct device *device = &t->device[i];
		const struct card *card = card_of(t, device);
		if (card && card->driver == CARD_AMDGPU)
			weigh_amd(t, device);
		else if (card)
			weigh_intel(t, device);
		else
			weigh_nvidia(t, device);
		if (!topology_knows_ram(t) && device->pool == 0)
			forget(device);
	}
}

static bool has_gpu_in(const struct topology *t, uint32_t pool)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (t->device[i].pool == pool)
			return true;
	return false;
}

/* Does the cap bound whatever is done with the pool? */
static bool bounds_all(const struct topology *t, const struct view *view)
{
	return view->role == VIEW_CAP && view->bounds_host &&
	       (view->bounds_gpu || !has_gpu_in(t, view->pool));
}

int64_t topology_bound(const struct topology *t, uint32_t pool)
{
	int64_t bound = INT64_MAX;

	for (uint32_t i = 0; i < t->views; i++)
		if (t->view[i].pool == pool && bounds_all(t, &t->view[i]))
			bound = smaller(bound, t->view[i].bytes);
	return bound;
}

int64_t topology_capacity(const struct topology *t, uint32_t pool)
{
	int64_t capacity = t->pool[pool].size_bytes - t->pool[pool].reserve_bytes;

	return at_least_zero(smaller(capacity, topology_bound(t, pool)));
}

int64_t topology_usable(const struct topology *t, uint32_t pool, int64_t baseline_bytes)
{
	int64_t bytes = t->pool[pool].size_bytes - baseline_bytes;
	bool gpu = has_gpu_in(t, pool);

	for (uint32_t i = 0; i < t->views; i++) {
		const struct view *view = &t->view[i];
		if (view->pool == pool && view->role == VIEW_CAP &&
		    (gpu ? view->bounds_gpu : view->bounds_host))
			bytes = smaller(bytes, view->bytes);
	}
	return at_least_zero(bytes) / 100 * BUDGET_PERCENT;
}

int64_t topology_free(const struct topology *t, uint32_t pool)
{
	const struct pool *p = &t->pool[pool];
	int64_t room = at_least_zero(topology_capacity(t, pool) - p->unreclaimable_bytes);
	int64_t best = -1;

	if (pool == 0 && !has_gpu_in(t, 0))
		return t->allocatable_cpu_bytes;
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct device *device = &t->device[i];
		if (device->pool != pool)
			continue;
		int64_t one = device->cuda_bytes;
		if (device->kind == DEVICE_AMD_GTT)
			one = device->rocm_bytes;
		else if (device->kind == DEVICE_INTEL_IGPU)
			one = device->vulkan_bytes;
		else if (device->kind != DEVICE_GB10 && device->kind != DEVICE_JETSON)
			one = room;
		best = larger(best, one);
	}
	return best < 0 ? room : smaller(best, room);
}

uint32_t topology_default_pool(const struct topology *t)
{
	uint32_t best = 0;
	int64_t most = -1;

	for (uint32_t i = 0; i < t->devices; i++) {
		int64_t capacity = topology_capacity(t, t->device[i].pool);
		if (capacity > most) {
			most = capacity;
			best = t->device[i].pool;
		}
	}
	return best;
}
