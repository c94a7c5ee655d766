#include "pair.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/un.h>

static void test_a_socket_in_use_is_not_taken_over(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct err err = { 0 };

	(void)state;
	pair_unix(&pair);
	assert_null(listener_unix(pair.reactor, pair.path, 0600, (gid_t)-1, &events, &err));
	assert_int_equal(err.code, -EADDRINUSE);
	assert_int_equal(access(pair.path, F_OK), 0);
	pair_free(&pair);
}

static void test_a_stale_socket_file_is_replaced(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct sockaddr_un stale = { .sun_family = AF_UNIX };
	struct stat after;
	struct err err;

	(void)state;
	pair_init(&pair);
	snprintf(pair.path, sizeof(pair.path), "/tmp/cotenant-stale-%d.sock", (int)getpid());
	snprintf(stale.sun_path, sizeof(stale.sun_path), "%s", pair.path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&stale, sizeof(stale)), 0);
	close(fd);
	pair.listener = listener_unix(pair.reactor, pair.path, 0660, (gid_t)-1, &events, &err);
	assert_non_null(pair.listener);
	assert_int_equal(stat(pair.path, &after), 0);
	assert_true(S_ISSOCK(after.st_mode));
	assert_int_equal(after.st_mode & 0777, 0660);
	pair_free(&pair);
	assert_int_equal(access(pair.path, F_OK), -1);
}

static void test_a_file_that_is_no_socket_stays(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct err err = { 0 };
	struct stat after;

	(void)state;
	pair_init(&pair);
	snprintf(pair.path, sizeof(pair.path), "/tmp/cotenant-notes-%d", (int)getpid());
	FILE *notes = fopen(pair.path, "w");
	assert_non_null(notes);
	fclose(notes);
	assert_null(listener_unix(pair.reactor, pair.path, 0600, (gid_t)-1, &events, &err));
	assert_int_equal(err.code, -EEXIST);
	pair_free(&pair);
	assert_int_equal(stat(pair.path, &after), 0);
	assert_true(S_ISREG(after.st_mode));
	unlink(pair.path);
}

static void test_a_bad_address_is_named(void **state)
{
	struct pair pair;
	struct listener_events events = { .ctx = &pair, .on_connection = pair_accepted };
	struct err err = { 0 };

	(void)state;
	pair_tcp(&pair);
	assert_null(listener_tcp(pair.reactor, "localhost", 0, &events, &err));
	assert_non_null(strstr(err.text, "localhost"));
	uint16_t taken = listener_port(pair.listener);
	assert_null(listener_tcp(pair.reactor, "127.0.0.1", taken, &events, &err));
	assert_int_equal(err.code, -EADDRINUSE);
	pair_free(&pair);
}

static void test_paused_connections_wait_and_are_taken_later(void **state)
{
	struct pair pair;

	(void)state;
	pair_tcp(&pair);
	listener_pause(pair.listener);
	RUN_UNTIL(&pair.loop, stream_connected(pair.near.stream));
	for (int i = 0; i < 5; i++)
		uv_run(&pair.loop, UV_RUN_NOWAIT);
	assert_null(pair.far.stream);
	listener_resume(pair.listener);
	RUN_UNTIL(&pair.loop, pair.far.stream);
	pair_free(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_socket_in_use_is_not_taken_over),
		cmocka_unit_test(test_a_stale_socket_file_is_replaced),
		cmocka_unit_test(test_a_file_that_is_no_socket_stays),
		cmocka_unit_test(test_a_bad_address_is_named),
		cmocka_unit_test(test_paused_connections_wait_and_are_taken_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
