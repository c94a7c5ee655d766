/* The table in which an engine tells what it would take. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "engine/fit_params.h"
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
	/* What is rewritten for the processor lies in no device. */
	assert_false(line(&word, "0.9 I common_memory_breakdown_print: |   - AMX                |                 1958 =  1958 +       0 +       0                |"));
	assert_int_equal(word.host_weights_bytes, (1054 + 1958) * MIB);
	assert_int_equal(word.device_weights_bytes, 9000 * MIB);
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


/* What lies beside the model is no part of its word, nor of mapped experts what is not kept; KV that follows use is not base. */
static void what_it_does_not_speak_of_stays(void **state)
{
	struct own_word word = { .host_weights_bytes = 1000 * MIB, .host_context_bytes = 200 * MIB,
		                 .host_compute_bytes = 50 * MIB, .rows = 1 };
	struct estimate e = { .host = { 1200 * MIB, 150 * MIB, 0, 40 * MIB, 30 * MIB, 1420 * MIB },
		              .host_beside = { 300 * MIB, 50 * MIB, 0, 10 * MIB, 0, 360 * MIB },
		              .base_bytes = 1270 * MIB, .steady_bytes = 1420 * MIB, .peak_bytes = 1420 * MIB };
	(void)state;
	own_word_use(&word, &e);
	assert_int_equal(e.host.weights_bytes, 1300 * MIB);
	assert_int_equal(e.host.kv_bytes, 250 * MIB);
	assert_int_equal(e.host.compute_bytes, 60 * MIB);
	assert_int_equal(e.host.total_bytes, 1640 * MIB);
	assert_int_equal(e.base_bytes, 1390 * MIB);
	assert_int_equal(e.steady_bytes, 1640 * MIB);
	struct estimate part = { .host = { 500 * MIB, 100 * MIB, 0, 40 * MIB, 0, 640 * MIB }, .base_bytes = 640 * MIB,
		                 .experts = { .total_bytes = 600 * MIB, .resident_bytes = 100 * MIB, .mapped_bytes = 500 * MIB } };
	own_word_use(&word, &part);
	assert_int_equal(part.host.weights_bytes, 500 * MIB);
}

/* The formulas are never too small, and its compute buffers hold more logits than a server's: the smaller counts. */
static void compute_of_fit_params_is_a_bound(void **state)
{
	struct own_word word = { .host_weights_bytes = 399 * MIB, .host_context_bytes = 448 * MIB, .rows = 1,
		                 .host_compute_bytes = 290 * MIB, .from = WORD_OF_FIT_TABLE };
	const struct estimate formula = { .host = { 2400 * MIB, 400 * MIB, 0, 82 * MIB, 0, 2882 * MIB }, .base_bytes = 2882 * MIB };
	struct estimate e = formula;
	(void)state;
	own_word_use(&word, &e);
	assert_int_equal(e.host.compute_bytes, 82 * MIB);
	assert_int_equal(e.host.weights_bytes, 399 * MIB);
	e = formula;
	e.host.compute_bytes = 400 * MIB;
	own_word_use(&word, &e);
	assert_int_equal(e.host.compute_bytes, 290 * MIB);
	/* Its sums alone leave out what is rewritten. */
	word.from = WORD_OF_FIT_SUMS;
	e = formula;
	own_word_use(&word, &e);
	assert_int_equal(e.host.weights_bytes, 2400 * MIB);
	assert_int_equal(e.host.kv_bytes, 448 * MIB);
}

/* ---- llama-fit-params ---- */

/* What that of llama.cpp 0.7.0 (build 11669) printed of a 3B with a vocabulary of 128,256, -c 4096 -np 1. */
static const char printed[] =
	"0.00.009.713 I load_backend: loaded CPU backend from /usr/lib/libggml-cpu-sapphirerapids.so\n"
	"0.00.140.551 I common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context   compute    unaccounted |\n"
	"0.00.140.590 I common_memory_breakdown_print: |   - Host               |                 1138 =   399 +     448 +     290                |\n"
	"0.00.140.590 I common_memory_breakdown_print: |   - AMX                |                 1958 =  1958 +       0 +       0                |\n"
	"0.00.147.005 I llama_fit_params: printing estimated memory in MiB to stdout (device, model, context, compute) ...\n"
	"Host 399 448 290 \n";

struct folder {
	char path[32];
	char server[64], fit[64];
};

static void write_script(const char *path, const char *body)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file, "#!/bin/sh\n%s\n", body);
	assert_int_equal(fchmod(fileno(file), 0700), 0);
	fclose(file);
}

static void open_folder(struct folder *folder)
{
	snprintf(folder->path, sizeof(folder->path), "/tmp/own-word-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
	snprintf(folder->server, sizeof(folder->server), "%s/llama-server", folder->path);
	snprintf(folder->fit, sizeof(folder->fit), "%s/llama-fit-params", folder->path);
	write_script(folder->server, "echo 'error while handling argument' >&2; exit 1");
}

static void close_folder(struct folder *folder)
{
	unlink(folder->server);
	unlink(folder->fit);
	assert_int_equal(rmdir(folder->path), 0);
}

/* Asked of a server that does not tell, where llama-fit-params is this script. */
static int asked(const struct folder *folder, const char *script, int deadline_ms, struct own_word *word, struct err *err)
{
	const struct launch_tuning plain = { 0 };
	struct conf_model model = { .name = (char *)"m", .engine = CONF_ENGINE_LLAMA_SERVER, .file = (char *)"/nonexistent",
		                    .kv_type = (char *)"f16", .device = (char *)"cpu",
		                    .engine_path = (char *)folder->server };

	unlink(folder->fit);
	if (script)
		write_script(folder->fit, script);
	*err = (struct err){ 0 };
	return own_word_ask(&model, 4096, 1, &plain, deadline_ms, NULL, word, err);
}

static char *print(const char *text)
{
	return xasprintf("cat <<'END'\n%sEND", text);
}

static void where_a_server_does_not_tell_its_neighbour_is_asked(void **state)
{
	struct folder folder;
	struct own_word word;
	struct err err;
	(void)state;

	open_folder(&folder);
	char *script = print(printed);
	assert_int_equal(asked(&folder, script, 10000, &word, &err), 0);
	free(script);
	assert_int_equal(word.from, WORD_OF_FIT_TABLE);
	assert_int_equal(word.host_weights_bytes, (399 + 1958) * MIB);
	assert_int_equal(word.host_context_bytes, 448 * MIB);
	assert_int_equal(word.host_compute_bytes, 290 * MIB);
	assert_int_equal(word.device_weights_bytes, 0);
	/* A build whose log has no table. */
	assert_int_equal(asked(&folder, "printf 'CUDA0 9000 2700 300 \\nHost 532 0 72 \\n'", 10000, &word, &err), 0);
	assert_int_equal(word.from, WORD_OF_FIT_SUMS);
	assert_int_equal(word.device_weights_bytes, 9000 * MIB);
	assert_int_equal(word.device_context_bytes, 2700 * MIB);
	assert_int_equal(word.host_weights_bytes, 532 * MIB);
	/* A server that tells is believed, and nobody else is asked. */
	script = xasprintf("%s", "echo 'x memory_breakdown_print: |   - Host |  77 = 60 + 10 + 7 |'; echo 'x projected'; exec sleep 60");
	write_script(folder.server, script);
	free(script);
	assert_int_equal(asked(&folder, "exit 1", 10000, &word, &err), 0);
	assert_int_equal(word.from, WORD_OF_SERVER);
	assert_int_equal(word.host_compute_bytes, 7 * MIB);
	close_folder(&folder);
}

static void what_it_says_is_believed_only_where_it_hangs_together(void **state)
{
	static const char *const scripts[] = {
		NULL,
		"exit 1",
		"echo 'error: invalid argument: -np' >&2; exit 1",
		"echo 'Host 399 448 290 '; exit 1",
		"echo 'Host 399 448 290 '; kill -ABRT $$",
		"exit 0",
		"echo '-c 4096 -ngl -1'",
		"echo 'Host 9223372036854775808 448 290 '",
		"echo 'Host 9223372036854775807 9223372036854775807 9223372036854775807 '",
		"echo 'Host 399 -448 290 '",
		"echo 'Host 399 448 290 more'",
		"echo 'Host 399 448'",
		"echo ' 399 448 290'",
		"head -c 100000 /dev/urandom",
		"exec yes",
		"exec yes 'Host 399 448 290'",
		/* The table is of another launch. */
		"echo 'x memory_breakdown_print: |   - Host |  77 = 60 + 10 + 7 |'; echo x; echo 'Host 399 448 290 '",
	};
	struct folder folder;
	struct own_word word;
	struct err err;
	(void)state;

	open_folder(&folder);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		assert_int_equal(asked(&folder, scripts[i], 10000, &word, &err), -ENODATA);
		assert_int_equal(word.rows, 0);
		assert_non_null(strstr(err.text, "error while handling argument")); /* the server's own words */
	}
	assert_int_equal(asked(&folder, "exec sleep 60", 300, &word, &err), -ENODATA);
	/* It leaves its ends to somebody, and lives on: neither is waited for. */
	assert_int_equal(asked(&folder, "echo 'Host 399 448 290 '; exec >&- 2>&-; exec sleep 60", 10000, &word, &err), -ENODATA);
	close_folder(&folder);
}

static void it_is_given_only_the_flags_that_it_knows(void **state)
{
	static const char *const serving[] = {
		"-m", "/m/a.gguf", "--host", "/run/s.sock", "--alias", "-c", "-c", "8192", "-np", "2", "-fit", "off", "--cache-ram", "0",
		"-ctxcp", "3", "-lm", "none", "--no-repack", "--device", "none", "--embeddings", "--seed", "-1", "-ngl", "-1", "--lora",
		"/m/l.gguf", "-ot", "exps=CPU", "--fit", "on", "-lv", "4",
	};
	struct launch from = { WORDS_INIT, WORDS_INIT }, launch;
	struct buf line = BUF_INIT;
	struct folder folder;
	struct err err = { 0 };
	(void)state;

	open_folder(&folder);
	words_add(&from.argv, folder.server);
	for (size_t i = 0; i < sizeof(serving) / sizeof(*serving); i++)
		words_add(&from.argv, serving[i]);
	words_set(&from.env, "A", "b");
	assert_int_equal(fit_params_launch(&from, &launch, &err), -ENOENT);
	write_script(folder.fit, "exit 0");
	assert_int_equal(fit_params_launch(&from, &launch, &err), 0);
	assert_string_equal(launch.argv.items[0], folder.fit);
	for (size_t i = 1; i < launch.argv.count; i++)
		buf_printf(&line, "%s ", launch.argv.items[i]);
	assert_string_equal(buf_cstr(&line), "-m /m/a.gguf -c 8192 -np 2 --no-repack --device none -ngl -1 -ot exps=CPU "
	                                     "--fit-print on -lv 4 ");
	assert_string_equal(launch.env.items[0], "A=b");
	launch_release(&launch);
	/* By a link: its neighbours there, else those of what it leads to. */
	char link[64];
	snprintf(link, sizeof(link), "%s/elsewhere", folder.path);
	assert_int_equal(mkdir(link, 0700), 0);
	char *by_link = xasprintf("%s/server", link);
	assert_int_equal(symlink(folder.server, by_link), 0);
	free(from.argv.items[0]);
	from.argv.items[0] = xstrdup(by_link);
	assert_int_equal(fit_params_launch(&from, &launch, &err), 0);
	assert_string_equal(launch.argv.items[0], folder.fit);
	launch_release(&launch);
	/* Nothing is asked that would be answered of another launch. */
	words_add(&from.argv, "--kv-unified");
	assert_int_equal(fit_params_launch(&from, &launch, &err), -ENOTSUP);
	unlink(by_link);
	rmdir(link);
	free(by_link);
	buf_release(&line);
	launch_release(&from);
	close_folder(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_and_devices_are_told_apart),
		cmocka_unit_test(what_is_no_table_tells_nothing),
		cmocka_unit_test(its_word_takes_the_formulas_place),
		cmocka_unit_test(no_answer_is_told),
		cmocka_unit_test(what_it_does_not_speak_of_stays),
		cmocka_unit_test(compute_of_fit_params_is_a_bound),
		cmocka_unit_test(where_a_server_does_not_tell_its_neighbour_is_asked),
		cmocka_unit_test(what_it_says_is_believed_only_where_it_hangs_together),
		cmocka_unit_test(it_is_given_only_the_flags_that_it_knows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
