/* Small machines, made file by file: where the power comes from, what was killed for memory. */
#include "../cmocka_all.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/cgroup.h"
#include "probe/sample.h"
#include "probe/seen.h"

static char folder[] = "/tmp/test-small-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof path, "%s%s", folder, name);
	for (char *slash = strchr(path + sizeof folder, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool on_battery(void)
{
	static struct sample sample;
	struct err err = { 0 };

	sample = (struct sample){ 0 };
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	return sample.on_battery;
}

static void a_battery_without_mains(void **state)
{
	(void)state;

	put("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 500 kB\nMemAvailable: 600 kB\n");
	assert_false(on_battery());
	put("/sys/class/power_supply/mouse/type", "Battery\n");
	put("/sys/class/power_supply/mouse/scope", "Device\n");
	assert_false(on_battery());
	put("/sys/class/power_supply/BAT0/type", "Battery\n");
	assert_true(on_battery());
	put("/sys/class/power_supply/AC/type", "Mains\n");
	put("/sys/class/power_supply/AC/online", "0\n");
	assert_true(on_battery());
	put("/sys/class/power_supply/AC/online", "1\n");
	assert_false(on_battery());
}

static struct oom_count count(void)
{
	struct cgroup_mounts mounts;
	struct oom_count found;

	cgroup_find_mounts(folder, &mounts);
	cgroup_read_oom(folder, &mounts, &found);
	return found;
}

static void kills_and_hits_of_both_kinds_of_groups(void **state)
{
	(void)state;

	put("/proc/vmstat", "nr_free_pages 1\noom_kill 5\n");
	assert_int_equal(count().machine_kills, 5);
	assert_int_equal(count().group_kills, -1); /* no group can be read */
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 9\noom 0\noom_kill 2\n");
	put("/sys/fs/cgroup/a/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 4\n");
	assert_int_equal(count().group_kills, 2);
	assert_int_equal(count().limit_hits, 3); /* the limit is the ancestor's */
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	put("/proc/self/cgroup", "4:memory:/a\n");
	put("/sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	put("/sys/fs/cgroup/memory/a/memory.failcnt", "7\n");
	assert_int_equal(count().group_kills, 1);
	assert_int_equal(count().limit_hits, 7);
}

static void the_nearest_group_with_a_limit_tells_of_its_stalls(void **state)
{
	static struct cgroup_mounts mounts;
	static struct cgroup_limits limits;
	char path[PATH_MAX];

	(void)state;
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/memory.max", "max\n");
	cgroup_find_mounts(folder, &mounts);
	cgroup_find_limits(folder, &mounts, 1 << 30, &limits);
	assert_int_equal(limits.count, 0);
	assert_false(cgroup_pressure_path(&limits, path));
	put("/sys/fs/cgroup/a/memory.max", "536870912\n");
	cgroup_find_limits(folder, &mounts, 1 << 30, &limits);
	assert_int_equal(limits.count, 1);
	assert_true(cgroup_pressure_path(&limits, path));
	assert_string_equal(path, "/sys/fs/cgroup/a/memory.pressure");
	put("/sys/fs/cgroup/a/b/memory.high", "268435456\n");
	cgroup_find_limits(folder, &mounts, 1 << 30, &limits);
	assert_int_equal(limits.count, 2);
	assert_true(cgroup_pressure_path(&limits, path));
	assert_string_equal(path, "/sys/fs/cgroup/a/b/memory.pressure");
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	put("/proc/self/cgroup", "4:memory:/c\n");
	put("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1048576\n");
	cgroup_find_mounts(folder, &mounts);
	cgroup_find_limits(folder, &mounts, 1 << 30, &limits);
	assert_int_equal(limits.count, 1);
	assert_false(cgroup_pressure_path(&limits, path)); /* version 1 has no such file */
}

static const char *room(char out[PATH_MAX])
{
	struct cgroup_mounts mounts;

	cgroup_find_mounts(folder, &mounts);
	return cgroup_find_room(folder, &mounts, out);
}

static void a_group_is_made_where_one_was_left_to_us(void **state)
{
	char out[PATH_MAX];

	(void)state;
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	                            "32 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/daemon\n");
	assert_string_equal(room(out), "memory is counted by cgroup v1 here");
	put("/proc/self/mountinfo", "32 23 0:28 / /v2 rw - cgroup2 cgroup2 rw\n");
	assert_string_equal(room(out), "the daemon's control group does not count memory");
	put("/v2/daemon/cgroup.controllers", ""); /* it has what the one above hands down */
	put("/v2/daemon/cgroup.subtree_control", "");
	put("/v2/daemon/cgroup.type", "domain\n");
	put("/v2/daemon/cgroup.procs", "4711\n");

	/* The one above, once memory is handed down there; not beside a limit of its own. */
	put("/v2/cgroup.controllers", "cpu memory pids\n");
	put("/v2/cgroup.procs", "");
	put("/v2/cgroup.subtree_control", "cpu memory\n");
	assert_null(room(out));
	assert_string_equal(out, "/v2");
	put("/v2/daemon/memory.max", "1000000\n");
	assert_non_null(room(out));
	put("/v2/daemon/memory.max", "max\n");
	assert_null(room(out));
	put("/v2/cgroup.subtree_control", "cpu\n");
	assert_null(room(out)); /* the first of all can be made to */
	put("/v2/cgroup.type", "domain\n");
	assert_null(room(out)); /* so can one that nobody is in */
	put("/v2/cgroup.procs", "1\n");
	assert_non_null(room(out));
	assert_non_null(strstr(room(out), "is left to the daemon"));
	/* Ours hands it down. */
	put("/v2/daemon/cgroup.controllers", "memory\n");
	put("/v2/daemon/cgroup.subtree_control", "memory\n");
	if (geteuid() != 0) { /* root's is not left to it without a mark */
		assert_null(room(out));
		assert_string_equal(out, "/v2/daemon");
	} else {
		assert_non_null(room(out));
	}
}

static const struct input *input_named(const struct sample *sample, const char *name)
{
	for (uint32_t i = 0; i < sample->inputs.count; i++)
		if (strcmp(sample->inputs.list[i].name, name) == 0)
			return &sample->inputs.list[i];
	fail_msg("%s is not in the list", name);
	return NULL;
}

static void use_that_is_not_told_counts_as_the_limit(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	put("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 8388608 kB\nMemAvailable: 8388608 kB\n");
	put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/c\n");
	put("/sys/fs/cgroup/c/memory.max", "1073741824\n");
	put("/sys/fs/cgroup/c/memory.current", "536870912\n");
	put("/sys/fs/cgroup/c/memory.stat", "inactive_file 134217728\nactive_file 134217728\n");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_used_bytes, 384 << 20);
	assert_int_equal(sample.cgroup_hard_bytes, 256 << 20);
	assert_false(sample.cgroup_use_unknown);
	assert_int_equal(input_named(&sample, "/sys/fs/cgroup/c/memory.current")->state, INPUT_OK);
	put("/sys/fs/cgroup/c/memory.stat", "nothing that is known\n");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_used_bytes, 512 << 20);
	assert_true(sample.cgroup_use_unknown);
	assert_int_equal(input_named(&sample, "/sys/fs/cgroup/c/memory.stat")->state, INPUT_NONSENSE);
	put("/sys/fs/cgroup/c/memory.current", "12 things\n");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_used_bytes, 1 << 30);
	assert_int_equal(sample.cgroup_hard_bytes, 1 << 30);
	assert_int_equal(input_named(&sample, "/sys/fs/cgroup/c/memory.current")->state, INPUT_NONSENSE);
	put("/sys/fs/cgroup/c/memory.max", "");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_true(sample.cgroup_limit_bytes == INT64_MAX);
	assert_int_equal(input_named(&sample, "/sys/fs/cgroup/c/memory.max")->state, INPUT_UNREADABLE);
}

/* What bounded us a moment ago bounds us still while nobody can tell. */
static void a_limit_that_was_known_stays(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	put("/proc/self/cgroup", "0::/d\n");
	put("/sys/fs/cgroup/d/memory.max", "1073741824\n");
	put("/sys/fs/cgroup/d/memory.current", "536870912\n");
	put("/sys/fs/cgroup/d/memory.stat", "inactive_file 0\nactive_file 0\n");
	sample = (struct sample){ .seen = seen_new() };
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_limit_bytes, 1 << 30);
	put("/sys/fs/cgroup/d/memory.max", "");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_limit_bytes, 1 << 30);
	assert_int_equal(sample.cgroup_used_bytes, 512 << 20);
	assert_int_equal(input_named(&sample, "/sys/fs/cgroup/d/memory.max")->state, INPUT_UNREADABLE);
	put("/proc/self/cgroup", "");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.cgroup_limit_bytes, 1 << 30);
	put("/proc/self/cgroup", "0::/d\n");
	put("/sys/fs/cgroup/d/memory.max", "max\n");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_true(sample.cgroup_limit_bytes == INT64_MAX);
	seen_free(sample.seen);
}

/* Into the log once when it is no use, once when it is again. */
static void news_of_an_input_comes_once(void **state)
{
	static struct inputs now, told;

	(void)state;
	inputs_note(&now, "/proc/vmstat", INPUT_OK, true, "");
	assert_false(inputs_have_news(&told, &now.list[0]));
	inputs_note(&now, "/proc/vmstat", INPUT_NONSENSE, true, "");
	assert_int_equal(inputs_degraded(&now), 1);
	assert_true(inputs_have_news(&told, &now.list[0]));
	assert_false(inputs_have_news(&told, &now.list[0]));
	now.count = 0;
	inputs_note(&now, "/proc/vmstat", INPUT_OK, true, "");
	assert_true(inputs_have_news(&told, &now.list[0]));
	assert_false(inputs_have_news(&told, &now.list[0]));
	inputs_note(&now, "/proc/buddyinfo", INPUT_MISSING, false, "");
	assert_false(inputs_have_news(&told, &now.list[1])); /* not every kernel has one */
}

/* What has no line of a status is not a process that has nothing. */
static void a_process_that_tells_nothing_is_not_complete(void **state)
{
	static struct sample sample;
	struct err err = { 0 };

	(void)state;
	put("/proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 8388608 kB\nMemAvailable: 8388608 kB\n");
	put("/proc/55/stat", "55 (engine) S 1 55 55 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 1 0 100 0 0\n");
	put("/proc/55/status", "State:\tS (sleeping)\nRssAnon:\t1024 kB\n");
	sample = (struct sample){ .owners = 1, .owner = { { .pgid = 55 } } };
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_true(sample.owner[0].complete);
	assert_int_equal(sample.owner[0].anon_bytes, 1 << 20);
	put("/proc/55/status", "nothing of that kind\n");
	assert_int_equal(sample_read(folder, &sample, &err), 0);
	assert_int_equal(sample.owner[0].processes, 1);
	assert_false(sample.owner[0].complete);
}

static int make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

static int unmake(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_battery_without_mains),
		cmocka_unit_test(kills_and_hits_of_both_kinds_of_groups),
		cmocka_unit_test(the_nearest_group_with_a_limit_tells_of_its_stalls),
		cmocka_unit_test(a_group_is_made_where_one_was_left_to_us),
		cmocka_unit_test(use_that_is_not_told_counts_as_the_limit),
		cmocka_unit_test(a_limit_that_was_known_stays),
		cmocka_unit_test(news_of_an_input_comes_once),
		cmocka_unit_test(a_process_that_tells_nothing_is_not_complete),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
