/* Checks of the kernel's memory settings and of what this process may do. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "probe/cgroup.h"
#include "probe/doctor_parts.h"
#include "probe/doctor_service.h"
#include "probe/lines.h"
#include "probe/machine.h"
#include "probe/topology_parts.h"

#define MIB_OF(bytes) ((long long)((bytes) / MIB))

static bool is_unified_nvidia(const struct doctor *d)
{
	for (uint32_t i = 0; i < d->topology->devices; i++)
		if (d->topology->device[i].kind == DEVICE_GB10)
			return true;
	return false;
}

enum finding_status check_swap(const struct doctor *d, struct finding *f)
{
	const struct meminfo *m = &d->topology->mem;
	int64_t zram = doctor_zram_bytes(d), used = m->swap_total - m->swap_free;

	if (m->swap_total < 0 || m->swap_free < 0)
		return not_known(f);
	if (m->swap_total == 0)
		return found(f, FINDING_OK, "none, which suits a server");
	if (used > m->swap_total / 10 * 8) {
		mend(f, "find who fills it (cotenant memory), unload models; swapoff -a && swapon -a "
		        "empty it (until it fills again)");
		return found(f, FINDING_PROBLEM, "%lld of %lld MiB used", MIB_OF(used),
		             MIB_OF(m->swap_total));
	}
	if (zram > m->total / 5) {
		mend(f, "zram-size = ram / 6 in /etc/systemd/zram-generator.conf (lasts)");
		return found(f, FINDING_ADVICE, "zram of %lld MiB, more than a fifth of the RAM",
		             MIB_OF(zram));
	}
	if (is_unified_nvidia(d) && m->swap_total > 16 * GIB) {
		mend(f, "a swap file of at most 16 GiB in /etc/fstab (lasts)");
		return found(f, FINDING_ADVICE, "%lld MiB: thrashing precedes a wedged driver",
		             MIB_OF(m->swap_total));
	}
	return found(f, FINDING_OK, "%lld of %lld MiB used", MIB_OF(used), MIB_OF(m->swap_total));
}

enum finding_status check_swappiness(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/swappiness");
	int64_t zram_bytes = doctor_zram_bytes(d);
	bool zram = zram_bytes > 0;

	if (value < 0 || d->topology->mem.swap_total < 0 || (zram_bytes < 0 && d->topology->mem.swap_total > 0))
		return not_known(f);
	bool good = d->topology->mem.swap_total == 0 ||
	            (zram ? value >= 100 && value <= 150 : value >= 10 && value <= 30);
	mend(f, SYSCTL("swappiness", "%d"), zram ? 120 : 20);
	return found(f, good ? FINDING_OK : FINDING_ADVICE, "%lld %s", (long long)value,
	             d->topology->mem.swap_total == 0 ? "and no swap"
	             : zram                           ? "with zram"
	                                              : "with a disk");
}

enum finding_status check_min_free(const struct doctor *d, struct finding *f)
{
	int64_t kib = doctor_number(d, "/proc/sys/vm/min_free_kbytes"),
	        total = d->topology->mem.total;

	if (kib < 0)
		return not_known(f);
	int64_t bytes = kib * 1024;
	bool low = total >= 60 * GIB && bytes<total / 500, high = bytes> total / 50;
	mend(f, SYSCTL("min_free_kbytes", "%d"), total >= 60 * GIB ? 524288 : 67584);
	return found(f, low || high ? FINDING_ADVICE : FINDING_OK, "%lld MiB", MIB_OF(bytes));
}

enum finding_status check_watermark_scale(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/watermark_scale_factor");

	return value < 0 ? not_known(f)
	                 : found(f, value < 50 ? FINDING_ADVICE : FINDING_OK, "%lld",
	                         (long long)value);
}

enum finding_status check_watermark_boost(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/watermark_boost_factor");

	return value < 0 ? not_known(f)
	                 : found(f, value >= 15000 ? FINDING_ADVICE : FINDING_OK, "%lld",
	                         (long long)value);
}

/* The word in brackets of "always [madvise] never". */
static bool chosen(const struct doctor *d, const char *name, char *out, size_t size)
{
	char text[128];

	if (!doctor_text(d, name, text, sizeof text))
		return false;
	const char *open = strchr(text, '[');
	const char *close = open ? strchr(open, ']') : NULL;
	if (!close)
		return false;
	return str_copy(out, size, (struct str){ open + 1, (size_t)(close - open - 1) });
}

static enum finding_status not_always(const struct doctor *d, struct finding *f, const char *name)
{
	char word[32];

	if (!chosen(d, name, word, sizeof word))
		return not_known(f);
	return found(f, strcmp(word, "always") == 0 ? FINDING_ADVICE : FINDING_OK, "%s", word);
}

enum finding_status check_thp(const struct doctor *d, struct finding *f)
{
	return not_always(d, f, "/sys/kernel/mm/transparent_hugepage/enabled");
}

enum finding_status check_thp_defrag(const struct doctor *d, struct finding *f)
{
	return not_always(d, f, "/sys/kernel/mm/transparent_hugepage/defrag");
}

enum finding_status check_proactive(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/compaction_proactiveness");
	int64_t locked = d->topology->mem.mlocked;

	if (value < 0 || (doctor_apu(d) && value > 0 && locked < 0))
		return not_known(f);
	if (!doctor_apu(d))
		return found(f, value < 20 || value > 40 ? FINDING_ADVICE : FINDING_OK, "%lld", (long long)value);
	want(f, "0 with weights that are locked or shared with the GPU (SVM)");
	mend(f, SYSCTL("compaction_proactiveness", "0"));
	return found(f, value > 0 && locked > GIB ? FINDING_ADVICE : FINDING_OK, locked < 0 ? "%lld" : "%lld, %lld MiB locked",
	             (long long)value, MIB_OF(locked));
}

enum finding_status check_unevictable(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/compact_unevictable_allowed");
	int64_t locked = d->topology->mem.mlocked;

	if (value < 0 || (value == 1 && locked < 0))
		return not_known(f);
	return found(f, value == 1 && locked > GIB ? FINDING_ADVICE : FINDING_OK, locked < 0 ? "%lld" : "%lld, %lld MiB locked",
	             (long long)value, MIB_OF(locked));
}

enum finding_status check_overcommit(const struct doctor *d, struct finding *f)
{
	int64_t value = doctor_number(d, "/proc/sys/vm/overcommit_memory");

	return value < 0 ? not_known(f)
	                 : found(f, value == 2 ? FINDING_PROBLEM : FINDING_OK, "%lld",
	                         (long long)value);
}

enum finding_status check_huge_pages(const struct doctor *d, struct finding *f)
{
	const struct meminfo *m = &d->topology->mem;

	if (m->huge_pages < 0 || m->hugetlb < 0)
		return not_known(f);
	return found(f, m->huge_pages > 0 ? FINDING_ADVICE : FINDING_OK, "%lld pages, %lld MiB",
	             (long long)m->huge_pages, MIB_OF(m->hugetlb));
}

enum finding_status check_tmpfs(const struct doctor *d, struct finding *f)
{
	int64_t bytes = d->topology->mem.shmem;

	if (bytes < 0)
		return not_known(f);
	return found(f, bytes > 4 * GIB ? FINDING_ADVICE : FINDING_OK, "%lld MiB of shared memory",
	             MIB_OF(bytes));
}

enum finding_status check_memlock(const struct doctor *d, struct finding *f)
{
	char text[96], file[48], whose[DOCTOR_WHOSE_BYTES];
	int64_t bytes;

	doctor_service_file(d->service, "limits", file, sizeof file);
	doctor_service_whose(d->service, whose, sizeof whose);
	if (!doctor_line(d, file, "Max locked memory", text, sizeof text))
		return not_known(f);
	if (str_starts(str_from(text), "unlimited"))
		return found(f, FINDING_OK, "unlimited%s", whose);
	if (!lines_number(str_from(text), &bytes, NULL))
		return not_known(f);
	return found(f, FINDING_ADVICE, "%lld MiB%s", MIB_OF(bytes), whose);
}

enum finding_status check_psi(const struct doctor *d, struct finding *f)
{
	int64_t some, full;

	machine_read_psi(NULL, d->root, "/proc/pressure/memory", &some, &full);
	bool there = some >= 0;
	return found(f,
	             there        ? FINDING_OK
	             : d->root[0] ? FINDING_UNKNOWN
	                          : FINDING_ADVICE,
	             there ? "can be read" : "cannot be read");
}

enum finding_status check_cgroup(const struct doctor *d, struct finding *f)
{
	struct cgroup_mounts *mounts = xmalloc(sizeof *mounts);

	cgroup_find_mounts(d->root, mounts);
	bool v1 = mounts->v1_memory[0], v2 = mounts->v2[0];
	free(mounts);
	if (v1)
		return found(f, FINDING_ADVICE,
		             v2 ? "hybrid: memory is on version 1" : "version 1");
	return v2 ? found(f, FINDING_OK, "version 2") : not_known(f);
}

enum finding_status check_oom_daemons(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "systemd-oomd", "earlyoom", "nohang", "oomd" };

	if (d->programs->processes == 0)
		return found(f, FINDING_UNKNOWN, "no processes were seen");
	for (uint32_t i = 0; i < d->programs->count; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			if (strcmp(d->programs->list[i].name, names[j]) == 0)
				return found(f, FINDING_ADVICE, "%s runs", names[j]);
	return found(f, FINDING_OK, "none runs");
}

/* Where kernel.dmesg_restrict is off it takes no privilege. */
static bool may_read_log(const struct doctor *d)
{
	int fd = d->root[0] ? -1 : open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool has_xe(const struct doctor *d)
{
	for (uint32_t i = 0; i < d->topology->cards.count; i++)
		if (d->topology->cards.card[i].driver == CARD_XE)
			return true;
	return false;
}

enum finding_status check_privileges(const struct doctor *d, struct finding *f)
{
	enum { SYSLOG = 34, PERFMON = 38 };
	static const struct {
		int bit;
		const char *name, *what;
	} wanted[] = {
		{ PERFMON, "PERFMON", "how much xe's GPUs hold is not told" },
		{ 23, "SYS_NICE", "other processes' pages cannot be dropped" },
		{ 19, "SYS_PTRACE", "other users' GPU memory is not seen" },
		{ 24, "SYS_RESOURCE", "oom_score_adj cannot be lowered" },
		{ SYSLOG, "SYSLOG", "the kernel's OOM lines are not seen" },
	};
	char text[32], file[48], whose[DOCTOR_WHOSE_BYTES], missing[280] = "", names[96] = "";

	doctor_service_file(d->service, "status", file, sizeof file);
	doctor_service_whose(d->service, whose, sizeof whose);
	if (!doctor_line(d, file, "CapEff:", text, sizeof text))
		return not_known(f);
	char *end;
	uint64_t caps = strtoull(text, &end, 16);
	if (end == text || *end)
		return not_known(f);
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		size_t length = strlen(missing);
		if (wanted[i].bit == SYSLOG && may_read_log(d))
			continue;
		if (wanted[i].bit == PERFMON && !has_xe(d))
			continue;
		if (caps >> wanted[i].bit & 1)
			continue;
		snprintf(missing + length, sizeof missing - length, "%s%s (%s)", length ? ", " : "", wanted[i].name, wanted[i].what);
		snprintf(names + strlen(names), sizeof names - strlen(names), " CAP_%s", wanted[i].name);
	}
	mend(f, "in the service's [Service]: AmbientCapabilities=%s (lasts)", names[0] ? names + 1 : "");
	return missing[0] ? found(f, FINDING_ADVICE, "missing%s: %s", whose, missing)
	                  : found(f, FINDING_OK, "all there%s", whose);
}

enum finding_status check_fragmentation(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	char text[32];
	int64_t stall = -1, fail = -1;

	if (doctor_line(d, "/proc/vmstat", "compact_stall ", text, sizeof text))
		lines_number(str_from(text), &stall, NULL);
	if (doctor_line(d, "/proc/vmstat", "compact_fail ", text, sizeof text))
		lines_number(str_from(text), &fail, NULL);
	bool counted = stall >= 0 && fail >= 0;
	if (t->free_2m_bytes < 0)
		return not_known(f);
	/* Where little is free the page cache has it, which is no matter but to a driver that takes free blocks alone. */
	bool matters = t->mem.free > 2 * GIB || is_unified_nvidia(d);
	bool broken = t->mem.available > 4 * GIB && matters &&
	              (t->free_2m_bytes < GIB || t->free_2m_bytes < t->mem.free / 10);
	bool failing = stall > 1000 && fail > stall / 10 * 4;
	enum finding_status bad = is_unified_nvidia(d) && broken ? FINDING_PROBLEM : FINDING_ADVICE;
	return found(f, broken || failing ? bad : FINDING_OK,
	             counted ? "%lld of %lld MiB free in blocks of 2 MiB; %lld compactions, %lld failed"
	                     : "%lld of %lld MiB free in blocks of 2 MiB; compactions are not told",
	             MIB_OF(t->free_2m_bytes), MIB_OF(t->mem.free), (long long)stall,
	             (long long)fail);
}

enum finding_status check_baseline(const struct doctor *d, struct finding *f)
{
	const struct topology *t = d->topology;
	int64_t used = t->mem.total - t->mem.available;
	const struct program *top = d->programs->count ? &d->programs->list[0] : NULL;

	if (used <= t->mem.total / 10)
		return found(f, FINDING_OK, "%lld MiB in use", MIB_OF(used));
	if (!top)
		return found(f, FINDING_ADVICE, "%lld MiB in use", MIB_OF(used));
	int64_t its = program_ram_bytes(top);
	return found(f, FINDING_ADVICE,
	             its > used / 2 ? "%lld MiB in use, most of it by %s (%lld MiB)"
	                            : "%lld MiB in use; of programs %s has most (%lld MiB)",
	             MIB_OF(used), top->name, MIB_OF(its));
}

enum finding_status check_tuned(const struct doctor *d, struct finding *f)
{
	char text[64];

	if (!doctor_text(d, "/etc/tuned/active_profile", text, sizeof text))
		return found(f, FINDING_UNKNOWN, "no tuned");
	return found(f, strcmp(text, "accelerator-performance") == 0 ? FINDING_OK : FINDING_ADVICE,
	             "%s", text);
}
