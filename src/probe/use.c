/* How much of each pool cannot be had back: two sums, the worse one counts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/handles.h"
#include "probe/lines.h"
#include "probe/topology_parts.h"

/* ---- system RAM ---- */

int64_t topology_gtt_used(const struct topology *t)
{
	int64_t used = 0;

	for (uint32_t i = 0; i < t->cards.count; i++)
		used += at_least_zero(t->cards.card[i].gtt_used);
	for (uint32_t i = 0; i < t->calls.regions; i++)
		if (!t->calls.region[i].vram)
			used += at_least_zero(t->calls.region[i].used_bytes);
	return t->gpu_silent ? larger(used, t->clients_bytes[0]) : used;
}

const struct calls_region *topology_region(const struct topology *t, const struct card *card, bool vram)
{
	for (uint32_t i = 0; i < t->calls.regions; i++)
		if (t->calls.region[i].vram == vram && strcmp(t->calls.region[i].card, card->name) == 0)
			return &t->calls.region[i];
	return NULL;
}

/* Does its driver not tell how much of the RAM this device holds? What i915 holds stands in Shmem. */
static bool is_silent(const struct topology *t, const struct device *device)
{
	const struct card *card = device->card != NOWHERE ? &t->cards.card[device->card] : NULL;

	if (device->kind == DEVICE_GB10)
		return device->nvml == NOWHERE;
	if (device->kind == DEVICE_JETSON)
		return t->mem.nvmap_used < 0 && device->nvml == NOWHERE;
	if (!card || card->suspended)
		return false;
	if (card->driver == CARD_AMDGPU)
		return card->gtt_used < 0;
	const struct calls_region *region = topology_region(t, card, false);
	return card->driver == CARD_XE && (!region || region->used_bytes < 0);
}

static void look_for_silence(struct topology *t)
{
	t->gpu_silent = false;
	for (uint32_t i = 0; i < t->devices; i++)
		t->gpu_silent = t->gpu_silent || is_silent(t, &t->device[i]);
}

static bool is_xe_without_use(const struct topology *t, const struct device *device)
{
	const struct card *card = device->card != NOWHERE ? &t->cards.card[device->card] : NULL;

	return card && card->driver == CARD_XE && is_silent(t, device);
}

bool topology_needs_clients(const struct topology *t)
{
	return t->gpu_silent;
}

static void warn_of_silence(struct topology *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (is_xe_without_use(t, &t->device[i]))
			topology_warn(t, "use_unknown",
			              "%s does not tell how much memory it holds (xe tells with CAP_PERFMON alone): the %lld MiB of RAM "
			              "that its clients tell of are the least that it can be",
			              t->device[i].name, (long long)(t->clients_bytes[0] / MIB));
}

static int64_t nvml_used(const struct topology *t, const struct device *device)
{
	int64_t used = 0;

	if (device->nvml == NOWHERE)
		return 0;
	const struct calls_nvml *gpu = &t->calls.nvml[device->nvml];
	for (uint32_t i = 0; i < gpu->processes; i++)
		used += gpu->process[i].used_bytes;
	return used + gpu->left_out_bytes;
}

/* What the drivers admit to hold of the RAM. */
static int64_t gpu_counter(const struct topology *t)
{
	int64_t used = larger(t->mem.gpu_active, topology_gtt_used(t));

	used = at_least_zero(used);
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct device *device = &t->device[i];
		if (device->kind == DEVICE_GB10)
			used += nvml_used(t, device);
		else if (device->kind == DEVICE_JETSON)
			used += t->mem.nvmap_used >= 0 ? t->mem.nvmap_used : nvml_used(t, device);
	}
	return smaller(used, t->mem.total);
}

/* Pages that TTM keeps for reuse and gives back when asked: told by meminfo, before 7.1 by debugfs.
 */
static int64_t pool_back(const char *root, const struct topology *t)
{
	struct lines lines;
	struct str line, name;
	int64_t pages = 0;

	if (t->mem.gpu_reclaim >= 0)
		return smaller(t->mem.gpu_reclaim, t->mem.total - t->mem.free);
	if (t->cards.count == 0 || lines_open(&lines, root, "/sys/kernel/debug/ttm/page_pool") < 0)
		return 0;
	while (lines_next(&lines, &line)) {
		struct str rest;
		name = str_trim(str_cut(line, ':', &rest));
		if (str_is(name, "total") && rest.data)
			lines_number(rest, &pages, NULL);
	}
	lines_close(&lines);
	if (pages > t->mem.total / t->calls.page_bytes)
		return 0;
	return smaller(pages * t->calls.page_bytes, t->mem.total - t->mem.free);
}

static int64_t zspages(const char *root, struct topology *t)
{
	struct lines lines;
	struct str line;
	int64_t pages = 0, value;
	bool any = false;

	int code = handles_lines(t->handles, &lines, root, "/proc/vmstat");
	while (code == 0 && lines_next(&lines, &line)) {
		struct str rest, key = str_cut(line, ' ', &rest);
		if (!rest.data || !lines_number(rest, &value, NULL))
			continue;
		any = true;
		pages = str_is(key, "nr_zspages") ? value : pages;
	}
	inputs_note(&t->inputs, "/proc/vmstat", input_state_of(code, code == 0 ? lines.total : 0, any), true,
	            INPUTS_WITHOUT_VMSTAT);
	if (code == 0)
		lines_close(&lines);
	return pages < (INT64_C(1) << 34) ? pages * t->calls.page_bytes : 0;
}

/* What stands in no counter: pages of drivers, and about one percent of everything. */
static int64_t unaccounted(const struct meminfo *m, int64_t zspage_bytes)
{
	return m->total -
	       (m->free + m->buffers + m->cached + m->swap_cached + m->anon + m->kreclaimable +
	        m->slab_unreclaimable + m->page_tables + m->sec_page_tables + m->percpu +
	        m->vmalloc_used + at_least_zero(m->hugetlb) + m->bounce + zspage_bytes +
	        at_least_zero(m->gpu_active) + at_least_zero(m->gpu_reclaim));
}

static int64_t u_bottom(const struct topology *t, int64_t zspage_bytes, int64_t baseline)
{
	const struct meminfo *m = &t->mem;
	int64_t lru = meminfo_lru_file(m), low = t->zones.low_bytes;

	/* File pages off the LRU are locked: not Unevictable, which counts locked anonymous pages
	 * too. */
	int64_t shmem = at_least_zero(m->shmem);
	return m->anon + shmem + m->slab_unreclaimable + m->page_tables + m->sec_page_tables +
	       m->percpu + m->vmalloc_used + at_least_zero(m->hugetlb) + zspage_bytes +
	       at_least_zero(m->cached + m->buffers - shmem - lru) + t->gpu_counter_bytes +
	       baseline + t->hot_file_bytes + t->zones.total_reserve_bytes +
	       smaller(m->kreclaimable / 2, low) + smaller(lru / 2, low);
}

/* A recording with a few lines only cannot be summed up from below. */
static bool is_whole(const struct meminfo *m)
{
	return m->anon > 0 && m->slab_unreclaimable > 0 && meminfo_lru_file(m) > 0;
}

static void judge_drift(struct topology *t, int64_t inferred)
{
	int64_t least = larger(512 * MIB, t->mem.total / 1000 * 15);

	t->drift_bytes = inferred - t->gpu_counter_bytes;
	if (t->drift_bytes > least)
		topology_warn(t, "drift",
		              "%lld MiB of the memory stand in no counter and no driver admits to "
		              "hold them: a leak, "
		              "a driver's pool, or a driver that does not tell",
		              (long long)(t->drift_bytes / MIB));
	else if (t->drift_bytes < -least)
		topology_warn(t, "drift",
		              "drivers claim %lld MiB more than is missing from the memory: the "
		              "higher figure counts",
		              (long long)(-t->drift_bytes / MIB));
}

static void read_ram(const char *root, struct topology *t)
{
	const struct meminfo *m = &t->mem;
	int64_t zspage_bytes = zspages(root, t);
	int64_t back = pool_back(root, t);

	look_for_silence(t);
	warn_of_silence(t);
	t->gpu_counter_bytes = gpu_counter(t);
	t->u_top_bytes = m->total - m->available - back / 10 * 9 + t->hot_file_bytes;
	t->u_bot_bytes = t->drift_bytes = 0;
	t->unaccounted_bytes = -1;
	/* The kernel's own counter of what TTM's drivers hold serves as well. */
	t->drift_known = is_whole(m) && (!t->gpu_silent || (m->gpu_active >= 0 && !topology_is_nvidia_unified(t)));
	if (is_whole(m)) {
		int64_t missing = unaccounted(m, zspage_bytes) - t->zones.pcp_bytes;
		int64_t admitted = t->gpu_counter_bytes - at_least_zero(m->gpu_active);
		int64_t unaccounted_bytes = at_least_zero(missing - at_least_zero(admitted));
		int64_t usual = t->usual_unaccounted_bytes > 0 ? t->usual_unaccounted_bytes : m->total / 100;
		int64_t baseline = smaller(unaccounted_bytes, usual);
		t->u_bot_bytes = u_bottom(t, zspage_bytes, baseline);
		if (t->drift_known) {
			t->unaccounted_bytes = unaccounted_bytes;
			judge_drift(t, at_least_zero(missing - baseline) + at_least_zero(m->gpu_active));
		}
	}
	int64_t used = larger(t->u_top_bytes, t->u_bot_bytes);
	t->pool[0].unreclaimable_bytes = smaller(at_least_zero(used), t->pool[0].size_bytes);
}

/* ---- the others ---- */

static void read_hbm(const char *root, struct topology *t, struct pool *pool)
{
	struct meminfo mem;

	pool->unreclaimable_bytes = pool->size_bytes;
	if (topology_read_node(root, t, (uint32_t)pool->node, &mem) == 0)
		pool->unreclaimable_bytes =
		        pool->size_bytes -
		        smaller(pool->size_bytes, mem.free + meminfo_lru_file(&mem));
}

/* Used of a device's own memory as its driver tells, -1 where it does not. */
static int64_t device_used(const struct topology *t, const struct device *device, int64_t size)
{
	const struct card *card = device->card != NOWHERE ? &t->cards.card[device->card] : NULL;

	if (card && card->suspended)
		return 0; /* switched off: nothing lies there */
	if (card && card->driver == CARD_AMDGPU)
		return card->vram_used;
	const struct calls_region *region = card ? topology_region(t, card, true) : NULL;
	if (region)
		return region->used_bytes;
	const struct calls_nvml *gpu =
	        device->nvml != NOWHERE ? &t->calls.nvml[device->nvml] : NULL;
	int64_t free = gpu && gpu->total_bytes > 0 ? gpu->free_bytes : t->calls.cuda_free_bytes;
	return free >= 0 && free <= size ? size - free : -1;
}

static void read_device_pool(struct topology *t, const struct device *device, struct pool *pool)
{
	int64_t used = device_used(t, device, pool->size_bytes);
	const struct card *card = device->card != NOWHERE ? &t->cards.card[device->card] : NULL;

	if (card && card->suspended)
		topology_warn(t, "device_suspended",
		              "%s is suspended: it is not asked, so as not to wake it",
		              device->name);
	if (used < 0 && is_xe_without_use(t, device)) {
		used = t->clients_bytes[device->pool];
		topology_warn(t, "use_unknown",
		              "%s does not tell how much of its memory is used (xe tells with CAP_PERFMON alone): the %lld MiB that its "
		              "clients tell of are the least that it can be",
		              device->name, (long long)(used / MIB));
	}
	if (used < 0)
		topology_warn(
		        t, "use_unknown",
		        "%s does not tell how much of its memory is used: all of it counts as used",
		        device->name);
	pool->unreclaimable_bytes = used < 0 ? pool->size_bytes : smaller(used, pool->size_bytes);
}

static void read_pools(const char *root, struct topology *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		const struct device *device = &t->device[i];
		uint32_t own = device->carveout != NOWHERE ? device->carveout : device->pool;
		if (own == 0)
			continue;
		if (t->pool[own].kind == POOL_HBM)
			read_hbm(root, t, &t->pool[own]);
		else
			read_device_pool(t, device, &t->pool[own]);
	}
}

/*
 * The nodes with processors alone, where GPUs have nodes of their own. A node
 * has no MemAvailable: it is made anew as the kernel makes the machine's.
 */
static bool leave_out_hbm(const char *root, struct topology *t)
{
	struct meminfo sum = MEMINFO_NONE;
	struct meminfo node;
	struct zones zones, zones_sum = { 0 };
	bool any = false;

	for (uint32_t i = 0; i < 64; i++) {
		bool hbm = false;
		for (uint32_t pool = 1; pool < t->pools; pool++)
			hbm = hbm || t->pool[pool].node == (int32_t)i;
		if (hbm || topology_read_node(root, t, i, &node) < 0)
			continue;
		any = true;
		zones_read(NULL, root, (int32_t)i, t->calls.page_bytes, &zones);
		node.available = meminfo_make_available(&node, &zones);
		meminfo_add(&sum, &node);
		zones_sum.low_bytes += zones.low_bytes;
		zones_sum.high_bytes += zones.high_bytes;
		zones_sum.total_reserve_bytes += zones.total_reserve_bytes;
		zones_sum.pcp_bytes += zones.pcp_bytes;
	}
	if (!any)
		return false;
	sum.swap_total = t->mem.swap_total;
	sum.swap_free = t->mem.swap_free;
	sum.mlocked = larger(sum.mlocked, t->mem.mlocked);
	sum.hugetlb = t->mem.hugetlb;
	sum.available_made = t->mem.available_made;
	t->mem = sum;
	t->zones = zones_sum;
	return true;
}

int topology_read_node(const char *root, struct topology *t, uint32_t node, struct meminfo *out)
{
	char name[80];
	int code = meminfo_read_node(root, node, out);

	snprintf(name, sizeof name, "/sys/devices/system/node/node%u", node);
	bool there = topology_has_folder(root, name);
	snprintf(name, sizeof name, "/sys/devices/system/node/node%u/meminfo", node);
	if (there)
		inputs_note(&t->inputs, name, input_state_of(code, out->total > 0, code == 0), true,
		            "the memory of this node is not known, and it is left out");
	return code;
}

static int64_t hbm_size(const struct topology *t)
{
	int64_t size = 0;

	for (uint32_t i = 1; i < t->pools; i++)
		size += t->pool[i].kind == POOL_HBM ? t->pool[i].size_bytes : 0;
	return size;
}

int topology_read_meminfo(const char *root, struct topology *t, struct err *err)
{
	int rc = meminfo_read(t->handles, root, &t->mem, err);

	if (rc < 0)
		inputs_note(&t->inputs, "/proc/meminfo", input_state_of(rc, t->mem.total > 0, rc != -EBADMSG), true,
		            "how much memory there is and how much of it is used is not known");
	else if (!is_whole(&t->mem))
		inputs_note(&t->inputs, "/proc/meminfo", INPUT_NONSENSE, true,
		            "it lacks lines: what is used cannot be summed up from its parts (U_bot)");
	else
		inputs_note(&t->inputs, "/proc/meminfo", t->mem.available_made ? INPUT_NONSENSE : INPUT_OK, true, INPUTS_WITHOUT_AVAILABLE);
	if (rc < 0)
		t->mem = MEMINFO_NONE;
	return rc;
}

int topology_read_use(const char *root, struct topology *t, struct err *err)
{
	int64_t hbm = hbm_size(t);
	int rc = topology_read_meminfo(root, t, err);

	if (rc < 0) { /* cards tell of their own memory all the same */
		t->pool[0].size_bytes = t->pool[0].unreclaimable_bytes = 0;
		t->u_top_bytes = t->u_bot_bytes = 0;
		t->unaccounted_bytes = -1;
		t->drift_known = false;
		look_for_silence(t);
		read_pools(root, t);
		return rc;
	}
	inputs_note(&t->inputs, "/proc/zoneinfo", zones_read(t->handles, root, ZONES_ALL_NODES, t->calls.page_bytes, &t->zones), true,
	            INPUTS_WITHOUT_ZONES);
	if (hbm > 0 && !leave_out_hbm(root, t)) {
		/* Without the other nodes' counters, what the GPUs' have is taken off all. */
		if (hbm >= t->mem.total)
			return err_set(err, -EBADMSG,
			               "%s: the GPUs' nodes have more memory than the machine",
			               root);
		t->mem.total -= hbm;
		t->mem.free = smaller(t->mem.free, t->mem.total);
		t->mem.available = at_least_zero(smaller(t->mem.available, t->mem.total) - hbm);
	}
	t->pool[0].size_bytes = t->mem.total;
	/* Free, though the kernel does not say so. */
	int64_t most = smaller(t->mem.total - t->mem.available, t->mem.total / ZONES_PCP_PART);
	t->zones.pcp_bytes = smaller(t->zones.pcp_bytes, most);
	t->mem.available += t->zones.pcp_bytes;
	read_ram(root, t);
	read_pools(root, t);
	return 0;
}
