/* Checks of NVIDIA's drivers and of Jetsons. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "probe/doctor_parts.h"
#include "probe/lines.h"
#include "probe/topology_parts.h"

#define MIB_OF(bytes) ((long long)((bytes) / MIB))

enum { OPTION_FILES_MOST = 256, NAME_BYTES = 64 };

static const char params[] = "/proc/driver/nvidia/params";

enum finding_status check_nvidia_driver(const struct doctor *d, struct finding *f)
{
	char text[512];
	int64_t version = doctor_number(d, "/sys/module/nvidia/version");

	if (version < 0 && doctor_text(d, "/proc/driver/nvidia/version", text, sizeof text))
		for (const char *c = text; *c && version < 0; c++)
			if (c[0] == ' ' && c[1] >= '0' && c[1] <= '9')
				lines_number(str_from(c + 1), &version, NULL);
	if (version < 0)
		return not_known(f);
	return found(f, version < 580 ? FINDING_ADVICE : FINDING_OK, "%lld", (long long)version);
}

/* A setting as the running driver has it: "Name: 1". -1 where it tells of none. */
static int64_t running_setting(const struct doctor *d, struct str name)
{
	char start[NAME_BYTES + 2], text[32];
	int64_t value;

	if (name.length >= NAME_BYTES)
		return -1;
	snprintf(start, sizeof start, "%.*s:", (int)name.length, name.data);
	if (!doctor_line(d, params, start, text, sizeof text))
		return -1;
	return lines_number(str_from(text), &value, NULL) ? value : -1;
}

/* The words of "options nvidia NVreg_Name=1 ..."; the first that the running driver has otherwise is told. */
static bool differs(const struct doctor *d, struct str line, struct finding *f)
{
	static const char before[] = "NVreg_";
	int64_t wanted;

	for (struct str rest = line; rest.data;) {
		struct str value, word = str_cut(rest, ' ', &rest);
		if (!str_starts(word, before))
			continue;
		struct str name = { word.data + sizeof before - 1, word.length - sizeof before + 1 };
		name = str_cut(name, '=', &value);
		if (!value.data || !lines_number(value, &wanted, NULL))
			continue;
		int64_t running = running_setting(d, name);
		if (running < 0 || running == wanted)
			continue;
		found(f, FINDING_ADVICE, "%.*s is to be %lld and is %lld", (int)name.length, name.data,
		      (long long)wanted, (long long)running);
		return true;
	}
	return false;
}

static bool file_differs(const struct doctor *d, const char *file, struct finding *f)
{
	struct lines lines;
	struct str line;
	bool any = false;

	if (lines_open(&lines, d->root, file) < 0)
		return false;
	while (!any && lines_next(&lines, &line))
		any = str_starts(line, "options nvidia ") && differs(d, line, f);
	lines_close(&lines);
	return any;
}

/* What /etc/modprobe.d asks for and the driver that runs does not have. */
static bool options_differ(const struct doctor *d, struct finding *f)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool any = false;

	snprintf(path, sizeof path, "%s/etc/modprobe.d", d->root);
	DIR *folder = opendir(path);
	for (int i = 0; folder && !any && i < OPTION_FILES_MOST && (entry = readdir(folder)); i++) {
		if (!str_ends(str_from(entry->d_name), ".conf"))
			continue;
		snprintf(path, sizeof path, "/etc/modprobe.d/%s", entry->d_name);
		any = file_differs(d, path, f);
	}
	if (folder)
		closedir(folder);
	return any;
}

static bool is_unified(const struct doctor *d)
{
	for (uint32_t i = 0; i < d->topology->devices; i++)
		if (d->topology->device[i].kind == DEVICE_GB10)
			return true;
	return false;
}

/* Since driver 590 they are the default, and have no bound. */
static enum finding_status advise_no_pools(struct finding *f)
{
	want(f, "no pools of freed pages where the GPU shares the RAM");
	mend(f, "echo 'options nvidia NVreg_EnableSystemMemoryPools=0' > /etc/modprobe.d/90-cotenant.conf; "
	        "update-initramfs -u (or dracut -f), reboot (lasts)");
	f->why = "what an engine gave back stays with the driver and looks used until memory is short";
	return found(f, FINDING_ADVICE, "EnableSystemMemoryPools is on");
}

enum finding_status check_nvidia_settings(const struct doctor *d, struct finding *f)
{
	char text[8];

	if (!doctor_text(d, params, text, sizeof text))
		return not_known(f);
	if (options_differ(d, f))
		return FINDING_ADVICE;
	int64_t pools = running_setting(d, STR("EnableSystemMemoryPools"));
	int64_t preserve = running_setting(d, STR("PreserveVideoMemoryAllocations"));
	if (pools > 0 && is_unified(d))
		return advise_no_pools(f);
	const char *kept = pools > 0    ? "freed pages stay in the driver's pools until memory is short"
	                   : pools == 0 ? "no pools"
	                                : "nothing is told of pools";
	const char *asleep = preserve > 0    ? "; video memory outlives a suspend"
	                     : preserve == 0 ? "; video memory is lost in a suspend"
	                                     : "";
	return found(f, FINDING_OK, "%s%s", kept, asleep);
}

/* ---- Jetson ---- */

enum finding_status check_lfb(const struct doctor *d, struct finding *f)
{
	int64_t blocks = 0;

	if (zones_free_2m_bytes(NULL, d->root, d->topology->calls.page_bytes, &blocks, NULL) < 0)
		return not_known(f);
	return found(f, blocks < 64 ? FINDING_PROBLEM : FINDING_OK, "%lld blocks",
	             (long long)blocks);
}

enum finding_status check_cma(const struct doctor *d, struct finding *f)
{
	int64_t bytes = d->topology->mem.cma_free;

	if (bytes < 0)
		return not_known(f);
	return found(f, bytes > d->topology->mem.total / 20 ? FINDING_ADVICE : FINDING_OK,
	             "%lld MiB free in CMA", MIB_OF(bytes));
}

/* "# R36 (release), REVISION: 4.7, GCID: ..." */
enum finding_status check_l4t(const struct doctor *d, struct finding *f)
{
	static const char revision[] = "REVISION: ";
	char text[256];
	int64_t release, major = 0, minor = 0;
	struct str rest;

	if (!doctor_text(d, "/etc/nv_tegra_release", text, sizeof text))
		return not_known(f);
	const char *number = strstr(text, revision);
	if (!str_starts(str_from(text), "# R") || !lines_number(str_from(text + 3), &release, NULL) || !number ||
	    !lines_number(str_from(number + sizeof revision - 1), &major, &rest))
		return not_known(f);
	if (str_starts(rest, "."))
		lines_number((struct str){ rest.data + 1, rest.length - 1 }, &minor, NULL);
	bool bad = release == 36 && major == 4 && minor == 7;
	return found(f, bad ? FINDING_PROBLEM : FINDING_OK, "%lld.%lld.%lld", (long long)release, (long long)major,
	             (long long)minor);
}

enum finding_status check_jetson_zram(const struct doctor *d, struct finding *f)
{
	int64_t bytes = doctor_zram_bytes(d);

	if (bytes < 0)
		return not_known(f);
	return found(f, bytes > 0 ? FINDING_ADVICE : FINDING_OK, bytes > 0 ? "%lld MiB" : "none", MIB_OF(bytes));
}

/* It raises the least clock to the highest, and what it found before is what --restore brings back. */
enum finding_status check_jetson_clocks(const struct doctor *d, struct finding *f)
{
	static const char least_name[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq";
	static const char most_name[] = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq";
	int64_t least = doctor_number(d, least_name), most = doctor_number(d, most_name);

	if (least <= 0 || most <= 0)
		return not_known(f);
	return found(f, least == most ? FINDING_ADVICE : FINDING_OK, least == most ? "on, at %lld MHz" : "off, up to %lld MHz",
	             (long long)(most / 1000));
}

enum finding_status check_desktop(const struct doctor *d, struct finding *f)
{
	static const char *const names[] = { "gnome-shell", "Xorg", "plasmashell", "lxpanel", "xfce4-session" };
	int64_t bytes = 0;

	if (d->programs->processes == 0)
		return found(f, FINDING_UNKNOWN, "no processes were seen");
	for (uint32_t i = 0; i < d->programs->count; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			if (strcmp(d->programs->list[i].name, names[j]) == 0)
				bytes += program_ram_bytes(&d->programs->list[i]);
	return found(f, bytes > 0 ? FINDING_ADVICE : FINDING_OK, bytes > 0 ? "runs, %lld MiB" : "none",
	             MIB_OF(bytes));
}
