#include "probe/recording.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "probe/lines.h"

enum { FILE_MOST = 1 << 20, PROCESS_LEAST_KIB = 16 << 10, NODES = 64 };

/* Files that hold nothing of a person. */
static const char *const whole[] = {
	"/proc/meminfo",
	"/proc/zoneinfo",
	"/proc/buddyinfo",
	"/proc/pressure/memory",
	"/proc/sys/kernel/osrelease",
	"/proc/sys/vm/swappiness",
	"/proc/sys/vm/min_free_kbytes",
	"/proc/sys/vm/watermark_scale_factor",
	"/proc/sys/vm/watermark_boost_factor",
	"/proc/sys/vm/compaction_proactiveness",
	"/proc/sys/vm/compact_unevictable_allowed",
	"/proc/sys/vm/overcommit_memory",
	"/proc/device-tree/compatible",
	"/proc/driver/nvidia/version",
	"/proc/driver/nvidia/params",
	"/etc/nv_tegra_release",
	"/sys/module/nvidia/version",
	"/sys/module/ttm/parameters/pages_limit",
	"/sys/module/ttm/parameters/page_pool_size",
	"/sys/module/amdttm/parameters/pages_limit",
	"/sys/module/amdgpu/parameters/no_system_mem_limit",
	"/sys/kernel/mm/transparent_hugepage/enabled",
	"/sys/kernel/mm/transparent_hugepage/defrag",
	"/sys/kernel/debug/ttm/page_pool",
	"/sys/block/zram0/disksize",
	"/sys/block/zram1/disksize",
};

/* Of these only the lines that start so. */
static const struct part {
	const char *file;
	const char *starts[12];
} parts[] = {
	{ "/proc/vmstat",
	  { "nr_zspages ", "oom_kill ", "compact_stall ", "compact_fail ", "nr_free_pages ",
	    "workingset_refault" } },
	{ "/proc/self/status", { "CapEff:" } },
	{ "/proc/self/limits", { "Max locked memory" } },
	{ "/proc/cpuinfo", { "vendor_id", "CPU implementer" } },
};

static const char *const card_files[] = { "vendor",
	                                  "device",
	                                  "power/runtime_status",
	                                  "fw_version/mes_fw_version",
	                                  "mem_info_vram_total",
	                                  "mem_info_vis_vram_total",
	                                  "mem_info_vram_used",
	                                  "mem_info_gtt_total",
	                                  "mem_info_gtt_used" };

/* Words of the kernel's command line that decide about memory; the others may name disks and hosts.
 */
static const char *const boot_words[] = { "amdgpu.",      "ttm.",
	                                  "amd_iommu=",   "iommu=",
	                                  "intel_iommu=", "nvidia",
	                                  "xe.",          "i915.",
	                                  "psi=",         "transparent_hugepage=",
	                                  "hugepages=",   "hugepagesz=",
	                                  "cma=",         "systemd.unified_cgroup_hierarchy=",
	                                  "mem=" };

struct recording {
	const char *folder;
	struct err *err;
	int code; /* of the first failure */
};

/* Make the folders of `path` below the first `from` bytes. */
static void make_folders(char *path, size_t from)
{
	for (char *slash = strchr(path + from, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (*path)
			mkdir(path, 0700);
		*slash = '/';
	}
}

static void put(struct recording *recording, const char *name, struct str text)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof path, "%s%s", recording->folder, name);

	if (recording->code < 0)
		return;
	if (length < 0 || (size_t)length >= sizeof path) {
		recording->code = err_set(recording->err, -ENAMETOOLONG, "%s: the path is too long",
		                          recording->folder);
		return;
	}
	make_folders(path, 0);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t written = fd < 0 ? -1 : write(fd, text.data, text.length);
	if (written != (ssize_t)text.length)
		recording->code = err_set(recording->err, fd < 0 ? -errno : -EIO, "%s: %s", path,
		                          fd < 0 ? strerror(errno) : "cannot be written whole");
	if (fd >= 0)
		close(fd);
}

static void copy_whole(struct recording *recording, const char *name)
{
	char *text = xmalloc(FILE_MOST);
	int length = lines_read_all("", name, text, FILE_MOST);

	if (length > 0)
		put(recording, name, (struct str){ text, (size_t)length });
	free(text);
}

static bool starts_with_any(struct str line, const char *const *starts, size_t count)
{
	for (size_t i = 0; i < count && starts[i]; i++)
		if (str_starts(line, starts[i]))
			return true;
	return false;
}

/* The lines that start so, each start once where `first` is set. False where there is no such line.
 */
static bool collect(const char *name, const char *const *starts, size_t count, struct buf *out)
{
	struct lines lines;
	struct str line;

	if (lines_open(&lines, "", name) < 0)
		return false;
	while (lines_next(&lines, &line) && buf_length(out) < FILE_MOST)
		if (starts_with_any(line, starts, count)) {
			buf_append_str(out, line);
			buf_append_char(out, '\n');
		}
	lines_close(&lines);
	return buf_length(out) > 0;
}

static void copy_lines(struct recording *recording, const char *name, const char *const *starts,
                       size_t count)
{
	struct buf out = BUF_INIT;

	if (collect(name, starts, count, &out))
		put(recording, name, buf_str(&out));
	buf_release(&out);
}

/* Of all files of options one: their names, and what stands beside, are nobody's business. */
static void copy_module_options(struct recording *recording)
{
	static const char *const wanted[] = { "options nvidia " };
	char path[PATH_MAX];
	struct buf out = BUF_INIT;
	struct dirent *entry;
	DIR *folder = opendir("/etc/modprobe.d");

	while (folder && (entry = readdir(folder))) {
		snprintf(path, sizeof path, "/etc/modprobe.d/%s", entry->d_name);
		if (str_ends(str_from(entry->d_name), ".conf"))
			collect(path, wanted, 1, &out);
	}
	if (folder)
		closedir(folder);
	if (buf_length(&out) > 0)
		put(recording, "/etc/modprobe.d/recorded.conf", buf_str(&out));
	buf_release(&out);
}

static void copy_boot_words(struct recording *recording)
{
	char text[4096];
	struct buf out = BUF_INIT;

	if (lines_read_all("", "/proc/cmdline", text, sizeof text) <= 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	for (struct str rest = str_from(text); rest.data;) {
		struct str word = str_cut(rest, ' ', &rest);
		if (!starts_with_any(word, boot_words, sizeof boot_words / sizeof boot_words[0]))
			continue;
		buf_append_str(&out, word);
		buf_append_char(&out, ' ');
	}
	buf_append_char(&out, '\n');
	put(recording, "/proc/cmdline", buf_str(&out));
	buf_release(&out);
}

/* ---- devices ---- */

static void copy_card(struct recording *recording, const char *card)
{
	static const char *const uevent[] = { "DRIVER=", "PCI_SLOT_NAME=" };
	char name[160];

	for (size_t i = 0; i < sizeof card_files / sizeof card_files[0]; i++) {
		snprintf(name, sizeof name, "/sys/class/drm/%s/device/%s", card, card_files[i]);
		copy_whole(recording, name);
	}
	snprintf(name, sizeof name, "/sys/class/drm/%s/device/uevent", card);
	copy_lines(recording, name, uevent, sizeof uevent / sizeof uevent[0]);
}

static void copy_nodes(struct recording *recording)
{
	static const char *const wanted[] = { "cpu_cores_count ", "simd_count ", "device_id ",
		                              "drm_render_minor " };
	static const char *const files[] = { "gpu_id", "mem_banks/0/properties" };
	char name[160];

	for (uint32_t node = 0; node < NODES; node++) {
		for (size_t i = 0; i < 2; i++) {
			snprintf(name, sizeof name, "/sys/class/kfd/kfd/topology/nodes/%u/%s", node,
			         files[i]);
			copy_whole(recording, name);
		}
		snprintf(name, sizeof name, "/sys/class/kfd/kfd/topology/nodes/%u/properties",
		         node);
		copy_lines(recording, name, wanted, sizeof wanted / sizeof wanted[0]);
		snprintf(name, sizeof name, "/sys/devices/system/node/node%u/meminfo", node);
		copy_whole(recording, name);
		snprintf(name, sizeof name, "/sys/devices/system/node/node%u/cpulist", node);
		copy_whole(recording, name);
	}
}

/* ---- processes ---- */

static int64_t weight_of(struct str status)
{
	int64_t sum = 0, kib;
	struct str field;

	for (struct str rest = status; rest.data && rest.length;) {
		struct str line = str_cut(rest, '\n', &rest);
		if (!str_starts(line, "Name:") && lines_field(line, &field, &kib))
			sum += kib;
	}
	return sum;
}

/* The keys of a DRM client of each descriptor; how many there are. */
static uint32_t copy_clients(struct recording *recording, uint32_t pid)
{
	static const char *const keys[] = { "drm-" };
	char path[64], name[128], target[64];
	struct dirent *entry;
	uint32_t count = 0;

	snprintf(path, sizeof path, "/proc/%u/fd", pid);
	DIR *folder = opendir(path);
	if (!folder)
		return 0;
	while ((entry = readdir(folder))) {
		ssize_t length =
		        readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
		target[length > 0 ? length : 0] = '\0';
		if (strncmp(target, "/dev/dri/", 9) != 0 && strncmp(target, "/dev/accel/", 11) != 0)
			continue;
		snprintf(name, sizeof name, "/proc/%u/fdinfo/%.16s", pid, entry->d_name);
		copy_lines(recording, name, keys, 1);
		count++;
	}
	closedir(folder);
	return count;
}

static void copy_processes(struct recording *recording)
{
	static const char *const wanted[] = { "Name:", "RssAnon:", "RssFile:", "RssShmem:",
		                              "VmSwap:" };
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	uint64_t pid;
	char name[64];

	while (folder && (entry = readdir(folder))) {
		struct buf out = BUF_INIT;
		if (!str_to_u64(str_from(entry->d_name), &pid) || pid == 0 || pid > INT32_MAX)
			continue;
		snprintf(name, sizeof name, "/proc/%u/status", (unsigned)pid);
		if (collect(name, wanted, sizeof wanted / sizeof wanted[0], &out) &&
		    (copy_clients(recording, (uint32_t)pid) > 0 ||
		     weight_of(buf_str(&out)) >= PROCESS_LEAST_KIB))
			put(recording, name, buf_str(&out));
		buf_release(&out);
	}
	if (folder)
		closedir(folder);
}

/* ---- control groups, without their names ---- */

static void put_cgroup(struct recording *recording, const struct topology *t)
{
	char text[64];

	if (t->cgroup_limit_bytes >= t->mem.total)
		return;
	put(recording, "/proc/self/cgroup", STR("0::/group\n"));
	put(recording, "/proc/self/mountinfo",
	    STR("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"));
	snprintf(text, sizeof text, "%lld\n", (long long)t->cgroup_limit_bytes);
	put(recording, "/sys/fs/cgroup/group/memory.max", str_from(text));
	snprintf(text, sizeof text, "%lld\n", (long long)t->cgroup_used_bytes);
	put(recording, "/sys/fs/cgroup/group/memory.current", str_from(text));
}

int recording_save(const char *folder, const struct topology *topology, struct err *err)
{
	struct recording recording = { .folder = folder, .err = err };
	char *calls = calls_text(&topology->calls);

	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		recording.code = err_set(err, -errno, "%s: %s", folder, strerror(errno));
	put(&recording, "/calls.json", str_from(calls));
	free(calls);
	for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
		copy_whole(&recording, whole[i]);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		copy_lines(&recording, parts[i].file, parts[i].starts,
		           sizeof parts[i].starts / sizeof parts[i].starts[0]);
	copy_module_options(&recording);
	copy_boot_words(&recording);
	for (uint32_t i = 0; i < topology->cards.count; i++)
		copy_card(&recording, topology->cards.card[i].name);
	copy_nodes(&recording);
	copy_processes(&recording);
	put_cgroup(&recording, topology);
	return recording.code;
}
