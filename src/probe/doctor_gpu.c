/* Checks of the GPUs, their drivers and what they say. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/doctor_parts.h"
#include "probe/doctor_service.h"
#include "probe/lines.h"
#include "probe/topology_parts.h"

#define MIB_OF(bytes) ((long long)((bytes) / MIB))

static bool uses_gtt(const struct doctor *d)
{
	for (uint32_t i = 0; i < d->topology->devices; i++)
		if (d->topology->device[i].kind == DEVICE_AMD_GTT)
			return true;
	return false;
}

enum finding_status check_kernel(const struct doctor *d, struct finding *f)
{
	enum { CARVEOUT_ONLY = 6010000, UNSTABLE = 6018004 };
	char text[64];
	int64_t version = doctor_kernel(d, text, sizeof text);

	if (version == 0)
		return not_known(f);
	return found(f,
	             version < CARVEOUT_ONLY ? FINDING_PROBLEM
	             : version < UNSTABLE    ? FINDING_ADVICE
	                                     : FINDING_OK,
	             "%s", text);
}

/* Nothing is known against any, but where a GPU of AMD's is. */
enum finding_status check_release(const struct doctor *d, struct finding *f)
{
	char text[64];

	if (doctor_kernel(d, text, sizeof text) == 0)
		return not_known(f);
	return found(f, FINDING_OK, "Linux %s", text);
}

enum finding_status check_wsl(const struct doctor *d, struct finding *f)
{
	char text[64];

	doctor_kernel(d, text, sizeof text);
	return found(f, FINDING_ADVICE, "WSL (%s)", text);
}

/* The scheduler's firmware, by its own version: packages name it by date, and each system otherwise. */
enum finding_status check_firmware(const struct doctor *d, struct finding *f)
{
	enum { VERSION = 0xfff, BROKEN = 0x83 };
	static const uint32_t gfx115[] = { 0x150e, 0x1586, 0x1114 }; /* Strix, Strix Halo, Krackan */
	const struct card *card = doctor_apu(d);
	char name[96], text[32];
	bool known = false;

	for (size_t i = 0; card && i < sizeof gfx115 / sizeof gfx115[0]; i++)
		known = known || card->device_id == gfx115[i];
	if (!known)
		return found(f, FINDING_OK, "nothing is known against this GPU's");
	snprintf(name, sizeof name, "/sys/class/drm/%s/device/fw_version/mes_fw_version", card->name);
	if (!doctor_text(d, name, text, sizeof text))
		return not_known(f);
	char *end;
	unsigned long version = strtoul(text, &end, 16) & VERSION;
	if (end == text || *end)
		return not_known(f);
	return found(f, version == BROKEN ? FINDING_PROBLEM : FINDING_OK, "MES 0x%lx", version);
}

enum finding_status check_carveout(const struct doctor *d, struct finding *f)
{
	const struct card *card = doctor_apu(d);

	if (!card || card->vram_total < 0)
		return not_known(f);
	if (!uses_gtt(d))
		return found(f, FINDING_OK, "%lld MiB, and ROCm uses it", MIB_OF(card->vram_total));
	bool wasted = card->vram_total > 4 * GIB;
	return found(f, wasted ? FINDING_PROBLEM : FINDING_OK, "%lld MiB, while ROCm uses GTT",
	             MIB_OF(card->vram_total));
}

enum finding_status check_rocm_pool(const struct doctor *d, struct finding *f)
{
	const struct card *card = doctor_apu(d);
	int64_t limit = d->topology->pages_limit_bytes;

	if (!card || card->kfd_bank < 0)
		return not_known(f);
	if (is_near(card->kfd_bank, limit, 1) || is_near(card->kfd_bank, card->vram_total, 1))
		return found(f, FINDING_OK, "KFD: %lld MiB", MIB_OF(card->kfd_bank));
	return found(f, FINDING_ADVICE, "KFD: %lld MiB, pages_limit: %lld MiB, carve-out: %lld MiB",
	             MIB_OF(card->kfd_bank), MIB_OF(limit), MIB_OF(card->vram_total));
}

enum finding_status check_pages_limit(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	int64_t limit = t->pages_limit_bytes, total = t->mem.total;
	int64_t good = total > 64 * GIB ? total - 12 * GIB : total / 100 * 75;

	if (limit < 0)
		return not_known(f);
	bool low = limit < total / 10 * 6 && uses_gtt(d),
	     high = limit > total - larger(2 * GIB, smaller(8 * GIB, total / 8));
	mend(f, "ttm.pages_limit=%lld on the kernel's command line (that is %lld GiB), reboot (lasts)",
	     (long long)(good / GIB * 262144), (long long)(good / GIB));
	return found(f,
	             low    ? FINDING_PROBLEM
	             : high ? FINDING_ADVICE
	                    : FINDING_OK,
	             "%lld MiB of %lld MiB RAM%s", MIB_OF(limit), MIB_OF(total),
	             high ? ": too much, the system needs the rest" : "");
}

enum finding_status check_gttsize(const struct doctor *d, struct finding *f)
{
	char text[4];

	if (!doctor_text(d, "/proc/cmdline", text, sizeof text))
		return not_known(f);
	if (doctor_booted_with(d, "amdgpu.ttm.pages_limit") ||
	    doctor_booted_with(d, "amdgpu.gtt_size"))
		return found(f, FINDING_ADVICE, "a misspelt parameter, which does nothing");
	bool there = doctor_booted_with(d, "amdgpu.gttsize");
	return found(f, there ? FINDING_ADVICE : FINDING_OK,
	             there ? "amdgpu.gttsize is set" : "not set");
}

enum finding_status check_page_pool(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	int64_t pages = doctor_number(d, "/sys/module/ttm/parameters/page_pool_size");

	if (pages < 0 || pages > INT64_C(1) << 40)
		return not_known(f);
	int64_t bytes = pages * t->calls.page_bytes;
	bool all = bytes >= t->pages_limit_bytes && bytes > 24 * GIB;
	return found(f, all ? FINDING_ADVICE : FINDING_OK, "%lld MiB", MIB_OF(bytes));
}

enum finding_status check_system_mem_limit(const struct doctor *d, struct finding *f)
{
	char text[8];

	if (!doctor_text(d, "/sys/module/amdgpu/parameters/no_system_mem_limit", text, sizeof text))
		return not_known(f);
	if (!strchr("YyNn01", text[0]))
		return not_known(f);
	bool on = d->topology->no_system_mem_limit;
	return found(f, on ? FINDING_PROBLEM : FINDING_OK, "no_system_mem_limit is %s",
	             on ? "on" : "off");
}

enum finding_status check_iommu(const struct doctor *d, struct finding *f)
{
	char text[4];

	if (!doctor_text(d, "/proc/cmdline", text, sizeof text))
		return not_known(f);
	bool good = doctor_booted_with(d, "iommu=pt") || doctor_booted_with(d, "amd_iommu=off");
	return found(f, good ? FINDING_OK : FINDING_ADVICE, good ? "set" : "the default");
}

enum finding_status check_gtt_over_ram(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	int64_t most = -1;

	for (uint32_t i = 0; i < t->cards.count; i++)
		most = larger(most, t->cards.card[i].gtt_total);
	if (most < 0)
		return not_known(f);
	return found(f, most > t->mem.total ? FINDING_ADVICE : FINDING_OK,
	             "GTT %lld MiB, RAM %lld MiB", MIB_OF(most), MIB_OF(t->mem.total));
}

enum finding_status check_xe_region(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;

	for (uint32_t i = 0; i < t->calls.regions; i++) {
		const struct calls_region *region = &t->calls.region[i];
		if (region->vram || region->total_bytes < 0)
			continue;
		bool half = region->total_bytes < t->mem.total / 10 * 9;
		return found(f, half ? FINDING_ADVICE : FINDING_OK, "%lld MiB of %lld MiB",
		             MIB_OF(region->total_bytes), MIB_OF(t->mem.total));
	}
	return found(f, FINDING_UNKNOWN, "the driver was not asked (i915 has no such limit)");
}

/* ---- what vendors' tools show, and what counts ---- */

static bool is_far(int64_t bytes, int64_t from)
{
	return bytes >= 0 && (bytes > from + GIB || bytes < from - GIB);
}

/* Beside what is there already. */
static void add(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct finding *f, const char *format, ...)
{
	size_t at = strlen(f->found);
	va_list args;

	if (at > 0)
		at += (size_t)snprintf(f->found + at, sizeof f->found - at, "; ");
	va_start(args, format);
	if (at < sizeof f->found)
		vsnprintf(f->found + at, sizeof f->found - at, format, args);
	va_end(args);
}

/* NVIDIA's on unified memory: no size at all, and MemFree as what is free. */
static void explain_unified(const struct topology *t, struct finding *f)
{
	const struct device *device = &t->device[0];
	int64_t free = t->calls.cuda_free_bytes;

	if (device->nvml != NOWHERE && t->calls.nvml[device->nvml].total_bytes < 0)
		add(f, "nvidia-smi says N/A, for the GPU has no memory of its own");
	if (is_far(free, t->allocatable_bytes))
		add(f, "CUDA says %lld MiB are free: that is MemFree, without the page cache", MIB_OF(free));
	if (f->found[0])
		add(f, "used are %lld MiB (MemTotal - U - reserve)", MIB_OF(t->allocatable_bytes));
}

/* AMD's where ROCm uses GTT: the carve-out as VRAM, limits as what is free. */
static void explain_gtt(const struct topology *t, const struct device *device, struct finding *f)
{
	const struct card *card = &t->cards.card[device->card];

	if (is_far(card->vram_total, device->rocm_bytes))
		add(f, "rocm-smi shows the carve-out of %lld MiB as VRAM, where ROCm does not allocate", MIB_OF(card->vram_total));
	if (is_far(t->calls.hip_free_bytes, device->rocm_bytes))
		add(f, "HIP says %lld MiB are free: what its limits allow", MIB_OF(t->calls.hip_free_bytes));
	if (f->found[0])
		add(f, "used are %lld MiB (MemTotal - U - reserve, and the drivers' caps)", MIB_OF(device->rocm_bytes));
}

static void explain_heaps(const struct topology *t, struct finding *f)
{
	int64_t heaps = 0;

	for (uint32_t i = 0; i < t->calls.heaps; i++)
		heaps += t->calls.heap[i].bytes;
	if (t->devices > 0 && topology_knows_ram(t) && heaps > t->mem.total)
		add(f, "Vulkan's heaps are %lld MiB together, the RAM %lld MiB: they overlap, or one is the carve-out; used are %lld MiB",
		    MIB_OF(heaps), MIB_OF(t->mem.total), MIB_OF(at_least_zero(t->device[0].vulkan_bytes)));
}

static bool was_told(const struct topology *t)
{
	return t->calls.hip_total_bytes >= 0 || t->calls.cuda_total_bytes >= 0 || t->calls.nvmls > 0 ||
	       t->calls.kfd_available_bytes >= 0 || t->calls.regions > 0;
}

enum finding_status check_vendor_values(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;

	for (uint32_t i = 0; i < t->warnings; i++)
		if (strcmp(t->warning[i].code, "vendor_value") == 0)
			return found(f, FINDING_ADVICE, "%s", t->warning[i].message);
	f->found[0] = '\0';
	if (topology_knows_ram(t) && topology_is_nvidia_unified(t))
		explain_unified(t, f);
	for (uint32_t i = 0; i < t->devices && topology_knows_ram(t); i++)
		if (t->device[i].kind == DEVICE_AMD_GTT && t->device[i].card < t->cards.count)
			explain_gtt(t, &t->device[i], f);
	explain_heaps(t, f);
	if (f->found[0])
		return FINDING_ADVICE;
	return was_told(t) ? found(f, FINDING_OK, "nothing contradicts itself")
	                   : found(f, FINDING_UNKNOWN, "no vendor's tool was asked");
}

enum finding_status check_orphans(const struct doctor *d, struct finding *f)
{
	int64_t leak = programs_leak_bytes(d->topology, d->programs);

	for (uint32_t i = 0; leak < 0 && i < d->topology->warnings; i++)
		if (strcmp(d->topology->warning[i].code, "use_unknown") == 0)
			return found(f, FINDING_UNKNOWN, "%s", d->topology->warning[i].message);
	if (leak < 0)
		return found(f, FINDING_UNKNOWN, d->topology->gpu_silent || !d->topology->drift_known
		                                         ? "a driver does not tell how much it holds"
		                                         : "not all processes could be looked at");
	return found(f, leak > 0 ? FINDING_PROBLEM : FINDING_OK,
	             "%lld MiB without an owner (from one reading)", MIB_OF(leak));
}

/* Of who asks the kernel knows best. */
static enum doctor_may may_use(const struct doctor *d, const char *name)
{
	char path[PATH_MAX];

	if (!d->root[0] && d->service && d->service->pid == 0)
		return access(name, R_OK | W_OK) == 0 ? DOCTOR_MAY : DOCTOR_MAY_NOT;
	int length = snprintf(path, sizeof path, "%s%s", d->root, name);
	if (!d->service || length < 0 || (size_t)length >= sizeof path)
		return DOCTOR_MAY_UNKNOWN;
	return doctor_may_use(&d->service->rights, path);
}

enum finding_status check_device_rights(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	char name[CARDS_MAX + 1][48] = { "/dev/kfd" }, whose[DOCTOR_WHOSE_BYTES];
	uint32_t names = t->cards.has_kfd ? 1 : 0, unknown = 0;

	for (uint32_t i = 0; i < t->cards.count; i++)
		if (t->cards.card[i].render[0])
			snprintf(name[names++], sizeof name[0], "/dev/dri/%s", t->cards.card[i].render);
	doctor_service_whose(d->service, whose, sizeof whose);
	if (d->service && d->service->rights.known && d->service->rights.uid != 0)
		mend(f, "usermod -aG render,video $(id -nu %u), then log in or start the service anew (lasts)",
		     d->service->rights.uid);
	for (uint32_t i = 0; i < names; i++) {
		enum doctor_may may = may_use(d, name[i]);
		if (may == DOCTOR_MAY_NOT)
			return found(f, FINDING_PROBLEM, "%s may not be opened%s%s", name[i], whose[0] ? " by the user" : "", whose);
		unknown += may == DOCTOR_MAY_UNKNOWN;
	}
	if (unknown > 0 || (names == 0 && d->root[0]))
		return found(f, FINDING_UNKNOWN, "%s%s", d->root[0] ? "a recording does not tell" : "an access list decides, or the user is not known",
		             whose);
	return found(f, FINDING_OK, "all may be opened%s%s", whose[0] ? " by the user" : "", whose);
}

enum finding_status check_nouveau(const struct doctor *d, struct finding *f)
{
	int64_t bytes = d->programs->left_out_bytes;

	if (d->programs->processes == 0)
		return found(f, FINDING_ADVICE, "runs a card");
	return found(f, FINDING_ADVICE, d->programs->gpu_unreadable ? "runs a card; of its memory programs hold %lld MiB or more"
	                                                            : "runs a card; of its memory programs hold %lld MiB",
	             MIB_OF(bytes));
}
