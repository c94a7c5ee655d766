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
 * Escapes (\040) are not undone: no one mounts cgroups under a path with blanks. False for other lines.
 */
static bool note_mount(struct str line, struct cgroup_mounts *mounts)
{
	struct str root = { 0 }, point = { 0 }, type, options;

	for (int i = 0; i < 5; i++) {
		struct str field = next_field(&line);
		if (i == 3)
			root = field;
		if (i == 4)
			point = field;
	}
	for (int i = 0; i < 32 && line.length && !str_starts(line, "- "); i++)
		next_field(&line);
	if (!str_starts(line, "- ") || !str_starts(point, "/"))
		return false;
	next_field(&line);
	type = next_field(&line);
	next_field(&line);
	options = line;
	if (str_is(type, "cgroup2") && !mounts->v2[0]) {
		str_copy(mounts->v2, sizeof mounts->v2, point);
		str_copy(mounts->v2_root, sizeof mounts->v2_root, root);
	}
	if (!str_is(type, "cgroup") || mounts->v1_memory[0])
		return true;
	for (struct str rest = options; rest.data && rest.length;) {
		if (!str_is(str_cut(rest, ',', &rest), "memory"))
			continue;
		str_copy(mounts->v1_memory, sizeof mounts->v1_memory, point);
		str_copy(mounts->v1_root, sizeof mounts->v1_root, root);
		return true;
	}
	return true;
}

static bool is_there(const char *root, const char *name)
{
	char text[64];
	return lines_read_all(root, name, text, sizeof text) >= 0;
}

/* The places everyone uses. */
static void guess_mounts(const char *root, struct cgroup_mounts *mounts)
{
	bool v1 = is_there(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes");

	if (v1)
		snprintf(mounts->v1_memory, sizeof mounts->v1_memory, "/sys/fs/cgroup/memory");
	if (is_there(root, "/sys/fs/cgroup/cgroup.controllers"))
		snprintf(mounts->v2, sizeof mounts->v2, "/sys/fs/cgroup");
	else if (v1 && is_there(root, "/sys/fs/cgroup/unified/cgroup.controllers"))
		snprintf(mounts->v2, sizeof mounts->v2, "/sys/fs/cgroup/unified");
}

void cgroup_find_mounts(const char *root, struct cgroup_mounts *mounts)
{
	struct lines lines;
	struct str line;
	bool any = false;

	mounts->v2[0] = mounts->v1_memory[0] = '\0';
	mounts->v2_root[0] = mounts->v1_root[0] = '\0';
	int code = lines_open(&lines, root, "/proc/self/mountinfo");
	while (code == 0 && lines_next(&lines, &line)) {
		any = note_mount(line, mounts) || any;
	}
	mounts->mountinfo = input_state_of(code, code == 0 ? lines.total : 0, any);
	if (code == 0)
		lines_close(&lines);
	if (mounts->mountinfo != INPUT_OK)
		guess_mounts(root, mounts);
}

static bool lists_memory(struct str controllers)
{
	for (struct str rest = controllers; rest.data;)
		if (str_is(str_cut(rest, ',', &rest), "memory"))
			return true;
	return false;
}

/* Our own path in each hierarchy, out of "5:memory:/a/b" and "0::/c"; "" where it is not told. */
static enum input_state own_paths(const char *root, char v2[PATH_MAX], char v1[PATH_MAX])
{
	struct lines lines;
	struct str line;

	v2[0] = v1[0] = '\0';
	int code = lines_open(&lines, root, "/proc/self/cgroup");
	while (code == 0 && lines_next(&lines, &line)) {
		struct str rest;
		struct str number = str_cut(line, ':', &rest);
		struct str controllers = str_cut(rest, ':', &rest);
		if (!rest.data || !str_starts(rest, "/"))
			continue;
		if (str_is(number, "0") && controllers.length == 0)
			str_copy(v2, PATH_MAX, rest);
		else if (lists_memory(controllers))
			str_copy(v1, PATH_MAX, rest);
	}
	size_t bytes = code == 0 ? lines.total : 0;
	if (code == 0)
		lines_close(&lines);
	return input_state_of(code, bytes, v2[0] || v1[0]);
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

static enum input_state read_value(const char *root, const char *group, const char *file, int64_t *value)
{
	char name[PATH_MAX];
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length < 0 || (size_t)length >= sizeof name)
		return INPUT_UNREADABLE;
	return input_number(root, name, "max", value);
}

/* The numbers behind keys in a file of lines "key number"; what has no line is left as it is. */
struct keyed {
	const char *key;
	int64_t *value;
};

/* Of what was opened with `code`; closes it. */
static enum input_state take_keyed(int code, struct lines *lines, const struct keyed *wanted, size_t count)
{
	struct str line;
	bool any = false;

	while (code == 0 && lines_next(lines, &line)) {
		struct str rest, key = str_cut(line, ' ', &rest);
		for (size_t i = 0; i < count; i++)
			if (str_is(key, wanted[i].key))
				any = (rest.data && lines_number(rest, wanted[i].value, NULL)) || any;
	}
	enum input_state state = input_state_of(code, code == 0 ? lines->total : 0, any);
	if (code == 0)
		lines_close(lines);
	return state;
}

static int64_t read_count(const char *root, const char *group, const char *file, const char *key, int64_t fallback)
{
	char name[PATH_MAX];
	struct lines lines;
	int64_t value = fallback;
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length >= 0 && (size_t)length < sizeof name)
		take_keyed(lines_open(&lines, root, name), &lines, &(struct keyed){ key, &value }, 1);
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

static void note_file(struct inputs *inputs, const char *group, const char *file, enum input_state state,
                      const char *effect)
{
	char name[PATH_MAX];
	int length = snprintf(name, sizeof name, "%s/%s", group, file);

	if (length >= 0 && (size_t)length < sizeof name)
		inputs_note(inputs, name, state, true, effect);
}

/* What the group may have: INT64_MAX where nothing bounds it, or nobody knows what. */
static int64_t limit_of(const struct limit_search *search, const char *group)
{
	static const char effect[] = "the limit of this control group is not known, and bounds nothing unless it was known before";
	const struct hierarchy *files = search->is_v2 ? &version_2 : &version_1;
	int64_t limit = INT64_MAX, softer = INT64_MAX, used;
	enum input_state state = read_value(search->root, group, files->limit, &limit);

	/* The first of all groups has neither, nor has one whose memory nobody counts. */
	if (state == INPUT_MISSING && read_value(search->root, group, files->usage, &used) == INPUT_MISSING)
		return INT64_MAX;
	note_file(&search->out->inputs, group, files->limit, state, effect);
	if (!files->softer)
		return limit;
	state = read_value(search->root, group, files->softer, &softer);
	if (state != INPUT_MISSING)
		note_file(&search->out->inputs, group, files->softer, state, effect);
	return softer < limit ? softer : limit;
}

static void look_for_limit(void *ctx, const char *group)
{
	const struct limit_search *search = ctx;
	struct cgroup_limits *out = search->out;
	int64_t limit = limit_of(search, group);

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

static bool is_below(const char *path)
{
	return path[0] == '/' && path[1] != '\0';
}

/* Where our groups are, as far as it was told. */
static void note_places(struct inputs *inputs, const struct cgroup_mounts *mounts, enum input_state own, const char *v2,
                        const char *v1)
{
	bool mounted = mounts->v2[0] || mounts->v1_memory[0];
	/* Memory is counted in one of the two: in the first version where it is listed there. */
	bool lost = v1[0] ? is_below(v1) && !mounts->v1_memory[0] : is_below(v2) && !mounted;
	enum input_state mountinfo = mounts->mountinfo == INPUT_OK && lost ? INPUT_NONSENSE : mounts->mountinfo;

	if (own == INPUT_OK && mounts->v1_memory[0] && !v1[0])
		own = INPUT_NONSENSE;
	/* A recording may hold neither; of a kernel without control groups there is nothing to tell. */
	inputs_note(inputs, "/proc/self/mountinfo", mountinfo, own == INPUT_OK,
	            mounted && !lost ? "control groups were looked for in the usual place"
	                             : "where control groups are is not known, and their limits count as none");
	inputs_note(inputs, "/proc/self/cgroup", own, mounted,
	            "our control group is not known, and its limits count as none");
}

void cgroup_find_limits(const char *root, const struct cgroup_mounts *mounts, int64_t total_bytes,
                        struct cgroup_limits *out)
{
	char v2[PATH_MAX], v1[PATH_MAX];
	struct limit_search search = { root, true, total_bytes, out };

	out->count = out->inputs.count = 0;
	note_places(&out->inputs, mounts, own_paths(root, v2, v1), v2, v1);
	if (mounts->v2[0])
		walk_up(mounts->v2, below_mount(v2, mounts->v2_root), look_for_limit, &search);
	search.is_v2 = false;
	if (mounts->v1_memory[0])
		walk_up(mounts->v1_memory, below_mount(v1, mounts->v1_root), look_for_limit, &search);
}

static bool has_group(const struct cgroup_limits *limits, const struct cgroup_limit *limit)
{
	for (uint32_t i = 0; i < limits->count; i++)
		if (strcmp(limits->limit[i].group, limit->group) == 0)
			return true;
	return false;
}

void cgroup_keep_limits(struct cgroup_limits *now, const struct cgroup_limits *before)
{
	if (inputs_degraded(&now->inputs) == 0)
		return;
	for (uint32_t i = 0; i < before->count && now->count < CGROUP_LIMITS_MAX; i++)
		if (!has_group(now, &before->limit[i]))
			now->limit[now->count++] = before->limit[i];
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

/* One number; where it is none `*value` is left as it is. */
static enum input_state read_usage(struct handles *handles, const char *root, const char *group, const char *file,
                                   int64_t *value)
{
	struct lines lines;
	struct str line, rest;
	int64_t number = 0;

	int code = open_in(handles, &lines, root, group, file);
	bool told = code == 0 && lines_next(&lines, &line) && lines_number(line, &number, &rest) &&
	            str_trim(rest).length == 0;
	enum input_state state = input_state_of(code, code == 0 ? lines.total : 0, told);
	if (code == 0)
		lines_close(&lines);
	if (told)
		*value = number;
	return state;
}

static enum input_state read_file_pages(struct handles *handles, const char *root, const struct cgroup_limit *limit,
                                        int64_t *inactive, int64_t *active)
{
	const struct hierarchy *files = limit->is_v2 ? &version_2 : &version_1;
	const struct keyed wanted[] = { { files->inactive, inactive }, { files->active, active } };
	struct lines lines;
	int code = open_in(handles, &lines, root, limit->group, "memory.stat");

	return take_keyed(code, &lines, wanted, sizeof wanted / sizeof wanted[0]);
}

/* What it uses less what can be dropped first, all of the limit where that is not told. False where it is a guess. */
static bool use_of(struct handles *handles, const char *root, const struct cgroup_limit *limit, struct inputs *inputs,
                   int64_t *used, int64_t *hard)
{
	const struct hierarchy *files = limit->is_v2 ? &version_2 : &version_1;
	int64_t inactive = 0, active = 0;

	*used = *hard = limit->bytes;
	enum input_state state = read_usage(handles, root, limit->group, files->usage, used);
	note_file(inputs, limit->group, files->usage, state,
	          "what this control group uses is not known: all of its limit counts as used");
	if (state != INPUT_OK)
		return false;
	state = read_file_pages(handles, root, limit, &inactive, &active);
	note_file(inputs, limit->group, "memory.stat", state,
	          "what of this control group's use could be dropped is not known: nothing counts as that");
	*used = *used > inactive ? *used - inactive : 0;
	*hard = *used > active ? *used - active : 0;
	return state == INPUT_OK;
}

static void read_limit(struct handles *handles, const char *root, const struct cgroup_limit *limit, struct sample *sample)
{
	const struct hierarchy *files = limit->is_v2 ? &version_2 : &version_1;
	char pressure[PATH_MAX];
	int64_t used, hard;
	bool sure = use_of(handles, root, limit, &sample->inputs, &used, &hard);

	if (sample->cgroup_limit_bytes != INT64_MAX &&
	    sample->cgroup_limit_bytes - sample->cgroup_used_bytes <= limit->bytes - used)
		return;
	sample->cgroup_limit_bytes = limit->bytes;
	sample->cgroup_used_bytes = used;
	sample->cgroup_hard_bytes = hard;
	sample->cgroup_use_unknown = !sure;
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
	sample->cgroup_use_unknown = false;
	sample->cgroup_some_avg10_centi = sample->cgroup_full_avg10_centi = -1;
	inputs_add(&sample->inputs, &limits->inputs);
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

void cgroup_each(const char *root, const struct cgroup_mounts *mounts, bool is_v2,
                 void (*look)(void *ctx, const char *group), void *ctx)
{
	char v2[PATH_MAX], v1[PATH_MAX];
	const char *mount = is_v2 ? mounts->v2 : mounts->v1_memory;

	own_paths(root, v2, v1);
	if (mount[0] && (is_v2 ? v2 : v1)[0])
		walk_up(mount, is_v2 ? below_mount(v2, mounts->v2_root) : below_mount(v1, mounts->v1_root), look, ctx);
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
		out->group_kills = read_count(search->root, group, "memory.events", "oom_kill", -1);
	out->limit_hits += read_count(search->root, group, "memory.events", "oom", 0);
	search->own = false;
}

/* Version 1 counts each kill in the victim's group alone; a limit that is hit counts failures. */
static void look_at_oom_1(void *ctx, const char *group)
{
	struct oom_search *search = ctx;
	struct oom_count *out = search->out;

	if (search->own && out->group_kills < 0)
		out->group_kills = read_count(search->root, group, "memory.oom_control", "oom_kill", -1);
	int64_t hits = 0;
	read_value(search->root, group, "memory.failcnt", &hits);
	out->limit_hits += hits;
	search->own = false;
}

void cgroup_read_oom(const char *root, const struct cgroup_mounts *mounts, struct oom_count *out)
{
	struct oom_search search = { root, out, true };
	char v2[PATH_MAX], v1[PATH_MAX];

	*out = (struct oom_count){ .group_kills = -1 };
	out->machine_kills = read_count(root, "/proc", "vmstat", "oom_kill", 0);
	own_paths(root, v2, v1);
	if (mounts->v2[0])
		walk_up(mounts->v2, below_mount(v2, mounts->v2_root), look_at_oom_2, &search);
	search.own = true;
	if (mounts->v1_memory[0])
		walk_up(mounts->v1_memory, below_mount(v1, mounts->v1_root), look_at_oom_1, &search);
}

int64_t cgroup_read_kills(const char *root, const char *group)
{
	return read_count(root, group, "memory.events", "oom_kill", -1);
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
	int64_t limit = INT64_MAX, softer = INT64_MAX;
	bool unknown = read_value(root, out, "memory.max", &limit) > INPUT_MISSING ||
	               read_value(root, out, "memory.high", &softer) > INPUT_MISSING;
	bool limited = unknown || limit < INT64_MAX || softer < INT64_MAX;
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
