/* Every reading of every pool, what it is used as, and why. */
#include "probe/topology_parts.h"

#include <stdio.h>
#include <string.h>

static struct view *add(struct topology *t, uint32_t pool, const char *name, int64_t bytes,
                        enum view_role role, const char *why)
{
	if (bytes < 0 || t->views == VIEWS_KNOWN_MAX)
		return NULL;
	struct view *view = &t->view[t->views++];
	*view = (struct view){ .pool = pool, .bytes = bytes, .role = role, .why = why };
	snprintf(view->name, sizeof view->name, "%s", name);
	return view;
}

/* A bound on what GPUs take of a pool; `used` stands under it. */
static void add_gpu_cap(struct topology *t, uint32_t pool, const char *name, int64_t bytes,
                        int64_t used, const char *why)
{
	struct view *view = add(t, pool, name, bytes, VIEW_CAP, why);

	if (!view)
		return;
	view->bounds_gpu = true;
	view->used_bytes = used;
}

static bool has_kind(const struct topology *t, enum device_kind kind)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (t->device[i].kind == kind)
			return true;
	return false;
}

static void list_meminfo(struct topology *t)
{
	const struct meminfo *m = &t->mem;

	if (!topology_knows_ram(t))
		return;
	add(t, 0, "MemAvailable", m->available - t->zones.pcp_bytes, VIEW_READING,
	    m->available_made ? "made of its parts, for the kernel does not tell it: one of the two sums"
	                      : "the kernel's own estimate: one of the two sums");
	if (t->zones.pcp_bytes > 0)
		add(t, 0, "pcp", t->zones.pcp_bytes, VIEW_READING,
		    "free pages on processors' own lists: available, though no counter says so");
	add(t, 0, "MemFree", m->free, VIEW_IGNORED, "counts the page cache as used");
	add(t, 0, "SwapFree", m->swap_free, VIEW_IGNORED,
	    "models in swap are of no use, and GPU pages cannot go there");
	add(t, 0, "U_top", t->u_top_bytes, VIEW_READING,
	    "used as the kernel tells it: total less available");
	if (t->u_bot_bytes > 0)
		add(t, 0, "U_bot", t->u_bot_bytes, VIEW_READING,
		    "used as its parts add up; the worse of the two counts");
	add(t, 0, "GPUActive", m->gpu_active, VIEW_READING, "pages of the GPU drivers in use");
	add(t, 0, "GPUReclaim", m->gpu_reclaim, VIEW_READING,
	    "pages the drivers keep and would give back");
	add(t, 0, "NvMapMemUsed", m->nvmap_used, VIEW_READING, "pages of NvMap in use");
	if (m->hugetlb > 0)
		add(t, 0, "Hugetlb", m->hugetlb, VIEW_READING,
		    "set aside for huge pages: used, whoever uses them");
	if (t->devices > 0 && t->mem.cma_free > 0)
		add(t, 0, "CmaFree", m->cma_free, VIEW_IGNORED,
		    "free, but not for a driver's own pages");
}

static void list_cgroup(struct topology *t)
{
	if (t->cgroup_limit_bytes >= t->mem.total)
		return;
	struct view *view = add(
	        t, 0, "cgroup", t->cgroup_limit_bytes, VIEW_CAP,
	        "a control group's limit: bounds what is charged to it, which GPU pages are not");
	if (!view)
		return;
	view->bounds_host = true;
	view->used_bytes = t->cgroup_used_bytes;
}

/* ---- AMD ---- */

static int64_t kfd_system_limit(const struct topology *t)
{
	return at_least_zero(t->mem.total - t->mem.total / 64 - 3 * GIB / 2);
}

static void list_card(struct topology *t, const struct device *device)
{
	const struct card *card = &t->cards.card[device->card];
	bool apu = device->kind != DEVICE_AMD_CARD;
	uint32_t own = device->carveout != NOWHERE ? device->carveout : device->pool;

	add_gpu_cap(t, 0, "gtt_total", card->gtt_total, card->gtt_used >= 0 ? card->gtt_used : t->clients_bytes[0],
	            "a bound on the RAM that this GPU may map, not memory of its own");
	add(t, 0, "gtt_used", card->gtt_used, VIEW_READING, "of the RAM, mapped by this GPU");
	if (card->kfd_bank >= 0)
		add(t, device->pool, "kfd_bank", card->kfd_bank, VIEW_READING,
		    "what KFD takes for the device's memory: tells which pool ROCm uses");
	if (own == 0)
		return;
	add(t, own, "vram_total", card->vram_total, VIEW_READING,
	    apu ? "the firmware's carve-out: the RAM does not contain it"
	        : "the card's own memory");
	add(t, own, "vram_used", card->vram_used, VIEW_READING,
	    "as the driver counts it, graphics included");
	add(t, own, "visible_vram_total", card->visible_vram_total, VIEW_IGNORED,
	    "the part the processor can see: the same memory again");
}

static void list_amd(struct topology *t)
{
	bool apu = has_kind(t, DEVICE_AMD_GTT) || has_kind(t, DEVICE_AMD_CARVEOUT);

	for (uint32_t i = 0; i < t->devices; i++)
		if (t->device[i].card != NOWHERE &&
		    t->cards.card[t->device[i].card].driver == CARD_AMDGPU)
			list_card(t, &t->device[i]);
	if (t->pages_limit_bytes >= 0)
		add_gpu_cap(t, 0, "pages_limit", t->pages_limit_bytes, topology_gtt_used(t),
		            "TTM's limit over all GPUs");
	if (!apu)
		return;
	if (t->no_system_mem_limit)
		add(t, 0, "kfd_system_limit", kfd_system_limit(t), VIEW_IGNORED,
		    "switched off by no_system_mem_limit: nothing then keeps ROCm from taking the "
		    "last page");
	else if (has_kind(t, DEVICE_AMD_GTT) &&
	         (t->cards.has_kfd || t->calls.kfd_available_bytes >= 0))
		add_gpu_cap(t, 0, "kfd_system_limit", kfd_system_limit(t), topology_gtt_used(t),
		            "KFD's own bound on what ROCm takes of the RAM");
}

static void list_hip(struct topology *t)
{
	const struct calls *calls = &t->calls;
	uint32_t pool = t->devices > 0 ? t->device[0].pool : 0;

	add(t, pool, "kfd_available", calls->kfd_available_bytes, VIEW_READING,
	    "what KFD would still allow; knows nothing of how much is really free");
	add(t, pool, "hip_total", calls->hip_total_bytes, VIEW_IGNORED, "a cap under another name");
	add(t, pool, "hip_free", calls->hip_free_bytes, VIEW_IGNORED,
	    calls->hip_free_bytes > calls->hip_total_bytes
	            ? "more than its total: made of limits that were set at different times"
	            : "what may be allocated, not what is free");
}

/* ---- the others ---- */

static void list_regions(struct topology *t)
{
	for (uint32_t i = 0; i < t->calls.regions; i++) {
		const struct calls_region *region = &t->calls.region[i];
		if (!region->vram) {
			add_gpu_cap(
			        t, 0, "xe_sysmem", region->total_bytes,
			        region->used_bytes >= 0 ? region->used_bytes : t->clients_bytes[0],
			        "a bound on the RAM that this GPU may map, not memory of its own");
			continue;
		}
		for (uint32_t pool = 1; pool < t->pools; pool++)
			if (strcmp(t->pool[pool].name + strlen("vram-"), region->card) == 0)
				add(t, pool, "xe_vram", region->total_bytes, VIEW_READING,
				    "the card's own memory");
	}
}

static bool is_unified_kind(enum device_kind kind)
{
	return kind == DEVICE_GB10 || kind == DEVICE_JETSON;
}

static void list_nvidia(struct topology *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct device *device = &t->device[i];
		if (device->nvml == NOWHERE)
			continue;
		const struct calls_nvml *gpu = &t->calls.nvml[device->nvml];
		bool unified = is_unified_kind(device->kind);
		enum view_role role = unified ? VIEW_IGNORED : VIEW_READING;
		add(t, device->pool, "nvml_total", gpu->total_bytes, role,
		    unified ? "the RAM once more" : "the device's own memory");
		add(t, device->pool, "nvml_free", gpu->free_bytes, role,
		    unified ? "counts the page cache as used" : "as the driver counts it");
	}
	if (t->calls.cuda_total_bytes < 0 || t->devices == 0)
		return;
	uint32_t pool = t->device[0].pool;
	bool unified = is_unified_kind(t->device[0].kind);
	add(t, pool, "cuda_total", t->calls.cuda_total_bytes, VIEW_IGNORED,
	    unified ? "the RAM once more" : "the device's memory once more");
	add(t, pool, "cuda_free", t->calls.cuda_free_bytes, VIEW_IGNORED,
	    unified ? "is MemFree: counts the page cache as used" : "the driver's count is taken");
}

static void list_heaps(struct topology *t)
{
	char name[32];

	for (uint32_t i = 0; i < t->calls.heaps; i++) {
		snprintf(name, sizeof name, "vulkan_heap%u", i);
		add(t, 0, name, t->calls.heap[i].bytes, VIEW_IGNORED,
		    "heaps overlap with each other and with the RAM: never to be added");
	}
}

void topology_list_views(struct topology *t)
{
	t->views = 0;
	list_meminfo(t);
	list_cgroup(t);
	list_amd(t);
	if (t->calls.hip_total_bytes >= 0 || t->calls.kfd_available_bytes >= 0)
		list_hip(t);
	list_regions(t);
	list_nvidia(t);
	list_heaps(t);
}
