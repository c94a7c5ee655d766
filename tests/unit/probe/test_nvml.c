/* NVML by dlopen: what it answers, what it does not, and its absence. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../cmocka_all.h"
#include "probe/nvml.h"

static void a_card_and_a_unified_device(void **state)
{
	static struct calls calls;

	(void)state;
	calls_clear(&calls);
	nvml_ask(getenv("COTENANT_TEST_NVML"), &calls);
	assert_int_equal(calls.nvmls, 2);
	assert_int_equal(calls.nvml[0].total_bytes, INT64_C(24) << 30);
	assert_int_equal(calls.nvml[0].free_bytes, INT64_C(20) << 30);
	assert_int_equal(calls.nvml[1].total_bytes, -1); /* not supported */
	assert_int_equal(strlen(calls.nvml[0].name), sizeof calls.nvml[0].name - 1);
	/* In both lists the larger counts; what is not available is left out. */
	assert_int_equal(calls.nvml[0].processes, 1);
	assert_int_equal(calls.nvml[0].process[0].used_bytes, INT64_C(3) << 30);
	assert_int_equal(calls.nvml[1].process[0].used_bytes, INT64_C(5) << 30);
}

static int64_t used_by(const struct calls_nvml *gpu, pid_t pid)
{
	for (uint32_t i = 0; i < gpu->processes; i++)
		if (gpu->process[i].pid == pid)
			return gpu->process[i].used_bytes;
	return -1;
}

/* However many there are, all are asked for; who use most are kept. */
static void many_processes(void **state)
{
	static struct calls calls;
	const char *library = getenv("COTENANT_TEST_NVML");
	void *same = dlopen(library, RTLD_NOW);
	void (*others)(unsigned);

	(void)state;
	memcpy(&others, &(void *){ dlsym(same, "fake_processes") }, sizeof(void *));
	others(CALLS_PROCESSES_MAX - 1);
	calls_clear(&calls);
	nvml_ask(library, &calls);
	assert_int_equal(calls.nvml[0].processes, CALLS_PROCESSES_MAX);
	assert_int_equal(calls.nvml[0].left_out, 0);
	assert_int_equal(used_by(&calls.nvml[0], 1000), 1 << 20);
	others(500);
	calls_clear(&calls);
	nvml_ask(library, &calls);
	assert_int_equal(calls.nvml[0].processes, CALLS_PROCESSES_MAX);
	assert_int_equal(calls.nvml[0].left_out, 501 - CALLS_PROCESSES_MAX);
	int64_t sum = calls.nvml[0].left_out_bytes;
	for (uint32_t i = 0; i < calls.nvml[0].processes; i++)
		sum += calls.nvml[0].process[i].used_bytes;
	assert_int_equal(sum, (INT64_C(3) << 30) + (INT64_C(500) * 501 / 2 << 20));
	assert_int_equal(used_by(&calls.nvml[0], 11), INT64_C(3) << 30);
	assert_int_equal(used_by(&calls.nvml[0], 1499), INT64_C(500) << 20);
	assert_int_equal(used_by(&calls.nvml[0], 1000), -1);
	others(100000); /* of nobody, then: said so */
	calls_clear(&calls);
	nvml_ask(library, &calls);
	assert_true(calls.nvml[0].left_out >= 100000);
	others(0);
	dlclose(same);
}

static void a_library_that_is_not_there(void **state)
{
	static struct calls calls;

	(void)state;
	calls_clear(&calls);
	calls.nvmls = 3;
	nvml_ask("/nonexistent/libnvidia-ml.so.1", &calls);
	assert_int_equal(calls.nvmls, 0);
}

/* While it is in use it is opened once. */
static void a_session_stays_open(void **state)
{
	static struct calls calls;
	const char *library = getenv("COTENANT_TEST_NVML");
	void *same = dlopen(library, RTLD_NOW);
	int (*opened)(void), (*closed)(void);

	(void)state;
	memcpy(&opened, &(void *){ dlsym(same, "fake_opened") }, sizeof(void *));
	memcpy(&closed, &(void *){ dlsym(same, "fake_closed") }, sizeof(void *));
	int before = opened();
	struct nvml_session *session = nvml_open(library);
	assert_non_null(session);
	for (int i = 0; i < 3; i++) {
		calls_clear(&calls);
		nvml_read(session, &calls);
		assert_int_equal(calls.nvmls, 2);
	}
	assert_int_equal(opened(), before + 1);
	assert_int_equal(closed(), before);
	nvml_close(session);
	assert_int_equal(closed(), before + 1);
	assert_null(nvml_open("/nonexistent/libnvidia-ml.so.1"));
	nvml_close(NULL);
	dlclose(same);
}

static void what_was_asked_can_be_recorded(void **state)
{
	static struct calls calls;

	(void)state;
	calls_clear(&calls);
	nvml_ask(getenv("COTENANT_TEST_NVML"), &calls);
	char *text = calls_text(&calls);
	assert_non_null(strstr(text, "25769803776"));
	assert_non_null(strstr(text, "\"total_bytes\": null"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_card_and_a_unified_device),
		cmocka_unit_test(many_processes),
		cmocka_unit_test(a_library_that_is_not_there),
		cmocka_unit_test(a_session_stays_open),
		cmocka_unit_test(what_was_asked_can_be_recorded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
