#include "probe/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe/lines.h"
#include "probe/machine.h"

enum { DEPTH_MOST = 64 };

/* The next field of a line split by blanks. */
static struct str next_field(struct str *line)
{
	struct str rest;
	struct str field = str_cut(*line, ' ', &rest);
	*line = rest.data ? rest : (struct str){ "", 0 };
	return field;
}

/*
 * mountinfo: id parent major:minor root mount-point options [tags] - type source super-options.
 * Escapes (\040) are not undone: no one mounts cgroups under a path with blanks.
 */
static void note_mount(struct str line, struct cgroup_mounts *mounts)
{
	struct str root = { 0 }, point = { 0 }, type, options;

	for (int i = 0; i < 5; i++) {
		struct str field = next_field(&line);
		if (i == 3)
			root = field;
		if (i == 4)
			point = field;
	}
	for (int i = 0; i < 32 && !str_starts(line, "- "); i++)
		next_field(&line);
	next_field(&line);
	type = next_field(&line);
	next_field(&line);
	options = line;
	if (str_is(type, "cgroup2") && !mounts->v2[0]) {
		str_copy(mounts->v2, sizeof mounts->v2, point);
		str_copy(mounts->v2_root, sizeof mounts->v2_root, root);
	}
	if (!str_is(type, "cgroup") || mounts->v1_memory[0])
		return;
	for (struct str rest = options; rest.data && rest.length;) {
		if (!str_is(str_cut(rest, ',', &rest), "memory"))
			continue;
		str_copy(mounts->v1_memory, sizeof mounts->v1_memory, point);
		str_copy(mounts->v1_root, sizeof mounts->v1_root, root);
		return;
	}
}

static bool is_there(const char *root, const char *name)
{
	char text[64];
	return lines_read_all(root, name, text, sizeof text) >= 0;
}

void cgroup_find_mounts(const char *root, struct cgroup_mounts *mounts)
{
	struct lines lines;
	struct str line;

	mounts->v2[0] = mounts->v1_memory[0] = '\0';
	mounts->v2_root[0] = mounts->v1_root[0] = '\0';
	if (lines_open(&lines, root, "/proc/self/mountinfo") == 0) {
		while (lines_next(&lines, &line))
			note_mount(line, mounts);
		lines_close(&lines);
		return;
	}
	/* A recording without it: the places everyone uses. */
	if (is_there(root, "/sys/fs/cgroup/cgroup.controllers"))
		snprintf(mounts->v2, sizeof mounts->v2, "/sys/fs/cgroup");
	if (is_there(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes"))
		snprintf(mounts->v1_memory, sizeof mounts->v1_memory, "/sys/fs/cgroup/memory");
}

static bool lists_memory(struct str controllers)
{
	for (struct str rest = controllers; rest.data;)
		if (str_is(str_cut(rest, ',', &rest), "memory"))
			return true;
	return false;
}

/* Our own path in each hierarchy, out of "5:memory:/a/b" and "0::/c". */
static void own_paths(const char *root, char v2[PATH_MAX], char v1[PATH_MAX])
{
	struct lines lines;
	struct str line;

	v2[0] = v1[0] = '\0';
	if (lines_open(&lines, root, "/proc/self/cgroup") < 0)
		return;
	while (lines_next(&lines, &line)) {
		struct str rest;
		struct str number = str_cut(line, ':', &rest);
		struct str controllers = str_cut(rest, ':', &rest);
		if (!rest.data)
			continue;
		if (str_is(number, "0") && controllers.length == 0)
			str_copy(v2, PATH_MAX, rest);
		else if (lists_memory(controllers))
			str_copy(v1, PATH_MAX, rest);
	}
	lines_close(&lines);
}

/*
 * `path` of the hierarchy as a path below its mount, which shows the part
 * `mounted`. What lies outside has no place there: "" = the mount itself.
 */
static const char *below_mount(const char *path, const char *mounted)
{
	size_t length = strlen(mounted);

	if (strstr(path, "..") || path[0] != '/')
		return "";
	if (length <= 1)
		return path[1] ? path : "";
	if (strncmp(path, mounted, length) != 0 || (path[length] != '/' && path[length] != '\0'))
		return "";
	return path + length;
}

static int64_t read_number(const char *root, const char *group, const char *file, int64_t fallback)
{
	char name[PATH_MAX];
	char text[64];
	int64_t value;
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length < 0 || (size_t)length >= sizeof name)
		return fallback;
	if (lines_read_once(root, name, text, sizeof text) <= 0)
		return fallback;
	return lines_number(str_from(text), &value, NULL) ? value : fallback; /* "max" is no number */
}

/* "key number" */
static void take_number(struct str line, const char *key, int64_t *value)
{
	size_t length = strlen(key);

	if (str_starts(line, key) && line.length > length && line.data[length] == ' ')
		lines_number((struct str){ line.data + length, line.length - length }, value, NULL);
}

/* The number behind `key` in a file of lines "key number". */
static int64_t read_keyed(const char *root, const char *group, const char *file, const char *key,
                          int64_t fallback)
{
	struct lines lines;
	struct str line;
	char name[PATH_MAX];
	int64_t value = fallback;
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length < 0 || (size_t)length >= sizeof name || lines_open(&lines, root, name) < 0)
		return fallback;
	while (lines_next(&lines, &line))
		take_number(line, key, &value);
	lines_close(&lines);
	return value;
}

struct hierarchy {
	const char *limit;
	const char *softer; /* limit that throttles; NULL = none */
	const char *usage;
	const char *inactive;
	const char *active;
	const char *pressure; /* NULL = none */
};

static const struct hierarchy version_2 = { "memory.max", "memory.high", "memory.current",
	                                    "inactive_file", "active_file", "memory.pressure" };
static const struct hierarchy version_1 = { "memory.limit_in_bytes", NULL, "memory.usage_in_bytes",
	                                    "total_inactive_file", "total_active_file", NULL };

/* Our group and all above it, up to the mount. */
static void walk_up(const char *mount, const char *path, void (*look)(void *ctx, const char *group),
                    void *ctx)
{
	char group[PATH_MAX];
	size_t mount_length = strlen(mount);
	int length = snprintf(group, sizeof group, "%s%s", mount, path);

	if (length < 0 || (size_t)length >= sizeof group)
		return;
	for (int depth = 0; depth < DEPTH_MOST; depth++) {
		look(ctx, group);
		if (strlen(group) <= mount_length)
			return;
		char *slash = strrchr(group, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

struct limit_search {
	const char *root;
	bool is_v2;
	int64_t total_bytes;
	struct cgroup_limits *out;
};

static void look_for_limit(void *ctx, const char *group)
{
	const struct limit_search *search = ctx;
	const struct hierarchy *files = search->is_v2 ? &version_2 : &version_1;
	struct cgroup_limits *out = search->out;

	int64_t limit = read_number(search->root, group, files->limit, INT64_MAX);
	if (files->softer) {
		int64_t softer = read_number(search->root, group, files->softer, INT64_MAX);
		limit = softer < limit ? softer : limit;
	}
	/* cgroup1 writes "none" as the largest whole page; no limit over the machine binds. */
	if (limit >= search->total_bytes || out->count == CGROUP_LIMITS_MAX)
		return;
	struct cgroup_limit *found = &out->limit[out->count];
	if (!str_copy(found->group, sizeof found->group, str_from(group)))
		return;
	found->is_v2 = search->is_v2;
	found->bytes = limit;
	out->count++;
}

void cgroup_find_limits(const char *root, const struct cgroup_mounts *mounts, int64_t total_bytes,
                        struct cgroup_limits *out)
{
	char v2[PATH_MAX], v1[PATH_MAX];
	struct limit_search search = { root, true, total_bytes, out };

	out->count = 0;
	own_paths(root, v2, v1);
	if (mounts->v2[0])
		walk_up(mounts->v2, below_mount(v2, mounts->v2_root), look_for_limit, &search);
	search.is_v2 = false;
	if (mounts->v1_memory[0])
		walk_up(mounts->v1_memory, below_mount(v1, mounts->v1_root), look_for_limit, &search);
}

/* ---- what is left under the limits ---- */

static int open_in(struct handles *handles, struct lines *lines, const char *root, const char *group, const char *file)
{
	char name[PATH_MAX];
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length < 0 || (size_t)length >= sizeof name)
		return -ENAMETOOLONG;
	int rc = handles_lines(handles, lines, root, name);
	if (rc == 0)
		lines_in_one_read(lines);
	return rc;
}

static int64_t read_usage(struct handles *handles, const char *root, const char *group, const char *file)
{
	struct lines lines;
	struct str line;
	int64_t value = 0;

	if (open_in(handles, &lines, root, group, file) < 0)
		return 0;
	if (!lines_next(&lines, &line) || !lines_number(line, &value, NULL))
		value = 0;
	lines_close(&lines);
	return value;
}

static void read_file_pages(struct handles *handles, const char *root, const struct cgroup_limit *limit, int64_t *inactive,
                            int64_t *active)
{
	const struct hierarchy *files = limit->is_v2 ? &version_2 : &version_1;
	struct lines lines;
	struct str line;

	*inactive = *active = 0;
	if (open_in(handles, &lines, root, limit->group, "memory.stat") < 0)
		return;
	while (lines_next(&lines, &line)) {
		take_number(line, files->inactive, inactive);
		take_number(line, files->active, active);
	}
	lines_close(&lines);
}

static void read_limit(struct handles *handles, const char *root, const struct cgroup_limit *limit, struct sample *sample)
{
	const struct hierarchy *files = limit->is_v2 ? &version_2 : &version_1;
	char pressure[PATH_MAX];
	int64_t inactive, active;

	int64_t used = read_usage(handles, root, limit->group, files->usage);
	read_file_pages(handles, root, limit, &inactive, &active);
	used = used > inactive ? used - inactive : 0;
	if (sample->cgroup_limit_bytes != INT64_MAX &&
	    sample->cgroup_limit_bytes - sample->cgroup_used_bytes <= limit->bytes - used)
		return;
	sample->cgroup_limit_bytes = limit->bytes;
	sample->cgroup_used_bytes = used;
	sample->cgroup_hard_bytes = used > active ? used - active : 0;
	sample->cgroup_some_avg10_centi = sample->cgroup_full_avg10_centi = -1;
	int length = files->pressure ? snprintf(pressure, sizeof pressure, "%s/%s", limit->group, files->pressure) : -1;
	if (length >= 0 && (size_t)length < sizeof pressure)
		machine_read_psi(handles, root, pressure, &sample->cgroup_some_avg10_centi,
		                 &sample->cgroup_full_avg10_centi);
}

void cgroup_read_limits(const char *root, struct handles *handles, const struct cgroup_limits *limits, struct sample *sample)
{
	sample->cgroup_limit_bytes = INT64_MAX;
	sample->cgroup_used_bytes = sample->cgroup_hard_bytes = 0;
	sample->cgroup_some_avg10_centi = sample->cgroup_full_avg10_centi = -1;
	for (uint32_t i = 0; i < limits->count; i++)
		read_limit(handles, root, &limits->limit[i], sample);
}

bool cgroup_pressure_path(const struct cgroup_limits *limits, char out[PATH_MAX])
{
	for (uint32_t i = 0; i < limits->count; i++) {
		if (!limits->limit[i].is_v2)
			continue;
		int length = snprintf(out, PATH_MAX, "%s/%s", limits->limit[i].group, version_2.pressure);
		return length >= 0 && length < PATH_MAX;
	}
	return false;
}

struct oom_search {
	const char *root;
	struct oom_count *out;
	bool own; /* the group that is looked at is ours */
};

/* Version 2 counts kills up to the root, and hits of a limit only from the group that has it upwards. */
static void look_at_oom_2(void *ctx, const char *group)
{
	struct oom_search *search = ctx;
	struct oom_count *out = search->out;

	if (search->own)
		out->group_kills = read_keyed(search->root, group, "memory.events", "oom_kill", -1);
	out->limit_hits += read_keyed(search->root, group, "memory.events", "oom", 0);
	search->own = false;
}

/* Version 1 counts each kill in the victim's group alone; a limit that is hit counts failures. */
static void look_at_oom_1(void *ctx, const char *group)
{
	struct oom_search *search = ctx;
	struct oom_count *out = search->out;

	if (search->own && out->group_kills < 0)
		out->group_kills = read_keyed(search->root, group, "memory.oom_control", "oom_kill", -1);
	out->limit_hits += read_number(search->root, group, "memory.failcnt", 0);
	search->own = false;
}

void cgroup_read_oom(const char *root, const struct cgroup_mounts *mounts, struct oom_count *out)
{
	struct oom_search search = { root, out, true };
	char v2[PATH_MAX], v1[PATH_MAX];

	*out = (struct oom_count){ .group_kills = -1 };
	out->machine_kills = read_keyed(root, "/proc", "vmstat", "oom_kill", 0);
	own_paths(root, v2, v1);
	if (mounts->v2[0])
		walk_up(mounts->v2, below_mount(v2, mounts->v2_root), look_at_oom_2, &search);
	search.own = true;
	if (mounts->v1_memory[0])
		walk_up(mounts->v1_memory, below_mount(v1, mounts->v1_root), look_at_oom_1, &search);
}

int64_t cgroup_read_kills(const char *root, const char *group)
{
	return read_keyed(root, group, "memory.events", "oom_kill", -1);
}

/* A file of controllers, "cpu memory pids". */
static bool has_memory(const char *root, const char *group, const char *file)
{
	char name[PATH_MAX], text[256];
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length < 0 || (size_t)length >= sizeof name || lines_read_all(root, name, text, sizeof text) <= 0)
		return false;
	for (struct str rest = str_from(text); rest.data;)
		if (str_is(str_trim(str_cut(rest, ' ', &rest)), "memory"))
			return true;
	return false;
}

static bool may_write(const char *root, const char *group, const char *file)
{
	char name[PATH_MAX];
	int length = snprintf(name, sizeof name, "%s%s/%s", root, group, file);

	return length >= 0 && (size_t)length < sizeof name && access(name, W_OK) == 0;
}

/* What root may write is not yet root's: systemd marks what it leaves to a service. */
static bool is_marked(const char *root, const char *group)
{
	static const char *const marks[] = { "user.delegate", "trusted.delegate" };
	char name[PATH_MAX], value = '0';
	int length = snprintf(name, sizeof name, "%s%s", root, group);

	if (length < 0 || (size_t)length >= sizeof name)
		return false;
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
		if (getxattr(name, marks[i], &value, 1) == 1 && value == '1')
			return true;
	return false;
}

/* A group with processes of its own hands nothing down; the first of all (which has no type) does. */
static bool hands_down(const char *root, const char *group)
{
	char name[PATH_MAX], text[16];

	if (has_memory(root, group, "cgroup.subtree_control"))
		return true;
	if (!may_write(root, group, "cgroup.subtree_control"))
		return false;
	int length = snprintf(name, sizeof name, "%s/cgroup.type", group);
	if (length < 0 || (size_t)length >= sizeof name || !is_there(root, name))
		return true;
	snprintf(name, sizeof name, "%s/cgroup.procs", group);
	return lines_read_all(root, name, text, sizeof text) == 0;
}

static bool is_room(const char *root, const char *mount, const char *group)
{
	bool ours = strcmp(group, mount) == 0 || geteuid() != 0 || is_marked(root, group);

	return ours && has_memory(root, group, "cgroup.controllers") && may_write(root, group, "") && may_write(root, group, "cgroup.procs") && hands_down(root, group);
}

const char *cgroup_find_room(const char *root, const struct cgroup_mounts *mounts, char out[PATH_MAX])
{
	char v2[PATH_MAX], v1[PATH_MAX];

	out[0] = '\0';
	if (mounts->v1_memory[0])
		return "memory is counted by cgroup v1 here";
	if (!mounts->v2[0])
		return "there is no cgroup v2 here";
	own_paths(root, v2, v1);
	int length = snprintf(out, PATH_MAX, "%s%s", mounts->v2, below_mount(v2, mounts->v2_root));
	if (length < 0 || length >= PATH_MAX)
		return "the path of the daemon's control group is too long";
	if (is_room(root, mounts->v2, out))
		return NULL;
	bool counts = has_memory(root, out, "cgroup.controllers");
	/* Beside our own group nobody may leave a limit that ours has. */
	bool limited = read_number(root, out, "memory.max", INT64_MAX) < INT64_MAX ||
	               read_number(root, out, "memory.high", INT64_MAX) < INT64_MAX;
	if (strlen(out) > strlen(mounts->v2) && !limited) {
		*strrchr(out, '/') = '\0';
		if (is_room(root, mounts->v2, out))
			return NULL;
		counts |= has_memory(root, out, "cgroup.controllers");
	}
	if (!counts)
		return "the daemon's control group does not count memory";
	return "no control group is left to the daemon (systemd: Delegate=memory and DelegateSubgroup=daemon)";
}

uint32_t cgroup_read_processes(const char *root, const struct cgroup_mounts *mounts,
                               const char *cgroup, pid_t *out, uint32_t most)
{
	struct lines lines;
	struct str line;
	char name[PATH_MAX];
	uint32_t count = 0;
	int64_t pid;
	const char *mount = mounts->v2[0] ? mounts->v2 : mounts->v1_memory;
	int length = snprintf(name, sizeof name, "%s/%s/cgroup.procs", mount, cgroup);

	if (!mount[0] || length < 0 || (size_t)length >= sizeof name)
		return 0;
	if (lines_open(&lines, root, name) < 0)
		return 0;
	while (count < most && lines_next(&lines, &line))
		if (lines_number(line, &pid, NULL) && pid > 0 && pid < INT32_MAX)
			out[count++] = (pid_t)pid;
	lines_close(&lines);
	return count;
}
