/*
 * The real llama-server, where COTENANT_TEST_LLAMA and COTENANT_TEST_GGUF name it and
 * a small model: does it take our command line and end as the drain rule thinks?
 */
#include "../cmocka_all.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "bench.h"

static void real_model(struct bench *bench, const char *file, const char *more)
{
	char *yaml = xasprintf("engines: {real: {kind: llama-server, path: %s}}\n"
	                       "models: {m: {engine: real, file: %s%s}}\n",
	                       getenv("COTENANT_TEST_LLAMA"), file, more);
	configure(bench, yaml);
	free(yaml);
}

static void it_gets_ready_with_our_flags(void **state)
{
	static const char *const more[] = { "", ", device: cpu, kv_type: q8_0", ", args: \"-c 512 -np 1\"" };
	struct bench *bench = *state;

	for (int i = 0; i < 3; i++) {
		real_model(bench, getenv("COTENANT_TEST_GGUF"), more[i]);
		spawn(bench);
		WAIT(ready);
		assert_int_equal(bench->slots, i == 2 ? 1 : 2);
		assert_int_equal(bench->context_tokens, i == 2 ? 512 : 1024);
		assert_true(bench->progress > 0);
		supervisor_stop(bench->supervisor, bench->id, 0);
		WAIT(gone);
		assert_int_equal(bench->ending.fail, FAIL_NONE);
		assert_true((bench->gone_ns - bench->ended_ns) / 1000000 < 100);
	}
}

static void an_embedding_model_takes_a_text_in_one_piece(void **state)
{
	struct bench *bench = *state;

	if (!getenv("COTENANT_TEST_ENCODER"))
		skip();
	real_model(bench, getenv("COTENANT_TEST_ENCODER"), "");
	bench->is_encoder = true;
	spawn(bench);
	WAIT(ready);
	struct str log = supervisor_log(bench->supervisor, &bench->conf->models[0]);
	assert_non_null(memmem(log.data, log.length, "n_ubatch              = 1024", 28));
	supervisor_stop(bench->supervisor, bench->id, 0);
	WAIT(gone);
}

static void its_complaints_are_understood(void **state)
{
	struct bench *bench = *state;

	real_model(bench, "/etc/hostname.gguf", "");
	spawn(bench);
	WAIT(gone);
	assert_int_equal(bench->ending.fail, FAIL_LOAD_FAILED);
	assert_true(bench->ending.never_ready);
	assert_non_null(strstr(bench->ending.text, "failed to open GGUF file"));
	real_model(bench, getenv("COTENANT_TEST_GGUF"), ", args: --nope");
	spawn(bench);
	WAIT(gone);
	assert_true(bench->ending.never_ready);
	assert_non_null(strstr(bench->ending.text, "invalid argument: --nope"));
}

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest all[] = {
		BENCH_TEST(it_gets_ready_with_our_flags),
		BENCH_TEST(an_embedding_model_takes_a_text_in_one_piece),
		BENCH_TEST(its_complaints_are_understood),
	};
	if (!getenv("COTENANT_TEST_LLAMA") || !getenv("COTENANT_TEST_GGUF"))
		return 77; /* skipped */
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(all, NULL, NULL);
}
