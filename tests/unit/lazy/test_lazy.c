/*
 * The preload library in a small program that uses ggml's buffers, and asked as the
 * daemon asks it. LAZY_ENGINE, LAZY_LIBRARY: their paths.
 */
#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct engine {
	pid_t pid;
	FILE *in, *out;
	char folder[64], socket[96];
};

static void start(struct engine *engine, const char *preload)
{
	int to[2], from[2];
	char variable[120];

	snprintf(engine->folder, sizeof(engine->folder), "/tmp/lazy-test-XXXXXX");
	assert_non_null(mkdtemp(engine->folder));
	snprintf(engine->socket, sizeof(engine->socket), "%s/engine.sock", engine->folder);
	assert_int_equal(pipe2(to, O_CLOEXEC) + pipe2(from, O_CLOEXEC), 0);
	snprintf(variable, sizeof(variable), "COTENANT_LAZY_SOCKET=%s", engine->socket);
	engine->pid = fork();
	if (engine->pid == 0) {
		char *program = getenv("LAZY_ENGINE");
		char loaded[600], other[] = "OTHER=kept";
		snprintf(loaded, sizeof(loaded), "LD_PRELOAD=%s", preload);
		char *environment[] = { loaded, variable, other, NULL };
		dup2(to[0], 0);
		dup2(from[1], 1);
		execve(program, (char *[]){ program, NULL }, environment);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	engine->in = fdopen(to[1], "w");
	engine->out = fdopen(from[0], "r");
}


static int end(void **state)
{
	struct engine *engine = *state;
	int status;

	fclose(engine->in);
	fclose(engine->out);
	waitpid(engine->pid, &status, 0);
	unlink(engine->socket);
	rmdir(engine->folder);
	free(engine);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void tell(struct engine *engine, const char *command, char *line, int size)
{
	fprintf(engine->in, "%s\n", command);
	fflush(engine->in);
	assert_non_null(fgets(line, size, engine->out));
	line[strcspn(line, "\n")] = '\0';
}

static int begin(void **state)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	char line[300];

	start(engine, getenv("LAZY_LIBRARY"));
	tell(engine, "variable OTHER", line, sizeof(line)); /* it has begun, and the library before it */
	*state = engine;
	return 0;
}

static unsigned long number(struct engine *engine, const char *command)
{
	char line[300];

	tell(engine, command, line, sizeof(line));
	return strtoul(line, NULL, 10);
}

/* The status; the body in `out`. -1: nobody listens. */
static int ask(const struct engine *engine, const char *request, char *out, size_t size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t length = 0;
	ssize_t got;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", engine->socket);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	dprintf(fd, "%s HTTP/1.1\r\nHost: engine\r\n\r\n", request);
	while ((got = recv(fd, out + length, size - 1 - length, 0)) > 0)
		length += (size_t)got;
	out[length] = '\0';
	close(fd);
	assert_memory_equal(out, "HTTP/1.1 ", 9);
	return (int)strtol(out + 9, NULL, 10);
}

static unsigned long fact(const struct engine *engine, const char *name)
{
	char text[1200], key[40];

	assert_int_equal(ask(engine, "GET /", text, sizeof(text)), 200);
	snprintf(key, sizeof(key), "\"%s\": ", name);
	const char *at = strstr(text, key);
	assert_non_null(at);
	at += strlen(key);
	return strncmp(at, "true", 4) == 0 ? 1 : strtoul(at, NULL, 10);
}

static void test_cleared_buffer_takes_no_memory(void **state)
{
	struct engine *engine = *state;

	assert_int_equal(fact(engine, "reached"), 0);
	number(engine, "map anon 64");
	number(engine, "fill 0 5");
	assert_int_equal(number(engine, "resident 0"), 65536);
	number(engine, "clear 0 0");
	assert_int_equal(number(engine, "resident 0"), 0);
	assert_int_equal(fact(engine, "reached"), 1);
	assert_int_equal(fact(engine, "buffers"), 1);
	assert_int_equal(fact(engine, "reserved_bytes"), 64 << 20);
	assert_int_equal(fact(engine, "left_out_bytes"), 64 << 20);
	assert_int_equal(number(engine, "sum 0"), 0);
	/* Zeros that were only read are the kernel's one page. */
	assert_int_equal(fact(engine, "resident_bytes"), 0);
}

static void test_discard_gives_back_what_was_filled(void **state)
{
	struct engine *engine = *state;
	char text[1200];

	number(engine, "map anon 64");
	number(engine, "clear 0 0");
	number(engine, "fill 0 5");
	assert_int_equal(fact(engine, "resident_bytes"), 64 << 20);
	assert_int_equal(fact(engine, "left_out_bytes"), 0);
	assert_int_equal(ask(engine, "POST /discard", text, sizeof(text)), 200);
	assert_non_null(strstr(text, "\"resident_bytes\": 0,"));
	assert_int_equal(number(engine, "resident 0"), 0);
	assert_int_equal(number(engine, "sum 0"), 0);
	assert_int_equal(fact(engine, "discards"), 1);
}

static void test_other_memory_is_cleared_as_ever(void **state)
{
	static const char *const kinds[] = { "shared", "file", "locked", "device" };
	struct engine *engine = *state;
	char command[40];

	for (int i = 0; i < 4; i++) {
		snprintf(command, sizeof(command), "map %s %d", kinds[i], i == 2 ? 1 : 40);
		number(engine, command);
		snprintf(command, sizeof(command), "fill %d 9", i);
		number(engine, command);
		snprintf(command, sizeof(command), "clear %d 0", i);
		number(engine, command);
		snprintf(command, sizeof(command), "sum %d", i);
		assert_int_equal(number(engine, command), 0);
		snprintf(command, sizeof(command), "resident %d", i);
		assert_int_equal(number(engine, command), (i == 2 ? 1 : 40) * 1024);
	}
	assert_int_equal(fact(engine, "buffers"), 0);
	assert_int_equal(fact(engine, "plain_clears"), 3);
}

static void test_other_values_are_written(void **state)
{
	struct engine *engine = *state;

	number(engine, "map anon 40");
	number(engine, "clear 0 1");
	assert_int_equal(number(engine, "sum 0"), 40 << 20);
	assert_int_equal(fact(engine, "buffers"), 0);
}

static void test_small_buffer_is_left_out_but_never_discarded(void **state)
{
	struct engine *engine = *state;
	char text[1200];

	number(engine, "map anon 8");
	number(engine, "fill 0 1");
	number(engine, "clear 0 0");
	assert_int_equal(number(engine, "resident 0"), 0);
	assert_int_equal(fact(engine, "left_out_bytes"), 8 << 20);
	number(engine, "fill 0 1");
	assert_int_equal(ask(engine, "POST /discard", text, sizeof(text)), 200);
	assert_int_equal(number(engine, "sum 0"), 8 << 20);
}

static void test_freed_buffer_is_forgotten(void **state)
{
	struct engine *engine = *state;

	number(engine, "map anon 64");
	number(engine, "clear 0 0");
	number(engine, "free 0");
	assert_int_equal(fact(engine, "buffers"), 0);
}

static void test_memory_of_somebody_else_is_not_discarded(void **state)
{
	struct engine *engine = *state;
	char text[1200];

	number(engine, "map anon 64");
	number(engine, "clear 0 0");
	number(engine, "steal 0");
	assert_int_equal(ask(engine, "POST /discard", text, sizeof(text)), 500);
	assert_int_equal(number(engine, "sum 0"), 7UL * (64 << 20));
	assert_int_equal(fact(engine, "buffers"), 0);
}

/* What it was told comes to 0, also while it is asked over and over. */
static void keeps_well(struct engine *engine, const char *command)
{
	unsigned long buffers = fact(engine, "buffers");
	char text[1200];

	fprintf(engine->in, "%s\n", command);
	fflush(engine->in);
	for (int i = 0; i < 50; i++)
		assert_true(ask(engine, "POST /discard", text, sizeof(text)) > 0);
	assert_non_null(fgets(text, sizeof(text), engine->out));
	assert_int_equal(strtoul(text, NULL, 10), 0);
	assert_int_equal(fact(engine, "buffers"), buffers);
}

static void test_many_threads_at_once(void **state)
{
	keeps_well(*state, "storm");
}

/* Whoever holds a lock at that moment, to look through a large buffer, is not in the child. */
static void test_children_that_are_only_forked(void **state)
{
	number(*state, "map anon 2000");
	number(*state, "clear 0 0");
	keeps_well(*state, "forks");
}

static void test_children_do_not_inherit_it(void **state)
{
	struct engine *engine = *state;
	char line[300];

	tell(engine, "variable LD_PRELOAD", line, sizeof(line));
	assert_string_equal(line, "-");
	tell(engine, "variable COTENANT_LAZY_SOCKET", line, sizeof(line));
	assert_string_equal(line, "-");
	tell(engine, "variable OTHER", line, sizeof(line));
	assert_string_equal(line, "kept");
}

static void test_bad_questions(void **state)
{
	struct engine *engine = *state;
	char text[1200], longest[1400];

	assert_int_equal(ask(engine, "GET /other", text, sizeof(text)), 404);
	assert_int_equal(ask(engine, "GET /discard", text, sizeof(text)), 404);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", engine->socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	send(fd, longest, sizeof(longest), MSG_NOSIGNAL);
	assert_true(recv(fd, text, sizeof(text), 0) <= 0); /* cut, not answered */
	close(fd);
	assert_int_equal(fact(engine, "buffers"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_cleared_buffer_takes_no_memory),
		TEST(test_discard_gives_back_what_was_filled),
		TEST(test_other_memory_is_cleared_as_ever),
		TEST(test_other_values_are_written),
		TEST(test_small_buffer_is_left_out_but_never_discarded),
		TEST(test_freed_buffer_is_forgotten),
		TEST(test_memory_of_somebody_else_is_not_discarded),
		TEST(test_many_threads_at_once),
		TEST(test_children_that_are_only_forked),
		TEST(test_children_do_not_inherit_it),
		TEST(test_bad_questions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
