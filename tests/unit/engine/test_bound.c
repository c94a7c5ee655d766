/*
 * A control group of an engine's own, on a folder that is none: what the kernel refuses, and what goes away,
 * costs the bound and not the engine. How it is where all goes well, tests/e2e/bounded.py shows in a kernel of its own.
 */
#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "bench.h"
#include "engine/bound.h"
#include "engine/instance.h"

enum { HIGH = 64 << 20 };

/* What a new group has in it, as the kernel would make it. */
static enum { NOTHING, WRITABLE, NOT_WRITABLE } has_high;

int mkdir(const char *path, mode_t mode)
{
	char high[PATH_MAX];

	if (mkdirat(AT_FDCWD, path, mode) < 0)
		return -1;
	snprintf(high, sizeof(high), "%s/memory.high", path);
	if (has_high == WRITABLE)
		close(open(high, O_WRONLY | O_CREAT, 0600));
	else if (has_high == NOT_WRITABLE)
		mkdirat(AT_FDCWD, high, 0700);
	return 0;
}

struct fixture {
	struct bounds bounds;
	char group[BOUND_PATH_MAX];
};

static char *in(const char *folder, const char *name)
{
	return xasprintf("%s/%s", folder, name);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char *path = in(folder, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	free(path);
}

static char *text_in(const char *folder, const char *name)
{
	static char text[64];
	char *path = in(folder, name);
	FILE *file = fopen(path, "r");

	free(path);
	if (!file)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

/* Whatever is left of a folder. */
static void clear(const char *folder)
{
	assert_int_equal(nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS), 0);
}

/* A folder that was left to us; `delegated`: with the file that hands the memory controller down. */
static void room(struct bounds *bounds, bool delegated)
{
	*bounds = (struct bounds){ 0 };
	snprintf(bounds->folder, sizeof(bounds->folder), "/tmp/bound-XXXXXX");
	assert_non_null(mkdtemp(bounds->folder));
	snprintf(bounds->mounts.v2, sizeof(bounds->mounts.v2), "/tmp");
	if (delegated)
		write_file(bounds->folder, "cgroup.subtree_control", "");
}

static int make(struct fixture *fixture, struct err *err)
{
	*err = (struct err){ 0 };
	return bound_make(&fixture->bounds, 7, HIGH, fixture->group, err);
}

static void a_group_has_its_bound_before_anybody_is_in_it(void **state)
{
	struct fixture fixture;
	struct err err;
	(void)state;

	room(&fixture.bounds, true);
	has_high = WRITABLE;
	assert_int_equal(make(&fixture, &err), 0);
	assert_string_equal(text_in(fixture.bounds.folder, "cgroup.subtree_control"), "+memory");
	assert_string_equal(text_in(fixture.group, "memory.high"), "67108864");
	assert_int_equal(bound_raise(fixture.group, 2 * HIGH), 0);
	assert_string_equal(text_in(fixture.group, "memory.high"), "134217728");
	assert_false(bound_holds(&fixture.bounds, fixture.group, getpid()));
	char *self = xasprintf("%d\n", (int)getpid());
	write_file(fixture.group, "cgroup.procs", self);
	free(self);
	assert_true(bound_holds(&fixture.bounds, fixture.group, getpid()));
	clear(fixture.bounds.folder);
}

static void what_the_kernel_refuses_is_said_and_leaves_no_group(void **state)
{
	struct fixture fixture;
	struct err err;
	(void)state;

	/* The memory controller is not handed down. */
	room(&fixture.bounds, false);
	has_high = WRITABLE;
	assert_int_equal(make(&fixture, &err), -ENOENT);
	assert_string_equal(fixture.group, "");
	assert_non_null(strstr(err.text, "/cotenant-"));
	assert_int_equal(rmdir(fixture.bounds.folder), 0);
	/* It is, and has no bound; or one that may not be written. */
	room(&fixture.bounds, true);
	has_high = NOTHING;
	assert_int_equal(make(&fixture, &err), -ENOENT);
	assert_string_equal(fixture.group, "");
	has_high = NOT_WRITABLE;
	assert_int_equal(make(&fixture, &err), -EISDIR);
	assert_string_equal(fixture.group, "");
	clear(fixture.bounds.folder);
	/* The folder is gone. */
	assert_int_equal(make(&fixture, &err), -ENOENT);
	/* A path that no buffer holds. */
	memset(fixture.bounds.folder, 'x', BOUND_PATH_MAX);
	assert_int_equal(make(&fixture, &err), -ENAMETOOLONG);
	assert_string_equal(fixture.group, "");
}

static void a_group_that_vanished_is_nobodys(void **state)
{
	struct fixture fixture;
	struct err err;
	(void)state;

	room(&fixture.bounds, true);
	has_high = WRITABLE;
	assert_int_equal(make(&fixture, &err), 0);
	clear(fixture.group);
	assert_int_equal(bound_raise(fixture.group, 2 * HIGH), -ENOENT);
	assert_false(bound_holds(&fixture.bounds, fixture.group, getpid()));
	bound_remove(fixture.group);
	clear(fixture.bounds.folder);
}

/* A group that somebody is in cannot be removed: here, one that is not empty. */
static void the_next_daemon_removes_what_one_could_not(void **state)
{
	struct bounds bounds;
	(void)state;

	room(&bounds, true);
	has_high = NOTHING;
	pid_t dead = fork();
	if (dead == 0)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	char *busy = xasprintf("%s/cotenant-%d-1", bounds.folder, (int)dead);
	char *empty = xasprintf("%s/cotenant-%d-2", bounds.folder, (int)dead);
	char *living = xasprintf("%s/cotenant-%d-3", bounds.folder, (int)getpid());
	char *others = xasprintf("%s/cotenant-%d-4.scope", bounds.folder, (int)dead);
	char *member = in(busy, "member");
	assert_int_equal(mkdir(busy, 0700) | mkdir(empty, 0700) | mkdir(living, 0700) | mkdir(others, 0700) |
	                         mkdir(member, 0700),
	                 0);
	bound_remove(busy);
	assert_int_equal(access(busy, F_OK), 0);
	bounds_remove_stale(bounds.folder);
	assert_int_equal(access(busy, F_OK), 0);
	assert_int_equal(access(empty, F_OK), -1);
	assert_int_equal(access(living, F_OK), 0);
	assert_int_equal(access(others, F_OK), 0);
	assert_int_equal(rmdir(member), 0);
	bounds_remove_stale(bounds.folder);
	assert_int_equal(access(busy, F_OK), -1);
	bounds_remove_stale("/no/such/folder");
	clear(bounds.folder);
	free(busy);
	free(empty);
	free(living);
	free(others);
	free(member);
}

/* ---- the engine runs on all the same ---- */

static struct supervisor *with_room(struct bench *bench, bool delegated)
{
	char *yaml = xasprintf("engines: {fake: {kind: llama-server, path: %s}}\n"
	                       "models: {m: {engine: fake, file: /no/such/file.gguf}}\n", getenv("FAKE_ENGINE"));
	configure(bench, yaml);
	free(yaml);
	bench->bound_bytes = HIGH;
	room(&bench->supervisor->bounds, delegated);
	return bench->supervisor;
}

static struct instance *instance_of(struct supervisor *supervisor)
{
	return LIST_ENTRY(supervisor->instances.next, struct instance, node);
}

static void stop_and_wait(struct bench *bench)
{
	supervisor_stop(bench->supervisor, bench->id, 0);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_NONE);
	clear(bench->supervisor->bounds.folder);
}

static void an_engine_without_a_group_is_started_without_a_bound(void **state)
{
	struct bench *bench = *state;
	struct supervisor *supervisor = with_room(bench, false);

	spawn(bench);
	WAIT(ready);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 0);
	supervisor_raise_bound(supervisor, bench->id, 2 * HIGH);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 0);
	stop_and_wait(bench);
}

/* The folder is no control group: nobody can be started in it. */
static void an_engine_that_did_not_get_into_its_group_has_no_bound(void **state)
{
	struct bench *bench = *state;
	struct supervisor *supervisor = with_room(bench, true);

	has_high = WRITABLE;
	spawn(bench);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), HIGH);
	WAIT(ready);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 0);
	stop_and_wait(bench);
}

static void a_bound_that_cannot_be_raised_is_told_as_it_is(void **state)
{
	struct bench *bench = *state;
	struct supervisor *supervisor = with_room(bench, true);
	struct err err;

	bench->bound_bytes = 0;
	spawn(bench);
	WAIT(ready);
	struct instance *instance = instance_of(supervisor);
	has_high = WRITABLE;
	assert_int_equal(bound_make(&supervisor->bounds, 1, HIGH, instance->group, &err), 0);
	instance->bound_bytes = HIGH;
	supervisor_raise_bound(supervisor, bench->id, 2 * HIGH);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 2 * HIGH);
	supervisor_raise_bound(supervisor, bench->id, HIGH); /* never lower */
	assert_string_equal(text_in(instance->group, "memory.high"), "134217728");
	/* It may no longer be written: what holds is told. */
	char *high = in(instance->group, "memory.high");
	assert_int_equal(unlink(high) | mkdirat(AT_FDCWD, high, 0700), 0);
	supervisor_raise_bound(supervisor, bench->id, 3 * HIGH);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 2 * HIGH);
	assert_true(instance->bound_failed);
	free(high);
	/* Somebody removed the group: nothing bounds it any more. */
	clear(instance->group);
	supervisor_raise_bound(supervisor, bench->id, 3 * HIGH);
	assert_int_equal(supervisor_bound_bytes(supervisor, bench->id), 0);
	stop_and_wait(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_group_has_its_bound_before_anybody_is_in_it),
		cmocka_unit_test(what_the_kernel_refuses_is_said_and_leaves_no_group),
		cmocka_unit_test(a_group_that_vanished_is_nobodys),
		cmocka_unit_test(the_next_daemon_removes_what_one_could_not),
		cmocka_unit_test_setup_teardown(an_engine_without_a_group_is_started_without_a_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(an_engine_that_did_not_get_into_its_group_has_no_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(a_bound_that_cannot_be_raised_is_told_as_it_is, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
