/* What an earlier life left is found by its mark, and nobody else is. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/leftovers.h"

static pid_t told_of[8];
static uint32_t told_count;
static char told_command[32];

static void told(pid_t pid, const char *command)
{
	told_of[told_count++ % 8] = pid;
	snprintf(told_command, sizeof(told_command), "%s", command);
}

/* In a session of its own, with that in its environment. */
static pid_t start(const char *variable)
{
	char *environment[] = { (char *)(uintptr_t)variable, NULL };
	int ready[2];
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		execle("/bin/sleep", "sleep", "1000", (char *)NULL, environment);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0); /* closed by exec */
	close(ready[0]);
	return pid;
}

static bool is_killed(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void what_has_the_mark_is_ended_and_nothing_else(void **state)
{
	char folder[] = "/tmp/leftovers-XXXXXX", path[64];
	char mark[LEFTOVERS_MARK], again[LEFTOVERS_MARK], other[LEFTOVERS_MARK];
	(void)state;

	assert_non_null(mkdtemp(folder));
	assert_true(leftovers_mark(folder, "/run/one", mark));
	assert_true(leftovers_mark(folder, "/run/one", again));
	assert_string_equal(mark, again); /* the next life is the same owner */
	assert_true(leftovers_mark(folder, "/run/other", other));
	assert_string_not_equal(mark, other);

	pid_t ours = start(mark), theirs = start(other);
	assert_int_equal(leftovers_end(mark, told), 1);
	assert_int_equal(told_count, 1);
	assert_int_equal(told_of[0], ours);
	assert_string_equal(told_command, "sleep");
	assert_true(is_killed(ours));
	assert_int_equal(kill(theirs, 0), 0);
	assert_int_equal(leftovers_end(mark, told), 0);
	assert_int_equal(leftovers_end("", told), 0);
	kill(theirs, SIGKILL);
	assert_true(is_killed(theirs));
	snprintf(path, sizeof(path), "%s/owner", folder);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
	assert_false(leftovers_mark(folder, "/run/one", mark)); /* nowhere to keep it */
	assert_string_equal(mark, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_the_mark_is_ended_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
