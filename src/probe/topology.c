#include "probe/topology.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "probe/cgroup.h"
#include "probe/lines.h"
#include "probe/sample.h"
#include "probe/topology_parts.h"

const char *topology_name(enum topology_kind kind)
{
	static const char *const names[] = {
		[TOPOLOGY_CPU] = "cpu",
		[TOPOLOGY_AMD_GTT] = "amd-gtt",
		[TOPOLOGY_AMD_CARVEOUT] = "amd-carveout",
		[TOPOLOGY_GB10] = "gb10",
		[TOPOLOGY_JETSON] = "jetson",
		[TOPOLOGY_GH200] = "gh200",
		[TOPOLOGY_INTEL_IGPU] = "intel-igpu",
		[TOPOLOGY_DISCRETE_AMD] = "discrete-amd",
		[TOPOLOGY_DISCRETE_NVIDIA] = "discrete-nvidia",
		[TOPOLOGY_MIXED] = "mixed",
	};

	return names[kind];
}

void topology_warn(struct topology *t, const char *code, const char *format, ...)
{
	va_list args;

	if (t->warnings == WARNINGS_MAX)
		return;
	struct warning *warning = &t->warning[t->warnings];
	warning->code = code;
	va_start(args, format);
	vsnprintf(warning->message, sizeof warning->message, format, args);
	va_end(args);
	for (uint32_t i = 0; i < t->warnings; i++)
		if (strcmp(t->warning[i].message, warning->message) == 0)
			return; /* told already */
	t->warnings++;
}

bool topology_has_nouveau(const struct topology *t)
{
	for (uint32_t i = 0; i < t->cards.count; i++)
		if (t->cards.card[i].driver == CARD_NOUVEAU)
			return true;
	return false;
}

int64_t topology_number(const char *root, struct topology *t, const char *name, bool needed, const char *effect)
{
	int64_t value = -1;
	enum input_state state = input_number(root, name, NULL, &value);

	inputs_note(&t->inputs, name, state, needed, effect);
	return state == INPUT_OK ? value : -1;
}

bool topology_is_there(const char *root, const char *name)
{
	char text[8];

	return lines_read_all(root, name, text, sizeof text) >= 0;
}

bool topology_has_folder(const char *root, const char *name)
{
	char path[PATH_MAX];
	struct stat status;
	int length = snprintf(path, sizeof path, "%s%s", root, name);

	return length >= 0 && (size_t)length < sizeof path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool topology_has_proc(const char *root)
{
	return topology_has_folder(root, "/proc");
}

/* TTM of the kernel, or of AMD's own driver package, which names its module otherwise. */
static void read_limits(const char *root, struct topology *t)
{
	static const char effect[] = "TTM's limit on what GPUs map of the RAM is not known, and bounds nothing";
	static const char own[] = "/sys/module/amdttm/parameters/pages_limit";
	bool amdgpu = false, packaged = topology_is_there(root, own);
	char text[16];

	for (uint32_t i = 0; i < t->cards.count; i++)
		amdgpu = amdgpu || t->cards.card[i].driver == CARD_AMDGPU;
	int64_t pages = topology_number(root, t, packaged ? own : "/sys/module/ttm/parameters/pages_limit", amdgpu, effect);
	t->pages_limit_bytes = pages < 0                    ? -1
	                       : pages < (INT64_C(1) << 40) ? pages * t->calls.page_bytes
	                                                    : INT64_C(1) << 50;
	t->no_system_mem_limit =
	        lines_read_all(root, "/sys/module/amdgpu/parameters/no_system_mem_limit", text,
	                       sizeof text) > 0 &&
	        (text[0] == 'Y' || text[0] == 'y' || text[0] == '1');
}

static void read_cgroup(const char *root, struct topology *t)
{
	struct cgroup_mounts *mounts = xmalloc(sizeof *mounts);
	struct cgroup_limits *limits = xmalloc(sizeof *limits);
	struct sample *sample = xcalloc(1, sizeof *sample);

	cgroup_find_mounts(root, mounts);
	cgroup_find_limits(root, mounts, t->mem.total, limits);
	cgroup_read_limits(root, NULL, limits, sample);
	t->cgroup_limit_bytes = sample->cgroup_limit_bytes;
	t->cgroup_used_bytes = sample->cgroup_used_bytes;
	inputs_add(&t->inputs, &sample->inputs);
	free(sample);
	free(limits);
	free(mounts);
}

/*
 * What always stays free of the RAM. By platform where experience names it;
 * an eighth is the most that a small machine gives, whatever it is.
 */
static int64_t ram_reserve(const struct topology *t)
{
	int64_t size = t->pool[0].size_bytes, whole = size, named = 2 * GIB;
	bool told = true;

	for (uint32_t i = 0; i < t->pools; i++)
		whole += t->pool[i].kind == POOL_CARVEOUT ? t->pool[i].size_bytes : 0;
	for (uint32_t i = 0; i < t->devices; i++) {
		enum device_kind kind = t->device[i].kind;
		bool apu = kind == DEVICE_AMD_GTT || kind == DEVICE_AMD_CARVEOUT;
		if (apu && t->device[i].card != NOWHERE)
			told = t->cards.card[t->device[i].card].vram_total >= 0;
		/* Of a carve-out whose size is not told, the large one. */
		if (apu)
			named = larger(named, whole >= 96 * GIB || !told ? 6 * GIB : 4 * GIB);
		else if (kind == DEVICE_INTEL_IGPU)
			named = larger(named, 4 * GIB); /* a laptop with its desktop */
		else if (kind == DEVICE_GB10)
			named = larger(named, 8 * GIB);
		else if (kind == DEVICE_JETSON)
			named = larger(GIB, size / 16);
	}
	int64_t reserve = smaller(named, whole / 8);
	reserve = larger(reserve, size / 100 * 3);
	return smaller(larger(reserve, 2 * t->zones.high_bytes), size);
}

static void set_reserves(struct topology *t)
{
	t->pool[0].reserve_bytes = ram_reserve(t);
	for (uint32_t i = 1; i < t->pools; i++) {
		struct pool *pool = &t->pool[i];
		int64_t reserve =
		        pool->kind == POOL_HBM ? 2 * GIB : 256 * MIB + pool->size_bytes / 100;
		pool->reserve_bytes = smaller(reserve, pool->size_bytes);
	}
}

static void judge_inputs(struct topology *t)
{
	static const char *const codes[] = { "", "input_missing", "input_unreadable", "input_nonsense", "input_blocked" };
	char text[WARNING_BYTES];

	for (uint32_t i = 0; i < t->inputs.count; i++) {
		const struct input *input = &t->inputs.list[i];
		if (!input_is_degraded(input))
			continue;
		input_describe(input, text, sizeof text);
		topology_warn(t, codes[input->state], "%s", text);
	}
}

static void judge(struct topology *t)
{
	const struct meminfo *m = &t->mem;

	if (!topology_knows_ram(t))
		return;
	for (uint32_t i = 0; i < t->calls.nvmls; i++)
		if (t->calls.nvml[i].left_out > 0)
			topology_warn(t, "gpu_processes_left_out",
			              "NVML tells of more processes than are kept: %u that use least have no name here",
			              t->calls.nvml[i].left_out);
	if (t->cgroup_limit_bytes < m->total)
		topology_warn(t, "cgroup_limit",
		              "a control group allows less than the machine has");
	if (m->huge_pages > 0)
		topology_warn(t, "huge_pages",
		              "huge pages are set aside: %lld MiB that engines cannot use",
		              (long long)(m->hugetlb / MIB));
	if (t->no_system_mem_limit)
		topology_warn(t, "no_system_mem_limit",
		              "amdgpu.no_system_mem_limit is set: nothing keeps ROCm from taking "
		              "the last page");
	for (uint32_t i = 0; i < t->cards.count; i++)
		if (t->cards.card[i].driver == CARD_AMDGPU && t->cards.card[i].gtt_total > m->total)
			topology_warn(t, "gtt_over_ram",
			              "%s: its GTT (%lld MiB) is larger than the RAM (%lld MiB)",
			              t->cards.card[i].name,
			              (long long)(t->cards.card[i].gtt_total / MIB),
			              (long long)(m->total / MIB));
	for (uint32_t i = 0; i < t->devices; i++)
		if ((t->device[i].kind == DEVICE_GB10 || t->device[i].kind == DEVICE_JETSON) &&
		    t->free_2m_bytes >= 0 && t->free_2m_bytes < GIB && m->available > 4 * GIB)
			topology_warn(t, "fragmented",
			              "only %lld MiB are free in blocks of 2 MiB or more: loads "
			              "may fail though memory "
			              "is available",
			              (long long)(t->free_2m_bytes / MIB));
}

static int read_again(const char *root, struct topology *t, struct err *err)
{
	int rc = topology_read_use(root, t, err);

	set_reserves(t);
	if (rc == 0 && !t->cgroup_told)
		read_cgroup(root, t);
	enum input_state buddyinfo;
	t->free_2m_bytes = zones_free_2m_bytes(t->handles, root, t->calls.page_bytes, NULL, &buddyinfo);
	inputs_note(&t->inputs, "/proc/buddyinfo", buddyinfo, false, "how broken up the free memory is is not known");
	topology_list_views(t);
	topology_weigh(t);
	judge(t);
	topology_judge_vendors(t);
	judge_inputs(t);
	return rc;
}

int topology_find(const char *root, struct topology *t, struct err *err)
{
	*t = (struct topology){ .cgroup_limit_bytes = INT64_MAX, .free_2m_bytes = -1 };
	topology_read_meminfo(root, t, err);
	cards_find(root, &t->cards, &t->inputs);
	if (root[0]) {
		calls_recorded(root, &t->calls);
		inputs_note(&t->inputs, "/calls.json", t->calls.recorded, true,
		            "what drivers answered is not known, or in part, and a GPU that only they tell of is not seen");
	} else
		calls_live(&t->calls, &t->cards);
	read_limits(root, t);
	topology_disbelieve(t);
	t->pools = 1;
	t->pool[0] = (struct pool){ .name = "ram", .size_bytes = t->mem.total, .node = -1 };
	topology_find_devices(root, t);
	t->found_warnings = t->warnings;
	t->found_inputs = t->inputs;
	cards_read_use(root, &t->cards, &t->inputs);
	return read_again(root, t, err);
}

int topology_read(const char *root, struct topology *t, struct err *err)
{
	t->warnings = t->found_warnings;
	t->inputs = t->found_inputs;
	cards_read_use(root, &t->cards, &t->inputs);
	if (!root[0] && t->devices > 0)
		calls_refresh(&t->calls, &t->cards, t->nvml, t->nvml_stays);
	topology_disbelieve(t);
	return read_again(root, t, err);
}
