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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_of_each_device_counts),
		cmocka_unit_test(nonsense_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
