/* Which build of an engine a program is: LAZY_ENGINE is one whose computing lies in a library. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/program.h"
#include "folder.h"

static void a_name_is_sought_in_path(void **state)
{
	char path[300];
	(void)state;

	assert_true(program_find("sh", path, sizeof(path)));
	assert_int_equal(path[0], '/');
	assert_true(program_find(path, path, sizeof(path)));
	assert_false(program_find("no-such-program-anywhere", path, sizeof(path)));
	assert_false(program_find("/no/such/program", path, sizeof(path)));
	assert_int_equal(program_build("no-such-program-anywhere", folder), 0);
}

static void touch(const char *path, struct timespec when)
{
	const struct timespec times[2] = { when, when };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Of a script nothing is known but the script: it is not started to be asked. */
static void a_script_stands_for_itself(void **state)
{
	static const char script[] = "#!/bin/sh\ntouch \"$0.was-run\"\n";
	char path[100], ran[120];
	(void)state;

	snprintf(path, sizeof(path), "%s/engine", folder);
	snprintf(ran, sizeof(ran), "%s.was-run", path);
	int fd = open(path, O_WRONLY | O_CREAT, 0700);
	assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
	close(fd);
	uint64_t build = program_build(path, folder);
	assert_true(build != 0);
	assert_int_equal(program_build(path, folder), build);
	assert_int_equal(access(ran, F_OK), -1);
	touch(path, (struct timespec){ .tv_sec = 1000 });
	assert_true(program_build(path, folder) != build);
}

static void write_program(const char *path, const char *script)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_int_equal(write(fd, script, strlen(script)), strlen(script));
	close(fd);
}

/* Asked once for each build; one that fails says nothing, and is asked again. */
static void a_flag_is_known_from_its_help(void **state)
{
	char path[100], silent[100];
	(void)state;

	snprintf(path, sizeof(path), "%s/helpful", folder);
	snprintf(silent, sizeof(silent), "%s/silent", folder);
	write_program(path, "#!/bin/sh\n[ \"$1\" = --help ] && echo '--spec-type none,draft-simple'\n");
	write_program(silent, "#!/bin/sh\nexit 1\n");
	assert_int_equal(program_help_names(path, folder, "draft-simple", true), HELP_UNKNOWN);
	assert_int_equal(program_help_names(path, folder, "draft-simple", false), HELP_NAMES);
	assert_int_equal(program_help_names(path, folder, "draft-simple", true), HELP_NAMES);
	assert_int_equal(program_help_names(path, folder, "draft-other", false), HELP_DOES_NOT);
	assert_int_equal(program_help_names(silent, folder, "draft-simple", false), HELP_UNKNOWN);
	assert_int_equal(program_help_names("no-such-program-anywhere", folder, "draft-simple", false), HELP_UNKNOWN);
	touch(path, (struct timespec){ .tv_sec = 1000 });
	assert_int_equal(program_help_names(path, folder, "draft-simple", true), HELP_UNKNOWN);
}

/* Old ones tell it on stderr; a version of another kind is no build. */
static void a_release_is_known_from_its_version(void **state)
{
	static const struct {
		const char *says;
		int64_t release;
	} cases[] = {
		{ "version: 0.7.0 (build 11669, commit Debian)", 11669 },
		{ "version: 4404 (0827b2c1)\nbuilt with cc", 4404 },
		{ "version: 1.8.2", 0 },
		{ "(build 99999999999999999999)", 0 },
		{ "version: ", 0 },
		{ "", 0 },
	};
	char path[100], script[200];
	(void)state;

	snprintf(path, sizeof(path), "%s/versioned", folder);
	assert_int_equal(program_release(path, folder, false), -1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(script, sizeof(script), "#!/bin/sh\n[ \"$1\" = --version ] && printf '%s\\n' >&%d\n", cases[i].says,
		         1 + (int)(i % 2));
		write_program(path, script);
		touch(path, (struct timespec){ .tv_sec = 1000 + (time_t)i });
		assert_int_equal(program_release(path, folder, true), -1);
		assert_int_equal(program_release(path, folder, false), cases[i].release);
		assert_int_equal(program_release(path, folder, true), cases[i].release);
	}
	/* One that serves whatever it is asked is ended soon, and not asked again. */
	write_program(path, "#!/bin/sh\nexec sleep 60\n");
	touch(path, (struct timespec){ .tv_sec = 2000 });
	time_t begun = time(NULL);
	assert_int_equal(program_release(path, folder, false), 0);
	assert_true(time(NULL) - begun < 30);
	assert_int_equal(program_release(path, folder, true), 0);
}

/* An upgrade of the library alone, the program untouched. */
static void a_new_library_is_a_new_build(void **state)
{
	const char *engine = getenv("LAZY_ENGINE"), *library = getenv("ENGINE_LIBRARY");
	struct stat st;
	(void)state;

	assert_int_equal(stat(library, &st), 0);
	uint64_t before = program_build(engine, folder);
	assert_int_equal(program_build(engine, folder), before); /* from the kept list */
	uint64_t alone = program_build(engine, NULL);
	touch(library, (struct timespec){ .tv_sec = 1000 });
	assert_true(program_build(engine, folder) != before);
	assert_int_equal(program_build(engine, NULL), alone);
	touch(library, st.st_mtim);
}

/* The same program, sent to look elsewhere for its libraries: what was kept of it holds no more. */
static void another_place_for_libraries_is_another_build(void **state)
{
	const char *engine = getenv("LAZY_ENGINE"), *library = getenv("ENGINE_LIBRARY");
	char other[300];
	(void)state;

	uint64_t before = program_build(engine, folder);
	snprintf(other, sizeof(other), "%s/%s", folder, strrchr(library, '/') + 1);
	assert_int_equal(symlink(library, other), 0);
	setenv("LD_LIBRARY_PATH", folder, 1);
	uint64_t after = program_build(engine, folder);
	unsetenv("LD_LIBRARY_PATH");
	assert_true(after != before);
	assert_int_equal(program_build(engine, folder), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_sought_in_path),
		cmocka_unit_test(a_script_stands_for_itself),
		cmocka_unit_test(a_flag_is_known_from_its_help),
		cmocka_unit_test(a_release_is_known_from_its_version),
		cmocka_unit_test(a_new_library_is_a_new_build),
		cmocka_unit_test(another_place_for_libraries_is_another_build),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
