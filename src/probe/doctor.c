#include "probe/doctor_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe/lines.h"

/* Where a check applies. */
enum {
	AMD_APU = 1,
	GB10 = 2,
	JETSON = 4,
	INTEL = 8,
	CARD = 16,
	NVIDIA_CARD = 32, /* beside CARD */
	ANY_GPU = AMD_APU | GB10 | JETSON | INTEL | CARD,
	EVERYWHERE = 128,
	COUNTED = 256, /* what /proc/meminfo tells is judged */
	WSL = 512,
	NO_AMD_APU = 1024,
	NOUVEAU = 2048,
};

struct check {
	const char *id;
	uint32_t where;
	uint32_t weight;
	doctor_check *judge;
	const char *wanted;
	const char *why;
	const char *fix;
};

/* A line in a file of its own, read at each boot and now; what two of them name, the second would overwrite. */
#define BOOT_FILE(file, value, key)                                                                                 \
	"echo 'w " file " - - - - " value "' > /etc/tmpfiles.d/90-cotenant-" key ".conf; systemd-tmpfiles --create (lasts)"
#define ENVIRONMENT(name) "take " name " out of the env: in cotenant.yaml and out of the service's Environment= (lasts)"

static const struct check checks[] = {
	{ "inputs", EVERYWHERE, 88, check_inputs, "every file that the readings stand on can be read",
	  "what is not known cannot be counted",
	  "look at the file as the service's user (ls -l, cat); in a container mount /proc, /sys and the control groups as "
	  "they are (lasts while it is started so)" },
	{ "kernel", AMD_APU, 70, check_kernel, "6.18.4 or newer",
	  "before 6.10 ROCm sees the carve-out only; before 6.18.4 gfx1151 is unstable",
	  "install a newer kernel (lasts)" },
	{ "firmware", AMD_APU, 75, check_firmware, "any but MES 0x83",
	  "that version, of linux-firmware 20251125, hangs the GPU or ends in memory access faults",
	  "install a newer linux-firmware (Debian: firmware-amd-graphics, Fedora: amd-gpu-firmware), or 20251111; "
	  "reboot (lasts)" },
	{ "kernel", NO_AMD_APU, 10, check_release, "any", "which counters there are, and what they mean, depends on it", "" },
	{ "wsl", WSL, 30, check_wsl, "Linux itself",
	  "under WSL the memory belongs to Windows, which takes it back and counts it otherwise",
	  "set memory= in %UserProfile%\\.wslconfig (lasts)" },
	{ "carveout", AMD_APU, 80, check_carveout, "512 MB while ROCm uses GTT",
	  "a carve-out is RAM that neither the system nor ROCm in GTT mode can use",
	  "set the UMA frame buffer to its least in the firmware, or write it to "
	  "/sys/class/drm/card0/device/uma/carveout (lasts, from the next boot on)" },
	{ "rocm_pool", AMD_APU, 60, check_rocm_pool, "KFD's bank is pages_limit or the carve-out",
	  "KFD builds its view at boot: a limit changed since then makes ROCm say more is free "
	  "than there is",
	  "reboot (lasts until pages_limit is changed while the system runs)" },
	{ "pages_limit", AMD_APU, 75, check_pages_limit, "60 % of the RAM up to the RAM less 8 GiB",
	  "TTM's limit is what the GPU may map of the RAM; the default is a half", "" },
	{ "gttsize", AMD_APU, 40, check_gttsize, "not on the kernel's command line",
	  "amdgpu.gttsize is deprecated and decides silently which pool ROCm uses; misspelt names "
	  "are ignored",
	  "remove it from GRUB_CMDLINE_LINUX, use ttm.pages_limit, update-grub, reboot (lasts)" },
	{ "page_pool_size", AMD_APU, 30, check_page_pool, "at most 16-24 GiB with Vulkan engines",
	  "TTM keeps that much write-combined memory after its users are gone",
	  "ttm.page_pool_size=4194304 on the kernel's command line (lasts)" },
	{ "system_mem_limit", AMD_APU, 95, check_system_mem_limit, "off",
	  "it removes the last guard before the OOM killer",
	  "remove amdgpu.no_system_mem_limit from the kernel's command line, reboot (lasts)" },
	{ "iommu", AMD_APU, 10, check_iommu, "iommu=pt, or amd_iommu=off where no NPU is used",
	  "translation costs the GPU 5-12 % of its speed",
	  "add iommu=pt to the kernel's command line (lasts)" },
	{ "gtt_over_ram", AMD_APU | CARD, 35, check_gtt_over_ram, "GTT at most the RAM",
	  "kernels before the cap of 2026-07 let GTT exceed the RAM; tools then show memory that "
	  "is not there",
	  "update the kernel; lower ttm.pages_limit (lasts)" },
	{ "nvidia_driver", GB10, 50, check_nvidia_driver, "580 or newer",
	  "older drivers keep pages of unified memory", "install the newer driver (lasts)" },
	{ "nvidia_settings", GB10 | NVIDIA_CARD, 30, check_nvidia_settings,
	  "what /etc/modprobe.d asks for",
	  "options of the module count from its next load on, and it is loaded from the initial RAM disk",
	  "update-initramfs -u (or dracut -f), reboot (lasts)" },
	{ "nouveau", NOUVEAU, 60, check_nouveau, "NVIDIA's own driver, for models",
	  "nouveau tells neither how much memory its card has nor how much is used, and no CUDA runs on it: the card is left "
	  "out",
	  "install NVIDIA's driver (Debian: nvidia-driver), reboot (lasts)" },
	{ "xe_region", INTEL, 55, check_xe_region, "the GPU may map 90 % of the RAM",
	  "older xe drivers allow half", "use kernel 6.15 or newer (lasts)" },
	{ "vendor_values", ANY_GPU, 20, check_vendor_values,
	  "vendors' numbers agree with the machine's",
	  "on unified memory they tell caps or MemFree; cotenant uses MemTotal - U - reserve and "
	  "the drivers' caps",
	  "" },
	{ "gpu_orphans", ANY_GPU, 90, check_orphans, "all GPU memory has an owner",
	  "memory that no process holds comes back by a reboot only",
	  "end what uses the GPU; if it stays, reboot (until the driver loses some again)" },
	{ "device_rights", AMD_APU | CARD | INTEL, 65, check_device_rights,
	  "/dev/kfd and /dev/dri/renderD* may be opened", "engines run as this user",
	  "usermod -aG render,video USER, then log in anew (lasts)" },
	{ "largest_free_block", JETSON, 60, check_lfb, "64 blocks of 4 MiB or more",
	  "NvMap takes large buffers in such blocks",
	  "sync; echo 1 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory (until it "
	  "fragments again)" },
	{ "l4t", JETSON, 65, check_l4t, "any but 36.4.7",
	  "that release refuses single buffers of about 1 GiB and more",
	  "update it: apt update && apt dist-upgrade, reboot (lasts)" },
	{ "jetson_zram", JETSON, 30, check_jetson_zram, "none with large models",
	  "what is compressed into it is RAM that the GPU cannot have",
	  "systemctl disable nvzramconfig; reboot (lasts)" },
	{ "jetson_clocks", JETSON, 10, check_jetson_clocks, "off with large models",
	  "clocks that are held at their highest leave the board no power for the moments in which a large model needs it",
	  "jetson_clocks --restore; systemctl disable jetson_clocks, where a service starts it (lasts)" },
	{ "desktop", JETSON, 25, check_desktop, "none", "it holds memory that models could have",
	  "systemctl set-default multi-user.target; reboot (lasts)" },
	{ "cma", JETSON, 15, check_cma, "little memory in CMA",
	  "CMA's free pages look available, but drivers cannot have them",
	  "cma=64M on the kernel's command line (lasts)" },
	{ "swap", EVERYWHERE | COUNTED, 70, check_swap,
	  "some on desktops; zram at most 20 % of the RAM and not full",
	  "GPU pages cannot be swapped, and a full zram froze machines with memory to spare", "" },
	{ "swappiness", EVERYWHERE | COUNTED, 15, check_swappiness, "100-150 with zram, 10-30 with a disk",
	  "how early anonymous pages go out before the page cache",
	  "" },
	{ "min_free", EVERYWHERE | COUNTED, 40, check_min_free, "0.2 % to 2 % of the RAM on large machines",
	  "too little lets drivers' allocations fail, too much hides up to 2.7 times as much from "
	  "MemAvailable",
	  "" },
	{ "watermark_scale", EVERYWHERE, 10, check_watermark_scale, "100",
	  "the kernel starts to reclaim earlier and more evenly",
	  SYSCTL("watermark_scale_factor", "100") },
	{ "watermark_boost", GB10, 10, check_watermark_boost, "0",
	  "fragmented kernels boost the watermarks and reclaim what is needed",
	  SYSCTL("watermark_boost_factor", "0") },
	{ "thp", EVERYWHERE, 25, check_thp, "madvise",
	  "`always` can stall allocations for compaction",
	  BOOT_FILE("/sys/kernel/mm/transparent_hugepage/enabled", "madvise", "thp") },
	{ "thp_defrag", EVERYWHERE, 30, check_thp_defrag, "not always",
	  "every page fault may compact memory first",
	  BOOT_FILE("/sys/kernel/mm/transparent_hugepage/defrag", "madvise", "thp-defrag") },
	{ "compaction_proactiveness", GB10 | JETSON | AMD_APU, 15, check_proactive, "20-40",
	  "it keeps large blocks at hand, which NVIDIA's driver needs; moving what an AMD GPU reads pauses its queues",
	  SYSCTL("compaction_proactiveness", "30") },
	{ "compact_unevictable", AMD_APU, 45, check_unevictable, "0 with locked weights",
	  "compaction moves locked weights and pauses the GPU's queues meanwhile",
	  SYSCTL("compact_unevictable_allowed", "0") },
	{ "overcommit", EVERYWHERE, 85, check_overcommit, "0 or 1",
	  "engines reserve large ranges that they never touch; with 2 they cannot start",
	  SYSCTL("overcommit_memory", "0") },
	{ "huge_pages", EVERYWHERE | COUNTED, 60, check_huge_pages, "none set aside",
	  "memory in the pool of huge pages is lost to engines that do not ask for it",
	  "sysctl vm.nr_hugepages=0; remove it from /etc/sysctl.d and the kernel's command line "
	  "(then lasts)" },
	{ "tmpfs", EVERYWHERE | COUNTED, 35, check_tmpfs, "at most 4 GiB of shared memory",
	  "files in /tmp and /dev/shm are memory that cannot be dropped; each may take half of the "
	  "RAM",
	  "mount -o remount,size=4G /tmp (in /etc/fstab it lasts); containers: shm_size" },
	{ "memlock", EVERYWHERE, 25, check_memlock, "unlimited",
	  "ROCm, vLLM, NPUs and --mlock pin memory",
	  "LimitMEMLOCK=infinity in the service; `* - memlock unlimited` in /etc/security/limits.d "
	  "(lasts)" },
	{ "psi", EVERYWHERE, 50, check_psi, "/proc/pressure/memory can be read",
	  "without it pressure is seen late", "psi=1 on the kernel's command line (lasts)" },
	{ "cgroup", EVERYWHERE, 20, check_cgroup, "version 2 with memory",
	  "only there an engine's own OOM is told for certain; MemoryMax does not bound GPU memory "
	  "anywhere",
	  "systemd.unified_cgroup_hierarchy=1 on the kernel's command line (lasts)" },
	{ "oom_daemons", EVERYWHERE, 30, check_oom_daemons, "protect the daemon from them",
	  "systemd-oomd and earlyoom do not see GPU memory and kill the wrong one",
	  "ManagedOOMPreference=avoid in the service; earlyoom --avoid cotenant -m 2 (lasts)" },
	{ "privileges", EVERYWHERE, 20, check_privileges,
	  "CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_SYS_RESOURCE, CAP_SYSLOG",
	  "each missing one takes something away", "AmbientCapabilities= in the service (lasts)" },
	{ "fragmentation", EVERYWHERE | COUNTED, 65, check_fragmentation,
	  "a tenth of the free memory in blocks of 2 MiB, and most compactions done",
	  "drivers of unified memory need large blocks; the others slow down",
	  "as root: cotenant memory --compact (idle models leave for it and come back; the daemon does "
	  "so by itself at night: memory.compact). If that does not help: unload all, again, then reboot (until it breaks up again)" },
	{ "baseline", EVERYWHERE | COUNTED, 25, check_baseline, "at most 10 % in use with nothing loaded",
	  "what others hold is not there for models",
	  "end what is not needed; log out of the desktop (until they start again)" },
	{ "unified_memory_env", AMD_APU | CARD, 55, check_unified_env,
	  "GGML_CUDA_ENABLE_UNIFIED_MEMORY unset",
	  "even 0 switches it on: memory is then counted elsewhere, on cards more is said to be "
	  "free than there is",
	  ENVIRONMENT("GGML_CUDA_ENABLE_UNIFIED_MEMORY") },
	{ "hsa_override", AMD_APU, 35, check_hsa_override, "HSA_OVERRIDE_GFX_VERSION unset",
	  "needed only by a ROCm that does not know the GPU; a wrong value ends on the CPU or in a "
	  "crash",
	  ENVIRONMENT("HSA_OVERRIDE_GFX_VERSION") },
	{ "hsa_caps", AMD_APU, 15, check_hsa_caps, "HSA_XNACK and GPU_*_PERCENT unset",
	  "they cannot lift pages_limit, only lower what may be used", ENVIRONMENT("them") },
	{ "torch_alloc", AMD_APU | GB10, 15, check_torch_conf,
	  "expandable_segments for single models only", "it helps some and hangs others",
	  "set it in the env: of that model alone, in cotenant.yaml (lasts)" },
	{ "vllm", AMD_APU | GB10 | JETSON, 40, check_vllm, "--gpu-memory-utilization of at most 0.85",
	  "vLLM takes its share of the whole memory at once, and here that is the system's too; the default is 0.9",
	  "start it with --gpu-memory-utilization 0.8, or --kv-cache-memory-bytes and what the cache needs (lasts where its unit "
	  "or the model's args: say so)" },
	{ "ray", GB10, 10, check_ray, "RAY_memory_monitor_refresh_ms=0 with vLLM",
	  "Ray kills workers by its own idea of memory; also use --gpu-memory-utilization of at "
	  "most 0.85",
	  "RAY_memory_monitor_refresh_ms: \"0\" in the model's env:, in cotenant.yaml (lasts)" },
	{ "tuned", EVERYWHERE, 5, check_tuned, "accelerator-performance", "5-8 % more prompt speed",
	  "tuned-adm profile accelerator-performance (lasts)" },
};

#define CHECKS (sizeof checks / sizeof checks[0])

enum finding_status found(struct finding *f, enum finding_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->found, sizeof f->found, format, args);
	va_end(args);
	return status;
}

enum finding_status not_known(struct finding *f)
{
	return found(f, FINDING_UNKNOWN, "cannot be read");
}

enum finding_status check_inputs(const struct doctor *d, struct finding *f)
{
	const struct inputs *inputs = &d->topology->inputs;
	enum finding_status status = FINDING_OK;
	size_t at = 0;

	for (uint32_t i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->list[i];
		char text[2 * INPUT_NAME_BYTES];
		if (!input_is_degraded(input))
			continue;
		if (status == FINDING_OK)
			f->why = input->effect;
		status = input->needed || status == FINDING_PROBLEM ? FINDING_PROBLEM : FINDING_ADVICE;
		snprintf(text, sizeof text, "%s%s is %s", at ? "; " : "", input->name, input_state_name(input->state));
		if (at + strlen(text) < sizeof f->found)
			at += (size_t)snprintf(f->found + at, sizeof f->found - at, "%s", text);
	}
	return status == FINDING_OK ? found(f, status, "all of %u", inputs->count) : status;
}

void want(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->wanted, sizeof f->wanted, format, args);
	va_end(args);
}

void mend(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->fix, sizeof f->fix, format, args);
	va_end(args);
}

bool doctor_text(const struct doctor *doctor, const char *name, char *out, size_t size)
{
	if (lines_read_all(doctor->root, name, out, size) <= 0)
		return false;
	out[strcspn(out, "\n")] = '\0';
	for (char *c = out; *c; c++)
		*c = *c < 0x20 || *c == 0x7f ? '?' : *c;
	return true;
}

int64_t doctor_number(const struct doctor *doctor, const char *name)
{
	char text[64];
	int64_t value;

	if (!doctor_text(doctor, name, text, sizeof text))
		return -1;
	return lines_number(str_from(text), &value, NULL) ? value : -1;
}

bool doctor_line(const struct doctor *doctor, const char *name, const char *start, char *out, size_t size)
{
	struct lines lines;
	struct str line;
	bool there = false;

	if (lines_open(&lines, doctor->root, name) < 0)
		return false;
	while (!there && lines_next(&lines, &line))
		if (str_starts(line, start)) {
			size_t skip = strlen(start);
			str_copy(out, size, str_trim((struct str){ line.data + skip, line.length - skip }));
			there = true;
		}
	lines_close(&lines);
	return there;
}

int64_t doctor_zram_bytes(const struct doctor *doctor)
{
	int64_t sum = 0, bytes;
	char name[48];

	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "/sys/block/zram%d/disksize", i);
		enum input_state state = input_number(doctor->root, name, NULL, &bytes);
		if (state > INPUT_MISSING)
			return -1;
		sum += state == INPUT_OK ? bytes : 0;
	}
	return sum;
}

bool doctor_booted_with(const struct doctor *doctor, const char *word)
{
	char text[4096];

	if (!doctor_text(doctor, "/proc/cmdline", text, sizeof text))
		return false;
	for (struct str rest = str_from(text); rest.data;)
		if (str_starts(str_cut(rest, ' ', &rest), word))
			return true;
	return false;
}

int64_t doctor_kernel(const struct doctor *doctor, char *text, size_t size)
{
	int64_t version = 0, part;

	if (!doctor_text(doctor, "/proc/sys/kernel/osrelease", text, size))
		return 0;
	struct str rest = str_from(text);
	for (int i = 0; i < 3; i++) {
		part = 0;
		if (rest.length && lines_number(rest, &part, &rest) && rest.length &&
		    rest.data[0] == '.')
			rest = (struct str){ rest.data + 1, rest.length - 1 };
		else
			rest = (struct str){ "", 0 };
		version = version * 1000 + (part < 1000 ? part : 999);
	}
	return version;
}

bool doctor_is_wsl(const struct doctor *doctor)
{
	char text[64];

	return doctor_kernel(doctor, text, sizeof text) > 0 && (strstr(text, "icrosoft") || strstr(text, "WSL"));
}

const struct card *doctor_apu(const struct doctor *doctor)
{
	const struct topology *t = doctor->topology;

	for (uint32_t i = 0; i < t->devices; i++)
		if ((t->device[i].kind == DEVICE_AMD_GTT ||
		     t->device[i].kind == DEVICE_AMD_CARVEOUT) &&
		    t->device[i].card < t->cards.count)
			return &t->cards.card[t->device[i].card];
	return NULL;
}

static uint32_t places_of(const struct doctor *doctor)
{
	const struct topology *t = doctor->topology;
	static const uint32_t places[] = {
		[DEVICE_AMD_GTT] = AMD_APU,  [DEVICE_AMD_CARVEOUT] = AMD_APU,
		[DEVICE_AMD_CARD] = CARD,    [DEVICE_GB10] = GB10,
		[DEVICE_JETSON] = JETSON,    [DEVICE_GH200] = CARD | NVIDIA_CARD,
		[DEVICE_NVIDIA_CARD] = CARD | NVIDIA_CARD,
		[DEVICE_INTEL_IGPU] = INTEL, [DEVICE_INTEL_CARD] = INTEL,
	};
	uint32_t mask = EVERYWHERE;

	for (uint32_t i = 0; i < t->devices; i++)
		mask |= places[t->device[i].kind];
	if (topology_has_nouveau(t))
		mask |= NOUVEAU;
	return mask | (mask & AMD_APU ? 0 : NO_AMD_APU) | (doctor_is_wsl(doctor) ? WSL : 0);
}

void doctor_examine(const char *root, const struct topology *topology, const struct programs *programs,
                    const struct doctor_service *service, struct findings *out)
{
	const struct doctor doctor = { root, topology, programs, service };
	uint32_t places = places_of(&doctor);

	out->count = 0;
	for (size_t i = 0; i < CHECKS && out->count < FINDINGS_MAX; i++) {
		const struct check *check = &checks[i];
		if (!(check->where & places & ~COUNTED))
			continue;
		struct finding *f = &out->list[out->count++];
		*f = (struct finding){ .id = check->id,
			               .weight = check->weight,
			               .why = check->why };
		want(f, "%s", check->wanted);
		mend(f, "%s", check->fix);
		bool known = topology_knows_ram(topology) || !(check->where & COUNTED);
		f->status = known ? check->judge(&doctor, f) : not_known(f);
		if (f->status == FINDING_OK)
			f->fix[0] = '\0';
	}
}

const char *finding_status_name(enum finding_status status)
{
	static const char *const names[] = { "ok", "advice", "problem", "unknown" };

	return names[status];
}

static uint32_t rank(const struct finding *f)
{
	if (f->status == FINDING_PROBLEM)
		return 1000 + f->weight;
	return f->status == FINDING_ADVICE ? 1 + f->weight : 0;
}

uint32_t doctor_foremost(const struct findings *findings, uint32_t *out, uint32_t most)
{
	bool taken[FINDINGS_MAX] = { false };
	uint32_t count = 0;

	for (; count < most; count++) {
		uint32_t best = FINDINGS_MAX;
		for (uint32_t i = 0; i < findings->count; i++)
			if (!taken[i] && rank(&findings->list[i]) > 0 &&
			    (best == FINDINGS_MAX ||
			     rank(&findings->list[i]) > rank(&findings->list[best])))
				best = i;
		if (best == FINDINGS_MAX)
			break;
		taken[best] = true;
		out[count] = best;
	}
	return count;
}
