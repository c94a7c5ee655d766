/* Sizes of buffers in an engine's log, which is a peer's text. */
#include "../cmocka_all.h"
#include "engine/told.h"

static int64_t told(const char *log)
{
	return told_compute_bytes(str_from(log));
}

static void the_last_of_each_device_counts(void **state)
{
	(void)state;
	assert_int_equal(told("0.00.041 I sched_reserve:        CPU compute buffer size =     5.50 MiB\n"), 11 << 19);
	assert_int_equal(told("x: CUDA0 compute buffer size = 0.00 MiB\nx: CUDA0 compute buffer size = 300.75 MiB\n"
	                      "x: CUDA_Host compute buffer size = 12.01 MiB\nother\n"),
	                 (int64_t)(300.75 * 1048576) + (12 << 20) + 10485);
}

static void nonsense_is_left_out(void **state)
{
	(void)state;
	assert_int_equal(told(""), 0);
	assert_int_equal(told(" compute buffer size ="), 0);
	assert_int_equal(told("CPU compute buffer size = MiB\nCPU compute buffer size = 1.2.3 MiB\n"), 0);
	assert_int_equal(told("CPU compute buffer size = 99999999999999999999 MiB\n"), 0);
	assert_int_equal(told("CPU compute buffer size = -5 MiB\nCPU compute buffer size = 5 GiB\n"), 0);
}

static bool names(const char *log, const char *build)
{
	return str_is(told_build(str_from(log)), build);
}

static void a_build_is_named_as_it_names_itself(void **state)
{
	(void)state;
	assert_true(names("0.00.010 I load_backend: loaded\n0.00.011 I cmn  common_param: common_params_print_info: build 11669 (Debian) "
	                  "with GNU 16.2.0 for Linux x86_64\n0.00.012 I x\n", "build 11669 (Debian)"));
	assert_true(names("x print_info: build 7", "build 7"));
	assert_true(names("", ""));
	assert_true(names("print_info: file format = GGUF V3\n", ""));
	assert_true(names("print_info: build \x1b[31m7 with\n", ""));
	assert_true(names("print_info: build 1234567890123456789012345678901234567890123456789012345678901234567890\n", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_of_each_device_counts),
		cmocka_unit_test(nonsense_is_left_out),
		cmocka_unit_test(a_build_is_named_as_it_names_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
