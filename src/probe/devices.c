/* Which devices there are and which memories they bring. */
#include "probe/topology_parts.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/lines.h"

enum { UNIFIED_PERCENT = 10, NODES_MOST = 64 };

/* amdgpu's APUs by PCI device: only where the driver could not be asked. */
static const uint16_t known_apus[] = {
	0x1114, 0x1435, 0x13c0, 0x13fe, 0x150e, 0x1506, 0x1586, 0x15bf, 0x15c8, 0x15d8,
	0x15dd, 0x1636, 0x1638, 0x163f, 0x164c, 0x164d, 0x164e, 0x164f, 0x1681, 0x1900,
	0x1901, 0x1902, 0x74a0, 0x9870, 0x9874, 0x9875, 0x9876, 0x9877, 0x98e4,
};

static struct pool *add_pool(struct topology *t, enum pool_kind kind, const char *name,
                             int64_t size)
{
	if (t->pools == POOLS_KNOWN_MAX || size <= 0)
		return NULL;
	struct pool *pool = &t->pool[t->pools++];
	*pool = (struct pool){ .kind = kind, .size_bytes = size, .node = -1 };
	snprintf(pool->name, sizeof pool->name, "%s", name);
	return pool;
}

static struct device *add_device(struct topology *t, enum device_kind kind, const char *name)
{
	if (t->devices == DEVICES_MAX)
		return NULL;
	struct device *device = &t->device[t->devices++];
	*device = (struct device){ .kind = kind,
		                   .carveout = NOWHERE,
		                   .card = NOWHERE,
		                   .nvml = NOWHERE,
		                   .rocm_bytes = -1,
		                   .vulkan_bytes = -1,
		                   .cuda_bytes = -1 };
	snprintf(device->name, sizeof device->name, "%s", name);
	return device;
}

/* ---- AMD ---- */

static bool is_apu(const struct topology *t, const struct card *card)
{
	for (uint32_t i = 0; i < t->calls.apus; i++)
		if (strcmp(t->calls.apu[i].card, card->name) == 0)
			return t->calls.apu[i].apu;
	for (size_t i = 0; i < sizeof known_apus / sizeof known_apus[0]; i++)
		if (card->device_id == known_apus[i])
			return true;
	return false;
}

/* "6.9.3-arch1" -> 6009; 0 where it is not known. */
static int64_t kernel_version(const char *root)
{
	char text[256];
	int64_t major, minor;
	struct str rest;

	if (lines_read_all(root, "/proc/sys/kernel/osrelease", text, sizeof text) <= 0) {
		if (lines_read_all(root, "/proc/version", text, sizeof text) <= 0)
			return 0;
		const char *behind = strstr(text, "version ");
		memmove(text, behind ? behind + 8 : "", strlen(behind ? behind + 8 : "") + 1);
	}
	if (!lines_number(str_from(text), &major, &rest) || !str_starts(rest, "."))
		return 0;
	rest = (struct str){ rest.data + 1, rest.length - 1 };
	return lines_number(rest, &minor, NULL) && major < 1000 && minor < 1000
	               ? major * 1000 + minor
	               : 0;
}

/*
 * Which memory ROCm uses of an APU: the bank that KFD shows has the size of the
 * one or of the other. Where KFD is silent, the driver's own rule: the larger.
 */
static bool uses_carveout(const char *root, const struct topology *t, const struct card *card)
{
	enum { FIRST_WITH_GTT = 6010 };
	int64_t bank = card->kfd_bank >= 0 ? card->kfd_bank : t->calls.hip_total_bytes;
	int64_t version = kernel_version(root);

	if (card->vram_total <= 0)
		return false;
	if (bank > 0 && t->pages_limit_bytes > 0 && is_near(bank, t->pages_limit_bytes, 1))
		return false;
	if (bank > 0)
		return is_near(bank, card->vram_total, 2);
	if (version > 0 && version < FIRST_WITH_GTT)
		return true;
	return card->gtt_total >= 0 && card->vram_total >= card->gtt_total;
}

static void add_amd(const char *root, struct topology *t, uint32_t index)
{
	const struct card *card = &t->cards.card[index];
	char name[32];
	bool apu = is_apu(t, card);
	enum device_kind kind = !apu                           ? DEVICE_AMD_CARD
	                        : uses_carveout(root, t, card) ? DEVICE_AMD_CARVEOUT
	                                                       : DEVICE_AMD_GTT;

	if (!apu && card->vram_total <= 0) {
		topology_warn(t, "device_unknown",
		              "%s does not tell how much memory it has: it is left out",
		              card->name);
		return;
	}
	struct device *device = add_device(t, kind, card->name);
	if (!device)
		return;
	device->card = index;
	snprintf(name, sizeof name, "%s-%s", apu ? "carveout" : "vram", card->name);
	uint32_t at = t->pools;
	if (!add_pool(t, apu ? POOL_CARVEOUT : POOL_VRAM, name, card->vram_total)) {
		t->devices -= apu ? 0 : 1; /* no room in the table: not known rather than wrong */
		device->kind = apu ? DEVICE_AMD_GTT : device->kind;
		return;
	}
	device->carveout = apu ? at : NOWHERE;
	device->pool = kind == DEVICE_AMD_GTT ? 0 : at;
}

/* ---- Intel ---- */

static void add_intel(struct topology *t, uint32_t index)
{
	const struct card *card = &t->cards.card[index];
	const struct calls_region *vram = topology_region(t, card, true);
	bool own_memory = vram && vram->total_bytes > 0;
	char name[32];
	struct device *device =
	        add_device(t, own_memory ? DEVICE_INTEL_CARD : DEVICE_INTEL_IGPU, card->name);

	if (!device)
		return;
	device->card = index;
	if (!own_memory)
		return;
	snprintf(name, sizeof name, "vram-%s", card->name);
	device->pool = t->pools;
	if (!add_pool(t, POOL_VRAM, name, vram->total_bytes))
		t->devices--;
}

/* ---- NVIDIA ---- */

static bool file_has(const char *root, const char *file, const char *word)
{
	char text[512];
	int length = lines_read_all(root, file, text, sizeof text);

	for (int i = 0; i < length; i++)
		text[i] = text[i] ? text[i] : ' '; /* device trees separate by NUL */
	return length > 0 && strstr(text, word);
}

/* NvMap is what makes a Jetson; where its counters are hidden, the system on chip tells. */
static bool is_jetson(const char *root, const struct topology *t)
{
	static const char *const chips[] = { "Orin", "Xavier", "Tegra", "Thor", "Jetson" };

	for (uint32_t i = 0; i < t->calls.nvmls; i++)
		for (size_t j = 0; j < sizeof chips / sizeof chips[0]; j++)
			if (strstr(t->calls.nvml[i].name, chips[j]))
				return true;
	return t->mem.nvmap_used >= 0 ||
	       file_has(root, "/proc/device-tree/compatible", "nvidia,tegra") ||
	       file_has(root, "/sys/firmware/devicetree/base/compatible", "nvidia,tegra") ||
	       file_has(root, "/proc/device-tree/model", "Jetson") ||
	       file_has(root, "/proc/sys/kernel/osrelease", "tegra") ||
	       topology_is_there(root, "/sys/kernel/debug/nvmap/iovmm/clients");
}

static bool is_x86(const char *root, struct topology *t)
{
	static const char name[] = "/proc/cpuinfo";
	bool x86 = file_has(root, name, "vendor_id"), arm = file_has(root, name, "CPU implementer");
	char text[8];
	int length = lines_read_all(root, name, text, sizeof text);

	inputs_note(&t->inputs, name, input_state_of(length, length > 0 ? (size_t)length : 0, x86 || arm), true,
	            "whether an NVIDIA device has memory of its own is known by other signs alone");
	return x86;
}

/*
 * Does the device use the system's RAM? Its total is (about) the RAM's, or it
 * has none to tell. `integrated` alone is not believed: cards were seen to say so.
 */
static bool is_unified(const char *root, struct topology *t, const struct calls_nvml *gpu)
{
	const struct calls *calls = &t->calls;
	int64_t ram = t->pool[0].size_bytes;

	if (is_x86(root, t))
		return false;
	if (ram == 0) /* nothing to compare with */
		return gpu && gpu->total_bytes > 0 ? calls->cuda_integrated == 1 : calls->cuda_integrated != 0;
	if (gpu && gpu->total_bytes > 0)
		return is_near(gpu->total_bytes, ram, UNIFIED_PERCENT) &&
		       calls->cuda_integrated != 0;
	if (calls->cuda_total_bytes > 0)
		return is_near(calls->cuda_total_bytes, ram, UNIFIED_PERCENT) &&
		       calls->cuda_integrated != 0;
	return calls->cuda_integrated != 0;
}

/* Such a node's list is an empty line. */
static bool is_node_without_cpus(const char *root, struct topology *t, uint32_t node)
{
	char name[64], text[64];

	snprintf(name, sizeof name, "/sys/devices/system/node/node%u/cpulist", node);
	int length = lines_read_all(root, name, text, sizeof text);
	bool none = text[0] == '\n', some = text[0] >= '0' && text[0] <= '9';
	inputs_note(&t->inputs, name, input_state_of(length, length > 0 ? (size_t)length : 0, none || some), true,
	            "whether this node's memory is a GPU's is not known, and it counts as RAM");
	return length > 0 && none;
}

/* The nodes that the driver says are its devices', as bits. */
static uint64_t nodes_of_driver(const char *root)
{
	char path[PATH_MAX], text[256];
	struct dirent *entry;
	uint64_t nodes = 0;
	int64_t node;
	int length = snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);

	DIR *folder = length > 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
	while (folder && (entry = readdir(folder))) {
		char name[320];
		snprintf(name, sizeof name, "/proc/driver/nvidia/gpus/%s/numa_status",
		         entry->d_name);
		if (entry->d_name[0] == '.' || lines_read_all(root, name, text, sizeof text) <= 0)
			continue;
		const char *at = strstr(text, "Node:");
		if (at && lines_number(str_from(at + 5), &node, NULL) && node > 0 &&
		    node < NODES_MOST)
			nodes |= UINT64_C(1) << node;
	}
	if (folder)
		closedir(folder);
	return nodes;
}

/* Is a device's memory about that? Where none tells its own nothing speaks against it. */
static bool is_size_of_device(const struct topology *t, int64_t bytes)
{
	bool told = false;

	for (uint32_t i = 0; i < t->calls.nvmls; i++) {
		int64_t total = t->calls.nvml[i].total_bytes;
		told = told || total > 0;
		if (is_near(bytes, total, UNIFIED_PERCENT))
			return true;
	}
	return !told;
}

/*
 * The GPUs' nodes: those that the driver names. Where it is silent, nodes of memory without processors whose size
 * is a device's: memory behind CXL or on persistent modules is such a node too, and on x86 no GPU's is.
 */
static uint32_t add_hbm(const char *root, struct topology *t)
{
	struct meminfo mem;
	char name[32];
	uint64_t told = nodes_of_driver(root);
	uint32_t found = 0;

	if (!told && is_x86(root, t))
		return 0;
	for (uint32_t node = 0; node < NODES_MOST; node++) {
		if ((told && !(told >> node & 1)) || topology_read_node(root, t, node, &mem) < 0)
			continue;
		if (!told && !(is_size_of_device(t, mem.total) && is_node_without_cpus(root, t, node)))
			continue;
		snprintf(name, sizeof name, "hbm-node%u", node);
		uint32_t at = t->pools;
		struct pool *pool = add_pool(t, POOL_HBM, name, mem.total);
		struct device *device = pool ? add_device(t, DEVICE_GH200, name) : NULL;
		if (!device)
			continue;
		pool->node = (int32_t)node;
		device->pool = at;
		device->nvml = found < t->calls.nvmls ? found : NOWHERE;
		found++;
	}
	return found;
}

static void add_nvidia_card(struct topology *t, uint32_t index, const char *name)
{
	const struct calls_nvml *gpu = index < t->calls.nvmls ? &t->calls.nvml[index] : NULL;
	int64_t total = gpu && gpu->total_bytes > 0 ? gpu->total_bytes : t->calls.cuda_total_bytes;
	char pool[32];

	if (total <= 0) {
		topology_warn(t, "device_unknown",
		              "%s does not tell how much memory it has: it is left out", name);
		return;
	}
	struct device *device = add_device(t, DEVICE_NVIDIA_CARD, name);
	if (!device)
		return;
	snprintf(pool, sizeof pool, "vram-nvidia%u", index);
	device->nvml = gpu ? index : NOWHERE;
	device->pool = t->pools;
	if (!add_pool(t, POOL_VRAM, pool, total))
		t->devices--;
}

/* A device of NVIDIA's or its driver, awake. */
static bool has_nvidia(const char *root, const struct topology *t)
{
	uint32_t cards = 0, asleep = 0;

	for (uint32_t i = 0; i < t->cards.count; i++)
		if (t->cards.card[i].driver == CARD_NVIDIA) {
			cards++;
			asleep += t->cards.card[i].suspended;
		}
	if (cards > 0)
		return asleep < cards;
	return topology_is_there(root, "/proc/driver/nvidia/version") || topology_is_there(root, "/sys/module/nvidia/version");
}

/* Without its answer a card has no size, and of unified memory nobody says who holds it. */
static void note_nvml(const char *root, struct topology *t, bool jetson)
{
	bool told = t->calls.nvmls > 0;

	if (told || (!jetson && has_nvidia(root, t)))
		inputs_note(&t->inputs, "NVML (libnvidia-ml.so.1)", told ? INPUT_OK : INPUT_UNREADABLE, true,
		            "the driver is there and does not answer: what its devices have and use is not known");
}

static void add_nvidia(const char *root, struct topology *t, uint32_t cards)
{
	bool jetson = is_jetson(root, t);
	bool told = t->calls.cuda_total_bytes > 0 || t->calls.cuda_integrated >= 0;
	uint32_t count = t->calls.nvmls > 0 ? t->calls.nvmls : cards || told || jetson ? 1 : 0;
	bool unified = false;
	char name[40];

	note_nvml(root, t, jetson);
	if (count == 0 || add_hbm(root, t) > 0)
		return;
	for (uint32_t i = 0; i < count; i++) {
		const struct calls_nvml *gpu = i < t->calls.nvmls ? &t->calls.nvml[i] : NULL;
		snprintf(name, sizeof name, "nvidia%u", i);
		if (!jetson && !is_unified(root, t, gpu)) {
			add_nvidia_card(t, i, name);
			continue;
		}
		struct device *device =
		        unified ? NULL : add_device(t, jetson ? DEVICE_JETSON : DEVICE_GB10, name);
		unified = true;
		if (device)
			device->nvml = gpu ? i : NOWHERE;
	}
}

/* ---- all ---- */

static enum topology_kind kind_of(const struct topology *t)
{
	static const enum topology_kind kinds[] = {
		[DEVICE_AMD_GTT] = TOPOLOGY_AMD_GTT,
		[DEVICE_AMD_CARVEOUT] = TOPOLOGY_AMD_CARVEOUT,
		[DEVICE_AMD_CARD] = TOPOLOGY_DISCRETE_AMD,
		[DEVICE_GB10] = TOPOLOGY_GB10,
		[DEVICE_JETSON] = TOPOLOGY_JETSON,
		[DEVICE_GH200] = TOPOLOGY_GH200,
		[DEVICE_NVIDIA_CARD] = TOPOLOGY_DISCRETE_NVIDIA,
		[DEVICE_INTEL_IGPU] = TOPOLOGY_INTEL_IGPU,
		[DEVICE_INTEL_CARD] = TOPOLOGY_MIXED,
	};
	enum topology_kind kind = TOPOLOGY_CPU;

	for (uint32_t i = 0; i < t->devices; i++) {
		enum topology_kind one = kinds[t->device[i].kind];
		if (i > 0 && one != kind)
			return TOPOLOGY_MIXED;
		kind = one;
	}
	return kind;
}

void topology_find_devices(const char *root, struct topology *t)
{
	uint32_t nvidia_cards = 0;

	for (uint32_t i = 0; i < t->cards.count; i++) {
		const struct card *card = &t->cards.card[i];
		if (card->driver == CARD_AMDGPU)
			add_amd(root, t, i);
		else if (card->driver == CARD_XE || card->driver == CARD_I915)
			add_intel(t, i);
		else if (card->driver == CARD_NVIDIA)
			nvidia_cards++;
		else if (card->driver == CARD_NOUVEAU)
			topology_warn(t, "device_unknown",
			              "%s is run by nouveau, which does not tell its memory: it is "
			              "left out",
			              card->name);
	}
	add_nvidia(root, t, nvidia_cards);
	t->kind = kind_of(t);
}
