#include "probe/machine.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "probe/lines.h"
#include "probe/meminfo.h"
#include "probe/zones.h"

enum { SUPPLIES_MOST = 64, KIB = 1024, PAGE_DEFAULT = 4096 };

static void take_counter(struct str line, struct sample *sample)
{
	int64_t kib;

	if (lines_named(line, "MemTotal:", &kib))
		sample->total_bytes = kib * KIB;
	else if (lines_named(line, "MemFree:", &kib))
		sample->free_bytes = kib * KIB;
	else if (lines_named(line, "MemAvailable:", &kib))
		sample->available_bytes = kib * KIB;
	else if (lines_named(line, "AnonPages:", &kib))
		sample->anon_bytes = kib * KIB;
	else if (lines_named(line, "Shmem:", &kib))
		sample->shmem_bytes = kib * KIB;
	else if (lines_named(line, "SwapTotal:", &kib))
		sample->swap_total_bytes = kib * KIB;
	else if (lines_named(line, "SwapFree:", &kib))
		sample->swap_free_bytes = kib * KIB;
}

int machine_read_memory(struct handles *handles, const char *root, struct sample *sample, struct err *err)
{
	struct lines lines;
	struct str line;

	sample->total_bytes = sample->free_bytes = 0;
	sample->available_bytes = -1;
	sample->anon_bytes = sample->shmem_bytes = 0;
	sample->swap_total_bytes = sample->swap_free_bytes = 0;
	int rc = handles_lines(handles, &lines, root, "/proc/meminfo");
	if (rc < 0)
		return err_set(err, rc, "%s/proc/meminfo: %s", root, strerror(-rc));
	lines_in_one_read(&lines);
	while (lines_next(&lines, &line))
		take_counter(line, sample);
	lines_close(&lines);
	if (sample->available_bytes < 0) {
		struct meminfo made; /* once more, for its parts: no kernel of today lacks it */
		rc = meminfo_read(handles, root, &made, err);
		if (rc < 0)
			return rc;
		sample->available_bytes = made.available;
		inputs_note(&sample->inputs, "/proc/meminfo", INPUT_NONSENSE, true, INPUTS_WITHOUT_AVAILABLE);
	}
	if (sample->total_bytes <= 0)
		return err_set(err, -EBADMSG, "%s/proc/meminfo: no MemTotal", root);
	if (sample->available_bytes > sample->total_bytes || sample->free_bytes > sample->total_bytes)
		return err_set(err, -EBADMSG, "%s/proc/meminfo: more is free than there is", root);
	return 0;
}

void machine_read_zones(struct handles *handles, const char *root, struct sample *sample)
{
	struct zones zones;

	inputs_note(&sample->inputs, "/proc/zoneinfo",
	            zones_read(handles, root, ZONES_ALL_NODES, machine_page_bytes(root), &zones), true,
	            INPUTS_WITHOUT_ZONES);
	sample->high_watermark_bytes = zones.high_bytes;
	int64_t most = sample->total_bytes - sample->available_bytes, part = sample->total_bytes / ZONES_PCP_PART;
	most = part < most ? part : most;
	sample->available_bytes += zones.pcp_bytes < most ? zones.pcp_bytes : most;
}

int64_t machine_free_now(void)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 ? (int64_t)info.freeram * info.mem_unit : 0;
}

/* "0.42 0.37 0.31 2/314 27182": the last of them. */
pid_t machine_newest_pid(struct handles *handles, const char *root)
{
	struct lines lines;
	struct str line, rest;
	int64_t number = 0;

	if (handles_lines(handles, &lines, root, "/proc/loadavg") < 0)
		return 0;
	lines_in_one_read(&lines);
	if (lines_next(&lines, &line))
		for (rest = str_trim(line); rest.data;)
			if (!lines_number(str_cut(rest, ' ', &rest), &number, NULL))
				number = 0;
	lines_close(&lines);
	return number > 0 && number <= INT32_MAX ? (pid_t)number : 0;
}

int64_t machine_page_bytes(const char *root)
{
	char text[4096];
	int64_t value;
	long own = sysconf(_SC_PAGESIZE);

	if (root[0] != '\0' && lines_read_all(root, "/calls.json", text, sizeof text) > 0) {
		const char *key = strstr(text, "\"page_bytes\"");
		const char *colon = key ? strchr(key, ':') : NULL;
		if (colon && lines_number(str_from(colon + 1), &value, NULL) && value >= PAGE_DEFAULT &&
		    value <= 1 << 20)
			return value;
	}
	return own > 0 ? own : PAGE_DEFAULT;
}

/*
 * Counters since the start of the machine. Older kernels have one refault counter for all pages, newer ones a stall
 * counter for each kind of zone.
 */
static void take_event(struct str line, struct sample *sample)
{
	struct str rest;
	int64_t value;

	if (lines_named(line, "oom_kill ", &value))
		sample->oom_kills = value;
	else if (lines_named(line, "workingset_refault_file ", &value) || lines_named(line, "workingset_refault ", &value))
		sample->file_refaults += value;
	else if (lines_named(line, "compact_fail ", &value))
		sample->allocation_stalls += value;
	else if (str_starts(line, "allocstall")) {
		str_cut(line, ' ', &rest);
		if (rest.data && lines_number(rest, &value, NULL))
			sample->allocation_stalls += value;
	}
}

/* "name 12" */
static bool has_number(struct str line)
{
	struct str rest;
	int64_t value;

	str_cut(line, ' ', &rest);
	return rest.data && lines_number(rest, &value, NULL);
}

static void read_vmstat(struct handles *handles, const char *root, struct sample *sample)
{
	struct lines lines;
	struct str line;
	bool any = false;

	sample->oom_kills = sample->file_refaults = sample->allocation_stalls = 0;
	int code = handles_lines(handles, &lines, root, "/proc/vmstat");
	while (code == 0 && lines_next(&lines, &line)) {
		any = any || has_number(line);
		take_event(line, sample);
	}
	inputs_note(&sample->inputs, "/proc/vmstat", input_state_of(code, code == 0 ? lines.total : 0, any), true,
	            INPUTS_WITHOUT_VMSTAT);
	if (code == 0)
		lines_close(&lines);
}

/* "some avg10=1.25 avg60=..." -> 125; -1 for anything else. */
static int64_t average_of(struct str line)
{
	static const char before[] = " avg10=";
	enum { BEFORE = sizeof before - 1, KIND = 4 };
	int64_t whole, part;
	struct str rest;

	if (line.length < KIND + BEFORE || memcmp(line.data + KIND, before, BEFORE) != 0)
		return -1;
	struct str number = { line.data + KIND + BEFORE, line.length - KIND - BEFORE };
	if (!lines_number(number, &whole, &rest) || whole > 100 || !str_starts(rest, ".") ||
	    rest.length < 3)
		return -1;
	rest = (struct str){ rest.data + 1, 2 };
	return lines_number(rest, &part, NULL) ? whole * 100 + part : -1;
}

void machine_read_psi(struct handles *handles, const char *root, const char *name, int64_t *some_centi, int64_t *full_centi)
{
	struct lines lines;
	struct str line;

	*some_centi = *full_centi = -1;
	if (handles_lines(handles, &lines, root, name) < 0)
		return;
	lines_in_one_read(&lines);
	while (lines_next(&lines, &line)) {
		if (str_starts(line, "some"))
			*some_centi = average_of(line);
		else if (str_starts(line, "full"))
			*full_centi = average_of(line);
	}
	lines_close(&lines);
}

/* Of /sys/class/power_supply: batteries of mice and the like have scope Device and do not count. */
static bool is_on_battery(const char *root)
{
	char path[PATH_MAX], name[PATH_MAX], text[32];
	struct dirent *entry;
	bool battery = false, mains = false;

	snprintf(path, sizeof path, "%s/sys/class/power_supply", root);
	DIR *folder = opendir(path);
	for (int i = 0; folder && i < SUPPLIES_MOST && (entry = readdir(folder)); i++) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof name, "/sys/class/power_supply/%s/scope", entry->d_name);
		if (lines_read_all(root, name, text, sizeof text) > 0 && str_starts(str_from(text), "Device"))
			continue;
		snprintf(name, sizeof name, "/sys/class/power_supply/%s/type", entry->d_name);
		lines_read_all(root, name, text, sizeof text);
		battery |= str_starts(str_from(text), "Battery");
		if (str_starts(str_from(text), "Battery"))
			continue;
		snprintf(name, sizeof name, "/sys/class/power_supply/%s/online", entry->d_name);
		mains |= lines_read_all(root, name, text, sizeof text) > 0 && text[0] == '1';
	}
	if (folder)
		closedir(folder);
	return battery && !mains;
}

void machine_read_pressure(struct handles *handles, const char *root, struct sample *sample)
{
	read_vmstat(handles, root, sample);
	machine_read_psi(handles, root, "/proc/pressure/memory", &sample->psi_some_avg10_centi, &sample->psi_full_avg10_centi);
}

void machine_read_slow(const char *root, struct sample *sample)
{
	sample->on_battery = is_on_battery(root);
}
