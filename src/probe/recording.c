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
#include "probe/cgroup.h"
#include "probe/lines.h"
#include "probe/vllm.h"

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
	"/etc/tuned/active_profile",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
	"/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
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
	const char *root; /* what is recorded: "" is this machine */
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

static DIR *open_folder(const struct recording *recording, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof path, "%s%s", recording->root, name);

	return length >= 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
}

static void copy_whole(struct recording *recording, const char *name)
{
	char *text = xmalloc(FILE_MOST);
	int length = lines_read_all(recording->root, name, text, FILE_MOST);

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
static bool collect(const struct recording *recording, const char *name, const char *const *starts, size_t count, struct buf *out)
{
	struct lines lines;
	struct str line;

	if (lines_open(&lines, recording->root, name) < 0)
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

	if (collect(recording, name, starts, count, &out))
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
	DIR *folder = open_folder(recording, "/etc/modprobe.d");

	while (folder && (entry = readdir(folder))) {
		snprintf(path, sizeof path, "/etc/modprobe.d/%s", entry->d_name);
		if (str_ends(str_from(entry->d_name), ".conf"))
			collect(recording, path, wanted, 1, &out);
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

	if (lines_read_all(recording->root, "/proc/cmdline", text, sizeof text) <= 0)
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
	DIR *folder = open_folder(recording, path);
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

/* Of a vLLM how much it takes, and nothing else of its command line. */
static void put_vllm(struct recording *recording, pid_t pid)
{
	char name[48];
	struct buf text = BUF_INIT;
	struct vllm vllm;

	if (!vllm_read(recording->root, pid, &vllm))
		return;
	buf_printf(&text, "vllm%c", 0);
	if (vllm.given)
		buf_printf(&text, "--gpu-memory-utilization=%d.%03d%c", vllm.permille / 1000, vllm.permille % 1000, 0);
	if (vllm.cache_given)
		buf_printf(&text, "--kv-cache-memory-bytes=1%c", 0);
	snprintf(name, sizeof name, "/proc/%d/cmdline", (int)pid);
	put(recording, name, buf_str(&text));
	buf_release(&text);
}

static void copy_processes(struct recording *recording)
{
	static const char *const wanted[] = { "Name:", "RssAnon:", "RssFile:", "RssShmem:",
		                              "VmSwap:" };
	DIR *folder = open_folder(recording, "/proc");
	struct dirent *entry;
	uint64_t pid;
	char name[64];

	while (folder && (entry = readdir(folder))) {
		struct buf out = BUF_INIT;
		if (!str_to_u64(str_from(entry->d_name), &pid) || pid == 0 || pid > INT32_MAX)
			continue;
		snprintf(name, sizeof name, "/proc/%u/status", (unsigned)pid);
		if (collect(recording, name, wanted, sizeof wanted / sizeof wanted[0], &out) &&
		    (copy_clients(recording, (uint32_t)pid) > 0 ||
		     weight_of(buf_str(&out)) >= PROCESS_LEAST_KIB))
			put(recording, name, buf_str(&out));
		put_vllm(recording, (pid_t)pid);
		buf_release(&out);
	}
	if (folder)
		closedir(folder);
}

/* ---- control groups, without their names ---- */

enum { GROUPS_MOST = 64 };

struct groups {
	char name[GROUPS_MOST][PATH_MAX]; /* ours first, the mount last */
	uint32_t count;
};

static void note_group(void *ctx, const char *group)
{
	struct groups *groups = ctx;

	if (groups->count < GROUPS_MOST)
		str_copy(groups->name[groups->count++], PATH_MAX, str_from(group));
}

/* The path below its mount of the group at `index`, by its depth alone: "/g1/g2"; "" is the mount. */
static void nameless(const struct groups *groups, uint32_t index, char *out, size_t out_bytes)
{
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t depth = 1; depth < groups->count - index; depth++)
		at += (size_t)snprintf(out + at, out_bytes - at, "/g%u", depth);
}

static void put_group(struct recording *recording, const struct groups *groups, uint32_t index, const char *mount, bool is_v2)
{
	static const char *const all[] = { "" };
	static const char *const kept[] = { "inactive_file ", "active_file ", "total_inactive_file ", "total_active_file " };
	static const char *const files[] = { "memory.max",      "memory.high",           "memory.current",
		                             "memory.pressure", "memory.limit_in_bytes", "memory.usage_in_bytes",
		                             "memory.stat",     "cgroup.controllers" };
	char path[GROUPS_MOST * 8], from[PATH_MAX + 32], to[PATH_MAX];

	nameless(groups, index, path, sizeof path);
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		struct buf out = BUF_INIT;
		bool stat = strcmp(files[i], "memory.stat") == 0;
		snprintf(from, sizeof from, "%s/%s", groups->name[index], files[i]);
		snprintf(to, sizeof to, "%s%s/%s", mount, path, files[i]);
		if (collect(recording, from, !stat ? all : is_v2 ? kept : kept + 2, stat ? 2 : 1, &out))
			put(recording, to, buf_str(&out));
		buf_release(&out);
	}
}

/* One hierarchy: its groups, and the lines by which they are found. */
static void put_hierarchy(struct recording *recording, const struct cgroup_mounts *mounts, bool is_v2, struct buf *mountinfo,
                          struct buf *own)
{
	struct groups *groups = xmalloc(sizeof *groups);
	const char *mount = "/sys/fs/cgroup/memory";
	char path[GROUPS_MOST * 8];

	if (is_v2)
		mount = mounts->v1_memory[0] ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
	groups->count = 0;
	cgroup_each(recording->root, mounts, is_v2, note_group, groups);
	if (is_v2 && mounts->v2[0])
		buf_printf(mountinfo, "30 23 0:26 / %s rw - cgroup2 cgroup2 rw\n", mount);
	if (!is_v2 && mounts->v1_memory[0])
		buf_printf(mountinfo, "35 31 0:32 / %s rw - cgroup cgroup rw,memory\n", mount);
	for (uint32_t i = 0; i < groups->count; i++)
		put_group(recording, groups, i, mount, is_v2);
	if (groups->count > 0) {
		nameless(groups, 0, path, sizeof path);
		buf_printf(own, "%s:%s\n", is_v2 ? "0:" : "4:memory", path[0] ? path : "/");
	}
	free(groups);
}

/* As they are: which versions, and which limits stand over us or do not. What cannot be read is not there either. */
static void put_cgroups(struct recording *recording)
{
	struct cgroup_mounts *mounts = xmalloc(sizeof *mounts);
	struct buf mountinfo = BUF_INIT, own = BUF_INIT;

	cgroup_find_mounts(recording->root, mounts);
	put_hierarchy(recording, mounts, false, &mountinfo, &own);
	put_hierarchy(recording, mounts, true, &mountinfo, &own);
	if (buf_length(&mountinfo) == 0)
		buf_append_str(&mountinfo, STR("21 1 0:20 / /proc rw - proc proc rw\n"));
	if (mounts->mountinfo == INPUT_OK)
		put(recording, "/proc/self/mountinfo", buf_str(&mountinfo));
	if (buf_length(&own) > 0)
		put(recording, "/proc/self/cgroup", buf_str(&own));
	buf_release(&mountinfo);
	buf_release(&own);
	free(mounts);
}

int recording_save(const char *root, const char *folder, const struct topology *topology, struct err *err)
{
	struct recording recording = { .root = root, .folder = folder, .err = err };
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
	put_cgroups(&recording);
	return recording.code;
}
