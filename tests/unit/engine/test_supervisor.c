#include "../cmocka_all.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "bench.h"

/* A model whose engine is the fake one, under the llama-server adapter, with these faults. */
static void fake_llama(struct bench *bench, const char *faults)
{
	char *yaml = xasprintf("engines: {fake: {kind: llama-server, path: %s}}\n"
	                       "models: {m: {engine: fake, file: /no/such/file.gguf, args: \"%s\"}}\n",
	                       getenv("FAKE_ENGINE"), faults);
	configure(bench, yaml);
	free(yaml);
}

static void fake_command(struct bench *bench, const char *words, const char *more)
{
	char *yaml = xasprintf("models: {m: {engine: command, footprint: 1GiB, cmd: \"%s %s\"%s}}\n",
	                       getenv("FAKE_ENGINE"), words, more);
	configure(bench, yaml);
	free(yaml);
}

static bool endpoint_of(struct bench *bench, struct endpoint *out)
{
	return supervisor_endpoint(bench->supervisor, bench->id, out);
}

static void stop_and_wait(struct bench *bench)
{
	supervisor_stop(bench->supervisor, bench->id, 0);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_NONE);
}

static void a_good_engine_gets_ready_and_stops(void **state)
{
	struct bench *bench = *state;
	struct endpoint endpoint;
	struct owner owner;

	fake_llama(bench, "--load-ms 60");
	spawn(bench);
	WAIT(spawned);
	assert_false(endpoint_of(bench, &endpoint));
	assert_true(supervisor_owner(bench->supervisor, bench->id, &owner));
	assert_int_equal(owner.pgid, bench->pid);
	assert_int_equal(getpgid(owner.pgid), owner.pgid);
	WAIT(ready);
	assert_int_equal(bench->slots, 2);
	assert_int_equal(bench->context_tokens, 1024);
	assert_true(endpoint_of(bench, &endpoint));
	assert_true(str_starts(str_from(endpoint.path), bench->folder));
	assert_string_equal(endpoint.key, "");
	assert_true(str_starts(supervisor_log(bench->supervisor, &bench->conf->models[0]), "fake_engine: starting\n"));
	stop_and_wait(bench);
	assert_true(WIFEXITED(bench->ending.wait_status));
	assert_false(bench->ending.never_ready);
	assert_false(endpoint_of(bench, &endpoint));
	pid_t pgid = owner.pgid;
	assert_false(supervisor_owner(bench->supervisor, bench->id, &owner));
	assert_int_equal(kill(pgid, 0), -1);
	/* Its log stays. */
	assert_true(str_ends(supervisor_log(bench->supervisor, &bench->conf->models[0]), "model loaded\n"));
}

static void readiness_is_noticed_at_once(void **state)
{
	struct bench *bench = *state;

	/* 200 ms of loading in silence: the poll alone has to notice the end. */
	fake_command(bench, "--host ${SOCKET} --load-ms 200", "");
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t begin = uv_hrtime();
		spawn(bench);
		WAIT(ready);
		uint64_t taken = (bench->ready_ns - begin) / 1000000;
		assert_true(taken >= 200);
		least = taken < least ? taken : least;
		stop_and_wait(bench);
	}
	assert_true(least < 260); /* the others were held up by whoever computes here as well */
}

static void an_engine_that_dies_while_loading_says_why(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--load-ms 20 --die-at loading --die-status 1 "
	                  "--die-line '0.00.1 E gguf_init_from_reader: failed to read magic'");
	spawn(bench);
	WAIT(gone);
	assert_int_equal(bench->ready, 0);
	assert_int_equal(bench->spawned, 1);
	assert_int_equal(bench->ending.fail, FAIL_LOAD_FAILED);
	assert_true(bench->ending.never_ready);
	assert_string_equal(bench->ending.text,
	                    "fake_engine ended with status 1 while loading: "
	                    "gguf_init_from_reader: failed to read magic");
	fake_llama(bench, "--die-at start --die-signal 11");
	spawn(bench);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_LOAD_FAILED);
	assert_false(bench->ending.never_ready);
	assert_int_equal(WTERMSIG(bench->ending.wait_status), SIGSEGV);
}

static void an_engine_that_dies_idle_is_reported(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--die-at idle --die-signal 6 --die-line 'x.c:1: GGML_ASSERT(y) failed'");
	spawn(bench);
	WAIT(ready);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_ENGINE_DIED);
	assert_string_equal(bench->ending.text,
	                    "fake_engine was ended by signal 6 (Aborted): x.c:1: GGML_ASSERT(y) failed");
	fake_llama(bench, "--die-at idle --die-status 0");
	spawn(bench);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_ENGINE_DIED);
}

static void an_engine_that_dies_in_mid_stream_is_reported(void **state)
{
	struct bench *bench = *state;
	struct endpoint endpoint;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char request[] = "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 15\r\n\r\n{\"stream\":true}";

	fake_llama(bench, "--die-at midstream --die-signal 9");
	spawn(bench);
	WAIT(ready);
	assert_true(endpoint_of(bench, &endpoint));
	memcpy(address.sun_path, endpoint.path, sizeof(address.sun_path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
	WAIT(gone);
	close(fd);
	assert_int_equal(bench->ending.fail, FAIL_ENGINE_DIED);
	assert_string_equal(bench->ending.text, "fake_engine was killed from outside (signal 9); "
	                                         "the kernel counted no kill for memory");
}

static void one_that_never_gets_ready_can_be_killed(void **state)
{
	static const char *const faults[] = { "--never-ready", "--no-listen", "--hang-health 9" };
	struct bench *bench = *state;

	for (int i = 0; i < 3; i++) {
		fake_llama(bench, faults[i]);
		spawn(bench);
		assert_false(comes(bench, &bench->ready, 1, 300));
		supervisor_kill(bench->supervisor, bench->id);
		WAIT(gone);
		assert_int_equal(bench->ready, 0);
		assert_int_equal(bench->ending.fail, FAIL_NONE);
		assert_int_equal(WTERMSIG(bench->ending.wait_status), SIGKILL);
	}
}

static void health_that_hung_once_is_asked_again(void **state)
{
	struct bench *bench = *state;

	fake_command(bench, "--host 127.0.0.1 --port ${PORT} --hang-health 1", "");
	spawn(bench);
	WAIT(ready);
	stop_and_wait(bench);
}

static void movement_while_loading_is_told(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--load-ms 700 --anon-mib 64");
	spawn(bench);
	WAIT(ready);
	assert_true(bench->progress >= 1);
	stop_and_wait(bench);
}

static void a_flood_of_log_blocks_nobody_and_is_not_kept(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--log-flood 200 --long-line 50");
	spawn(bench);
	WAIT(ready);
	struct str log = supervisor_log(bench->supervisor, &bench->conf->models[0]);
	assert_true(log.length > 32 * 1024);
	assert_true(log.length <= 64 * 1024);
	stop_and_wait(bench);
}

/* What the loop's timers count from: its own time stands still while it is not run. */
static uint64_t loop_now_ns(const struct bench *bench)
{
	return uv_now(&bench->loop) * 1000000;
}

static void term_unheard_is_said_again_and_then_kill(void **state)
{
	struct bench *bench = *state;

	/* A second TERM after 10 s / 20 (see bench.h), and that one is heard. */
	fake_llama(bench, "--ignore-first-term");
	spawn(bench);
	WAIT(ready);
	uint64_t start = loop_now_ns(bench);
	supervisor_stop(bench->supervisor, bench->id, 0);
	supervisor_stop(bench->supervisor, bench->id, 0);
	WAIT(gone);
	uint64_t ms = (bench->gone_ns - start) / 1000000;
	assert_true(ms >= 500);
	assert_int_equal(bench->ending.fail, FAIL_NONE);
	assert_true(WIFEXITED(bench->ending.wait_status));
	/* None is heard: KILL 5 s / 20 later. */
	fake_llama(bench, "--ignore-term");
	spawn(bench);
	WAIT(ready);
	start = loop_now_ns(bench);
	stop_and_wait(bench);
	assert_true((bench->gone_ns - start) / 1000000 >= 750);
	assert_int_equal(WTERMSIG(bench->ending.wait_status), SIGKILL);
	assert_string_equal(bench->ending.text, "fake_engine was stopped (killed)");
}

static void a_kill_does_not_wait(void **state)
{
	struct bench *bench = *state;

	fake_command(bench, "--host ${SOCKET} --ignore-term", "");
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 3; i++) {
		spawn(bench);
		WAIT(ready);
		uint64_t start = uv_hrtime();
		supervisor_stop(bench->supervisor, bench->id, 0);
		supervisor_kill(bench->supervisor, bench->id);
		WAIT(gone);
		uint64_t taken = (bench->gone_ns - start) / 1000000;
		least = taken < least ? taken : least;
		assert_int_equal(bench->ending.fail, FAIL_NONE);
		assert_int_equal(WTERMSIG(bench->ending.wait_status), SIGKILL);
	}
	assert_true(least < 700); /* of 750 that it would have had */
}

static void a_stop_while_loading_is_quick(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--load-ms 60000");
	spawn(bench);
	supervisor_stop(bench->supervisor, bench->id, 0); /* before it even runs */
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_NONE);
	spawn(bench);
	WAIT(spawned);
	assert_false(comes(bench, &bench->ready, 1, 50));
	stop_and_wait(bench);
	assert_int_equal(bench->ready, 0);
}

static void what_is_no_program_is_said(void **state)
{
	struct bench *bench = *state;
	char plain[] = "/tmp/supervisor-plain-XXXXXX";

	configure(bench, "models: {m: {engine: command, footprint: 1GiB, cmd: \"/no/such/program ${PORT}\"}}\n");
	spawn(bench);
	WAIT(gone);
	assert_int_equal(bench->spawned, 0);
	assert_int_equal(bench->ending.fail, FAIL_LOAD_FAILED);
	assert_true(bench->ending.never_ready);
	assert_string_equal(bench->ending.text,
	                    "program could not be started: exec /no/such/program: No such file or directory");
	close(mkstemp(plain));
	char *yaml = xasprintf("models: {m: {engine: command, footprint: 1GiB, cmd: \"%s ${PORT}\"}}\n", plain);
	configure(bench, yaml);
	free(yaml);
	spawn(bench);
	WAIT(gone);
	assert_true(bench->ending.never_ready);
	assert_non_null(strstr(bench->ending.text, "Permission denied"));
	unlink(plain);
	/* A program, but the wrong one. */
	configure(bench, "models: {m: {engine: command, footprint: 1GiB, cmd: \"false ${PORT}\"}}\n");
	spawn(bench);
	WAIT(gone);
	assert_string_equal(bench->ending.text, "false ended with status 1 while loading");
}

static void a_connection_is_enough_where_health_is_empty(void **state)
{
	struct bench *bench = *state;
	struct endpoint endpoint;

	fake_command(bench, "--host 127.0.0.1 --port ${PORT} --listen-late --load-ms 50 --hang-health 9", "");
	bench->conf->models[0].health[0] = '\0';
	spawn(bench);
	WAIT(ready);
	assert_true(endpoint_of(bench, &endpoint));
	assert_string_equal(endpoint.path, "");
	assert_true(endpoint.port > 0);
	assert_int_equal(bench->slots, 2);
	stop_and_wait(bench);
}

static void a_child_that_left_goes_with_its_engine(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--fork-child");
	spawn(bench);
	WAIT(ready);
	kill(bench->pid, SIGKILL);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_ENGINE_DIED);
}

static void fifty_lives_leave_nothing_open(void **state)
{
	struct bench *bench = *state;
	int before = 0;

	fake_llama(bench, "--load-ms 1");
	for (int i = 0; i < 51; i++) {
		spawn(bench);
		WAIT(ready);
		if (i % 2)
			supervisor_kill(bench->supervisor, bench->id);
		else
			supervisor_stop(bench->supervisor, bench->id, 0);
		WAIT(gone);
		if (i == 0)
			before = count_fds();
	}
	assert_int_equal(count_fds(), before);
}

static void what_cannot_be_started_is_refused_at_once(void **state)
{
	struct bench *bench = *state;
	struct err err = { 0 };

	configure(bench, "models: {m: {engine: command, footprint: 1GiB, cmd: \"prog ${PORT}\"}}\n");
	bench->conf->models[0].cmd_argv.items[1][0] = 'x';
	assert_int_equal(try_spawn(bench, 1, 0, &err), -EINVAL);
	assert_non_null(strstr(err.text, "${PORT}"));
	fake_llama(bench, "");
	bench->conf->models[0].engine = CONF_ENGINE_VLLM;
	assert_int_equal(try_spawn(bench, 1, 0, &err), -ENOTSUP);
	bench->conf->models[0].engine = CONF_ENGINE_LLAMA_SERVER;
	spawn(bench);
	WAIT(ready);
	stop_and_wait(bench);
}

static void the_keeper_s_death_is_the_engines_end_and_no_more(void **state)
{
	struct bench *bench = *state;

	fake_llama(bench, "--fork-child");
	spawn(bench);
	WAIT(ready);
	kill(keeper_pid(bench->keeper), SIGKILL);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_ENGINE_DIED);
	struct err err;
	for (int i = 0; i < 100 && try_spawn(bench, 2, 1024, &err) == -EAGAIN; i++)
		uv_run(&bench->loop, UV_RUN_ONCE);
	WAIT(ready);
	stop_and_wait(bench);
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest all[] = {
		BENCH_TEST(a_good_engine_gets_ready_and_stops),
		BENCH_TEST(readiness_is_noticed_at_once),
		BENCH_TEST(an_engine_that_dies_while_loading_says_why),
		BENCH_TEST(an_engine_that_dies_idle_is_reported),
		BENCH_TEST(an_engine_that_dies_in_mid_stream_is_reported),
		BENCH_TEST(one_that_never_gets_ready_can_be_killed),
		BENCH_TEST(health_that_hung_once_is_asked_again),
		BENCH_TEST(movement_while_loading_is_told),
		BENCH_TEST(a_flood_of_log_blocks_nobody_and_is_not_kept),
		BENCH_TEST(term_unheard_is_said_again_and_then_kill),
		BENCH_TEST(a_kill_does_not_wait),
		BENCH_TEST(a_stop_while_loading_is_quick),
		BENCH_TEST(what_is_no_program_is_said),
		BENCH_TEST(a_connection_is_enough_where_health_is_empty),
		BENCH_TEST(a_child_that_left_goes_with_its_engine),
		BENCH_TEST(fifty_lives_leave_nothing_open),
		BENCH_TEST(what_cannot_be_started_is_refused_at_once),
		BENCH_TEST(the_keeper_s_death_is_the_engines_end_and_no_more),
	};
	if (!getenv("FAKE_ENGINE")) {
		printf("FAKE_ENGINE names no program: skipped\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(all, NULL, NULL);
}
