/* The table in which an engine tells what it would take. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "engine/own_word.h"

#define MIB (INT64_C(1) << 20)

static bool line(struct own_word *word, const char *text)
{
	return own_word_line(word, str_from(text));
}

static void hosts_and_devices_are_told_apart(void **state)
{
	struct own_word word = { 0 };
	(void)state;
	assert_false(line(&word, "0.00 I common_init_: fitting params to device memory ..."));
	assert_false(line(&word, "0.9 I common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute    unaccounted |"));
	assert_false(line(&word, "0.9 I common_memory_breakdown_print: |   - CUDA0 (RTX 4090)    | 24080 = 11000 + (12000 =  9000 +    2700 +     300) +        1080 |"));
	assert_false(line(&word, "0.9 I common_memory_breakdown_print: |   - Host               |                  732 =   532 +     128 +      72                |"));
	assert_false(line(&word, "0.9 I common_memory_breakdown_print: |   - CPU_REPACK         |                  522 =   522 +       0 +       0                |"));
	assert_true(line(&word, "0.9 I common_params_fit_impl: projected to use 732 MiB of host memory"));
	assert_int_equal(word.rows, 3);
	assert_int_equal(word.device_weights_bytes, 9000 * MIB);
	assert_int_equal(word.device_context_bytes, 2700 * MIB);
	assert_int_equal(word.device_compute_bytes, 300 * MIB);
	assert_int_equal(word.host_weights_bytes, 1054 * MIB);
	assert_int_equal(word.host_compute_bytes, 72 * MIB);
}

static void what_is_no_table_tells_nothing(void **state)
{
	static const char *const lines[] = {
		"", "|", "memory_breakdown_print: |", "memory_breakdown_print: | - Host |", "memory_breakdown_print: | - Host | 5 = x + 1 + 2 |",
		"memory_breakdown_print: | - Host | 5 = 1 + 2 |", "memory_breakdown_print: | - Host | 5 = -1 + 2 + 3 |",
		"memory_breakdown_print: | - Host | 5 = 99999999999 + 2 + 3 |",
	};
	struct own_word word = { 0 };
	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_false(line(&word, lines[i]));
	assert_int_equal(word.rows, 0);
}

static void its_word_takes_the_formulas_place(void **state)
{
	struct own_word word = { .host_weights_bytes = 1000 * MIB, .host_context_bytes = 200 * MIB,
		                 .host_compute_bytes = 50 * MIB, .rows = 1 };
	struct estimate e = { .host = { 900 * MIB, 100 * MIB, 20 * MIB, 40 * MIB, 30 * MIB, 1090 * MIB },
		              .base_bytes = 1090 * MIB, .steady_bytes = 1090 * MIB, .peak_bytes = 1100 * MIB };
	(void)state;
	own_word_use(&word, &e);
	assert_int_equal(e.source, ESTIMATE_ENGINE);
	assert_int_equal(e.host.kv_bytes, 180 * MIB);
	assert_int_equal(e.base_bytes, 1280 * MIB);
	assert_int_equal(e.peak_bytes, 1290 * MIB);
	assert_true(e.upper_bytes > e.peak_bytes);
}

/* A program that is not there, one that ends, one that says nothing: each is told, none is left. */
static void no_answer_is_told(void **state)
{
	const struct launch_tuning plain = { 0 };
	struct own_word word;
	struct err err = { 0 };
	struct conf_model model = { .name = (char *)"m", .engine = CONF_ENGINE_LLAMA_SERVER, .file = (char *)"/nonexistent",
		                    .kv_type = (char *)"f16", .device = (char *)"cpu" };
	(void)state;
	model.engine_path = (char *)"/nonexistent/llama-server";
	assert_int_equal(own_word_ask(&model, 2048, 1, &plain, 1000, NULL, &word, &err), -ENOEXEC);
	model.engine_path = (char *)"/bin/true";
	assert_int_equal(own_word_ask(&model, 2048, 1, &plain, 10000, NULL, &word, &err), -ENODATA);
	char silent[] = "/tmp/test-own-word-XXXXXX";
	int fd = mkstemp(silent);
	static const char script[] = "#!/bin/sh\nexec sleep 60\n";
	assert_int_equal(write(fd, script, sizeof(script) - 1), sizeof(script) - 1);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	model.engine_path = silent;
	assert_int_equal(own_word_ask(&model, 2048, 1, &plain, 200, NULL, &word, &err), -ETIMEDOUT);
	atomic_bool given_up = true;
	assert_int_equal(own_word_ask(&model, 2048, 1, &plain, 60000, &given_up, &word, &err), -ECANCELED);
	unlink(silent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_and_devices_are_told_apart),
		cmocka_unit_test(what_is_no_table_tells_nothing),
		cmocka_unit_test(its_word_takes_the_formulas_place),
		cmocka_unit_test(no_answer_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
