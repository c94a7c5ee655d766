#include "../cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "io/keeper.h"
#include "io/keeper_proc.h"

enum { SPAWNS = 256, DEADLINE_MS = 60000, PULSE_MS = 5 };

/* What was reported of one spawn; ids are indices here. */
struct seen {
	pid_t pid;
	int spawned;
	int failed;
	int ended;
	int gone;
	int error;
	char what[300];
	int wait_status;
	struct rusage usage;
};

struct bench {
	uv_loop_t loop;
	uv_timer_t alarm;
	struct keeper *keeper;
	struct seen seen[SPAWNS];
	int restarts;
};

static void on_spawned(void *ctx, uint64_t id, pid_t pid)
{
	struct bench *bench = ctx;
	bench->seen[id].spawned++;
	bench->seen[id].pid = pid;
}

static void on_failed(void *ctx, uint64_t id, int error, const char *what)
{
	struct bench *bench = ctx;
	bench->seen[id].failed++;
	bench->seen[id].error = error;
	snprintf(bench->seen[id].what, sizeof(bench->seen[id].what), "%s", what);
}

static void on_ended(void *ctx, uint64_t id, int wait_status, const struct rusage *usage)
{
	struct bench *bench = ctx;
	assert_int_equal(bench->seen[id].gone, 0);
	bench->seen[id].ended++;
	bench->seen[id].wait_status = wait_status;
	bench->seen[id].usage = *usage;
}

static void on_gone(void *ctx, uint64_t id)
{
	struct bench *bench = ctx;
	assert_int_equal(bench->seen[id].ended, 1);
	bench->seen[id].gone++;
}

static void on_restarted(void *ctx)
{
	struct bench *bench = ctx;
	bench->restarts++;
}

/* Only wakes the loop: what is waited for may come from a timer, and then the loop would go on to sleep. */
static void on_alarm(uv_timer_t *timer)
{
	(void)timer;
}

static void bench_start(struct bench *bench)
{
	struct err err = { 0 };

	memset(bench, 0, sizeof(*bench));
	bench->keeper = keeper_fork(&err);
	assert_non_null(bench->keeper);
	uv_loop_init(&bench->loop);
	uv_timer_init(&bench->loop, &bench->alarm);
	struct keeper_events events = { bench, on_spawned, on_failed, on_ended, on_gone, on_restarted };
	assert_int_equal(keeper_attach(bench->keeper, &bench->loop, &events, &err), 0);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct bench));
	bench_start(*state);
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	keeper_close(bench->keeper);
	uv_close((uv_handle_t *)&bench->alarm, NULL);
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&bench->loop), 0);
	free(bench);
	return 0;
}

/* Runs the loop until *counter has this value; fails the test after the deadline. */
static void wait_for(struct bench *bench, const int *counter, int value)
{
	uint64_t end = uv_hrtime() + DEADLINE_MS * UINT64_C(1000000);

	uv_timer_start(&bench->alarm, on_alarm, PULSE_MS, PULSE_MS);
	while (*counter < value && uv_hrtime() < end)
		uv_run(&bench->loop, UV_RUN_ONCE);
	uv_timer_stop(&bench->alarm);
	assert_int_equal(*counter, value);
}

static int spawn_with(struct bench *bench, uint64_t id, const char *const *argv, int log_fd,
                      const char *directory)
{
	static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "WORD=hello", NULL };
	struct keeper_command command = {
		.spawn_id = id, .argv = argv, .env = env, .directory = directory, .log_fd = log_fd
	};
	struct err err = { 0 };
	return keeper_spawn(bench->keeper, &command, &err);
}

static void spawn(struct bench *bench, uint64_t id, const char *const *argv)
{
	assert_int_equal(spawn_with(bench, id, argv, -1, NULL), 0);
}

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* One line from a log: digits of a pid, mostly. */
static void read_line(int fd, char *out, size_t out_bytes)
{
	size_t at = 0;
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	while (at + 1 < out_bytes && poll(&ready, 1, DEADLINE_MS) > 0 && read(fd, out + at, 1) == 1 &&
	       out[at] != '\n')
		at++;
	out[at] = '\0';
}

static pid_t read_pid(int fd)
{
	char line[64];
	read_line(fd, line, sizeof(line));
	return (pid_t)strtol(line, NULL, 10);
}

/* No process, not even a zombie, within the time. */
static bool vanishes(pid_t pid, int within_ms)
{
	for (int i = 0; i <= within_ms; i += 5) {
		if (kill(pid, 0) < 0 && errno == ESRCH)
			return true;
		struct timespec pause = { .tv_nsec = 5000000 };
		nanosleep(&pause, NULL);
	}
	return false;
}

static void an_exit_is_reported_with_status_and_usage(void **state)
{
	struct bench *bench = *state;

	spawn(bench, 0, ARGV("true"));
	spawn(bench, 1, ARGV("false"));
	spawn(bench, 2, ARGV("/bin/sh", "-c", "kill -SEGV $$"));
	spawn(bench, 3, ARGV("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 7"));
	for (int i = 0; i < 4; i++) {
		wait_for(bench, &bench->seen[i].gone, 1);
		assert_int_equal(bench->seen[i].spawned, 1);
		assert_int_equal(bench->seen[i].ended, 1);
		assert_int_equal(bench->seen[i].failed, 0);
		assert_true(bench->seen[i].pid > 0);
	}
	assert_int_equal(bench->seen[0].wait_status, 0);
	assert_int_equal(WEXITSTATUS(bench->seen[1].wait_status), 1);
	assert_int_equal(WTERMSIG(bench->seen[2].wait_status), SIGSEGV);
	assert_int_equal(WEXITSTATUS(bench->seen[3].wait_status), 7);
	assert_true(bench->seen[3].usage.ru_maxrss > 0);
	assert_true(bench->seen[3].usage.ru_utime.tv_usec > 0 || bench->seen[3].usage.ru_utime.tv_sec > 0);
}

static void what_cannot_start_is_said_with_its_reason(void **state)
{
	struct bench *bench = *state;
	char plain[] = "/tmp/keeper-test-XXXXXX";
	int fd = mkstemp(plain);

	close(fd);
	spawn(bench, 0, ARGV("/no/such/program"));
	spawn(bench, 1, ARGV("no-such-program-anywhere"));
	spawn(bench, 2, ARGV(plain));
	assert_int_equal(spawn_with(bench, 3, ARGV("true"), -1, "/no/such/folder"), 0);
	for (int i = 0; i < 4; i++) {
		wait_for(bench, &bench->seen[i].failed, 1);
		assert_int_equal(bench->seen[i].spawned, 0);
	}
	assert_int_equal(bench->seen[0].error, ENOENT);
	assert_string_equal(bench->seen[0].what, "exec /no/such/program");
	assert_int_equal(bench->seen[1].error, ENOENT);
	assert_string_equal(bench->seen[1].what, "exec no-such-program-anywhere");
	assert_int_equal(bench->seen[2].error, EACCES);
	assert_int_equal(bench->seen[3].error, ENOENT);
	assert_string_equal(bench->seen[3].what, "chdir /no/such/folder");
	unlink(plain);

	/* Nothing more follows, and the keeper goes on. */
	spawn(bench, 4, ARGV("true"));
	wait_for(bench, &bench->seen[4].gone, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(bench->seen[i].ended + bench->seen[i].gone, 0);
}

static void a_child_gets_its_environment_folder_and_log_and_nothing_else(void **state)
{
	struct bench *bench = *state;
	int ends[2];
	char line[400];

	assert_int_equal(pipe(ends), 0); /* not close-on-exec: the child must not have it all the same */
	const char *script = "echo $WORD $(pwd) $HOME; echo err >&2; ls /proc/self/fd | tr '\\n' ' '; echo; "
	                     "ps -o sid=,pgid= -p $$; echo $$; cat /proc/$$/status | grep SigIgn";
	assert_int_equal(spawn_with(bench, 0, ARGV("sh", "-c", script), ends[1], "/usr"), 0);
	close(ends[1]);
	read_line(ends[0], line, sizeof(line));
	assert_string_equal(line, "hello /usr");
	read_line(ends[0], line, sizeof(line));
	assert_string_equal(line, "err");
	read_line(ends[0], line, sizeof(line));
	assert_string_equal(line, "0 1 2 3 "); /* 3 is ls reading the folder */
	long session;
	long group;
	read_line(ends[0], line, sizeof(line));
	assert_int_equal(sscanf(line, "%ld %ld", &session, &group), 2);
	pid_t self = read_pid(ends[0]);
	assert_int_equal(session, self);
	assert_int_equal(group, self);
	read_line(ends[0], line, sizeof(line));
	/* libc keeps 32 and 33 to itself and resets neither; make(1) starts its children with them ignored. */
	unsigned long long ignored;
	assert_int_equal(sscanf(line, "SigIgn: %llx", &ignored), 1);
	assert_int_equal(ignored & ~(3ull << 31), 0);
	wait_for(bench, &bench->seen[0].gone, 1);
	close(ends[0]);
}

static void a_signal_reaches_the_whole_group(void **state)
{
	struct bench *bench = *state;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(spawn_with(bench, 0, ARGV("sh", "-c", "sleep 1000 & echo $!; wait"), ends[1], NULL), 0);
	close(ends[1]);
	pid_t child = read_pid(ends[0]);
	wait_for(bench, &bench->seen[0].spawned, 1);
	assert_int_equal(kill(child, 0), 0);
	keeper_signal(bench->keeper, 0, SIGTERM);
	wait_for(bench, &bench->seen[0].gone, 1);
	assert_int_equal(WTERMSIG(bench->seen[0].wait_status), SIGTERM);
	assert_int_equal(kill(child, 0), -1);
	close(ends[0]);
	keeper_signal(bench->keeper, 0, SIGTERM); /* gone: nothing happens */
}

static void grandchildren_that_left_the_session_go_too(void **state)
{
	struct bench *bench = *state;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	/* Same session; own session; own session and a child in a third; own session, clean environment. */
	const char *script = "sleep 1000 & echo $!; "
	                     "setsid sleep 1000 & echo $!; "
	                     "setsid sh -c 'setsid sleep 1000 & echo $!; wait' & echo $!; "
	                     "env -i /usr/bin/setsid sleep 1000 & echo $!; until [ -e $0 ]; do sleep 0.01; done; exit 3";
	char folder[] = "/tmp/keeper-told-XXXXXX", told[64];
	assert_non_null(mkdtemp(folder));
	snprintf(told, sizeof(told), "%s/all-are-there", folder);
	assert_int_equal(spawn_with(bench, 0, ARGV("sh", "-c", script, told), ends[1], NULL), 0);
	close(ends[1]);
	pid_t pids[5];
	for (int i = 0; i < 5; i++) {
		pids[i] = read_pid(ends[0]);
		assert_true(pids[i] > 0);
		assert_int_equal(kill(pids[i], 0), 0);
	}
	assert_int_equal(mkdir(told, 0700), 0);
	wait_for(bench, &bench->seen[0].gone, 1);
	assert_int_equal(WEXITSTATUS(bench->seen[0].wait_status), 3);
	for (int i = 0; i < 5; i++)
		assert_int_equal(kill(pids[i], 0), -1);
	rmdir(told);
	rmdir(folder);
	close(ends[0]);
}

static void one_engine_s_end_leaves_another_s_helpers_alone(void **state)
{
	struct bench *bench = *state;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	/* The helper is adopted by the keeper while its engine lives. */
	const char *script = "setsid sh -c 'setsid sleep 1000 & echo $!' ; exec sleep 1000";
	assert_int_equal(spawn_with(bench, 0, ARGV("sh", "-c", script), ends[1], NULL), 0);
	close(ends[1]);
	pid_t helper = read_pid(ends[0]);
	spawn(bench, 1, ARGV("true"));
	wait_for(bench, &bench->seen[1].gone, 1);
	assert_int_equal(kill(helper, 0), 0);
	keeper_signal(bench->keeper, 0, SIGKILL);
	wait_for(bench, &bench->seen[0].gone, 1);
	assert_int_equal(kill(helper, 0), -1);
	close(ends[0]);
}

static int count_fds(pid_t pid)
{
	char path[64];
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *folder = opendir(path);
	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void two_hundred_spawns_leak_no_descriptor(void **state)
{
	struct bench *bench = *state;

	spawn(bench, 0, ARGV("true"));
	wait_for(bench, &bench->seen[0].gone, 1);
	int here = count_fds(getpid());
	int there = count_fds(keeper_pid(bench->keeper));
	for (int i = 1; i <= 200; i++) {
		int ends[2];
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		const char *program = i % 10 == 0 ? "/no/such/program" : "true";
		assert_int_equal(spawn_with(bench, (uint64_t)i, ARGV(program), ends[1], NULL), 0);
		close(ends[1]);
		close(ends[0]);
	}
	for (int i = 1; i <= 200; i++)
		wait_for(bench, i % 10 == 0 ? &bench->seen[i].failed : &bench->seen[i].gone, 1);
	assert_int_equal(count_fds(getpid()), here);
	assert_int_equal(count_fds(keeper_pid(bench->keeper)), there);
}

static void what_is_too_long_is_refused(void **state)
{
	struct bench *bench = *state;
	static char large[KEEPER_MESSAGE_BYTES];
	const char *many[KEEPER_ARGV_MAX + 2];

	memset(large, 'x', sizeof(large) - 1);
	assert_int_equal(spawn_with(bench, 0, ARGV("true", large), -1, NULL), -E2BIG);
	for (int i = 0; i <= KEEPER_ARGV_MAX; i++)
		many[i] = "true";
	many[KEEPER_ARGV_MAX + 1] = NULL;
	assert_int_equal(spawn_with(bench, 0, many, -1, NULL), -E2BIG);
	many[KEEPER_ARGV_MAX] = NULL;
	spawn(bench, 0, many);
	large[60000] = '\0';
	/* More of them than the socket holds: they wait their turn. */
	for (int i = 1; i < 20; i++)
		spawn(bench, (uint64_t)i, ARGV("true", large));
	for (int i = 0; i < 20; i++)
		wait_for(bench, &bench->seen[i].gone, 1);
}

static void a_dead_keeper_is_replaced_and_its_engines_end(void **state)
{
	struct bench *bench = *state;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t first = keeper_pid(bench->keeper);
	spawn(bench, 0, ARGV("sleep", "1000"));
	assert_int_equal(spawn_with(bench, 1, ARGV("sh", "-c", "setsid sleep 1000 & echo $!; wait"), ends[1], NULL), 0);
	close(ends[1]);
	pid_t helper = read_pid(ends[0]);
	wait_for(bench, &bench->seen[0].spawned, 1);
	wait_for(bench, &bench->seen[1].spawned, 1);

	kill(first, SIGKILL);
	wait_for(bench, &bench->restarts, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bench->seen[i].ended, 1);
		assert_int_equal(bench->seen[i].gone, 1);
		assert_int_equal(WTERMSIG(bench->seen[i].wait_status), SIGKILL);
		assert_int_equal(kill(bench->seen[i].pid, 0), -1);
	}
	assert_int_equal(kill(helper, 0), -1);
	assert_int_not_equal(keeper_pid(bench->keeper), first);
	assert_int_equal(kill(keeper_pid(bench->keeper), 0), 0);

	spawn(bench, 2, ARGV("true"));
	wait_for(bench, &bench->seen[2].gone, 1);
	assert_int_equal(bench->seen[2].wait_status, 0);
	close(ends[0]);
}

/* A load waits for the keeper's word of an end; engines are no more important for it. */
static void the_keeper_goes_first_and_its_engines_do_not(void **state)
{
	struct bench *bench = *state;
	int ours = getpriority(PRIO_PROCESS, 0);
	bool may = ours > -20 && setpriority(PRIO_PROCESS, 0, ours - 1) == 0;

	setpriority(PRIO_PROCESS, 0, ours);
	spawn(bench, 0, ARGV("sleep", "1000"));
	wait_for(bench, &bench->seen[0].spawned, 1);
	int keepers = getpriority(PRIO_PROCESS, (id_t)keeper_pid(bench->keeper));
	assert_true(may ? keepers < ours : keepers == ours);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)bench->seen[0].pid), ours);
	setpriority(PRIO_PROCESS, 0, ours - 5); /* as a daemon does that began by forking its keeper */
	kill(keeper_pid(bench->keeper), SIGKILL);
	wait_for(bench, &bench->restarts, 1);
	spawn(bench, 1, ARGV("sleep", "1000"));
	wait_for(bench, &bench->seen[1].spawned, 1);
	assert_int_equal(getpriority(PRIO_PROCESS, (id_t)bench->seen[1].pid), ours);
	setpriority(PRIO_PROCESS, 0, ours);
}

/* One message and one turn of the loop for both; two only where somebody was left. */
static void an_end_that_leaves_nobody_is_told_as_one(void **state)
{
	struct bench *bench = *state;

	spawn(bench, 0, ARGV("true"));
	wait_for(bench, &bench->seen[0].ended, 1);
	assert_int_equal(bench->seen[0].gone, 1);
	spawn(bench, 1, ARGV("sh", "-c", "setsid sleep 1000 & exit 3"));
	wait_for(bench, &bench->seen[1].ended, 1);
	assert_int_equal(WEXITSTATUS(bench->seen[1].wait_status), 3);
	wait_for(bench, &bench->seen[1].gone, 1);
}

static void signals_of_the_terminal_leave_the_keeper_alone(void **state)
{
	struct bench *bench = *state;
	pid_t pid = keeper_pid(bench->keeper);

	spawn(bench, 0, ARGV("true")); /* it has put its signals in order by then */
	wait_for(bench, &bench->seen[0].gone, 1);
	assert_int_not_equal(getsid(pid), getsid(0));
	kill(pid, SIGTERM);
	kill(pid, SIGINT);
	kill(pid, SIGHUP);
	spawn(bench, 1, ARGV("true"));
	wait_for(bench, &bench->seen[1].gone, 1);
	assert_int_equal(bench->restarts, 0);
}

/* A daemon of its own: spawns, tells the pids, and waits for its death. */
static _Noreturn void mini_daemon(int out)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	char line[64];

	bench_start(bench);
	int length = snprintf(line, sizeof(line), "%d\n", (int)keeper_pid(bench->keeper));
	if (write(out, line, (size_t)length) != length)
		_exit(1);
	const char *script = "setsid sleep 1000 & echo $!; sleep 1000 & echo $!; echo $$; wait";
	spawn_with(bench, 0, ARGV("sh", "-c", script), out, NULL);
	uv_timer_start(&bench->alarm, on_alarm, 60000, 0);
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	_exit(1);
}

static void a_killed_daemon_leaves_no_orphan(void **state)
{
	int ends[2];
	(void)state;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t daemon_pid = fork();
	if (daemon_pid == 0)
		mini_daemon(ends[1]);
	close(ends[1]);
	pid_t pids[4];
	for (int i = 0; i < 4; i++) {
		pids[i] = read_pid(ends[0]);
		assert_true(pids[i] > 0);
		assert_int_equal(kill(pids[i], 0), 0);
	}
	kill(daemon_pid, SIGKILL);
	waitpid(daemon_pid, NULL, 0);
	for (int i = 1; i < 4; i++)
		assert_true(vanishes(pids[i], DEADLINE_MS));
	/* The keeper became our child; it ended in good order. */
	int status;
	assert_int_equal(waitpid(pids[0], &status, 0), pids[0]);
	assert_int_equal(status, 0);
	close(ends[0]);
}

static void both_ways_of_listing_children_agree(void **state)
{
	pid_t listed[64];
	pid_t scanned[64];
	pid_t child = fork();
	(void)state;

	if (child == 0) {
		pause();
		_exit(0);
	}
	ssize_t count = keeper_children_by_list(listed, 64);
	if (count < 0)
		skip();
	assert_int_equal(keeper_children_by_scan(scanned, 64), count);
	for (ssize_t i = 0; i < count; i++) {
		bool found = false;
		for (ssize_t j = 0; j < count; j++)
			found |= listed[i] == scanned[j];
		assert_true(found);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(keeper_session(child), -1);
	assert_int_equal(keeper_session(getpid()), getsid(0));
}

static void a_variable_is_found_whole_only(void **state)
{
	(void)state;
	pid_t child = fork();
	if (child == 0) {
		execle("/bin/sleep", "sleep", "1000", (char *)NULL, ARGV("AA=1", "MARK=12", "B=MARK=1"));
		_exit(1);
	}
	for (int i = 0; i < 1000 && !keeper_environ_has(child, "AA=1"); i++) {
		struct timespec pause = { .tv_nsec = 1000000 };
		nanosleep(&pause, NULL);
	}
	assert_true(keeper_environ_has(child, "MARK=12"));
	assert_false(keeper_environ_has(child, "MARK=1"));
	assert_false(keeper_environ_has(child, "MARK=123"));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_false(keeper_environ_has(child, "MARK=12"));
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(both_ways_of_listing_children_agree),
		cmocka_unit_test(a_variable_is_found_whole_only),
		BENCH_TEST(an_exit_is_reported_with_status_and_usage),
		BENCH_TEST(what_cannot_start_is_said_with_its_reason),
		BENCH_TEST(a_child_gets_its_environment_folder_and_log_and_nothing_else),
		BENCH_TEST(a_signal_reaches_the_whole_group),
		BENCH_TEST(grandchildren_that_left_the_session_go_too),
		BENCH_TEST(one_engine_s_end_leaves_another_s_helpers_alone),
		BENCH_TEST(two_hundred_spawns_leak_no_descriptor),
		BENCH_TEST(what_is_too_long_is_refused),
		BENCH_TEST(a_dead_keeper_is_replaced_and_its_engines_end),
		BENCH_TEST(the_keeper_goes_first_and_its_engines_do_not),
		BENCH_TEST(an_end_that_leaves_nobody_is_told_as_one),
		BENCH_TEST(signals_of_the_terminal_leave_the_keeper_alone),
		cmocka_unit_test(a_killed_daemon_leaves_no_orphan),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
