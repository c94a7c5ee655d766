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
		cmocka_unit_test(a_library_that_is_not_there),
		cmocka_unit_test(a_session_stays_open),
		cmocka_unit_test(what_was_asked_can_be_recorded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
