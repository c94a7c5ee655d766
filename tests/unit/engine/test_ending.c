#include "../cmocka_all.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "engine/adapter.h"
#include "engine/ending.h"
#include "engine/log_tail.h"
#include "engine/process.h"

/* Wait statuses as the kernel packs them. */
#define EXITED(status) ((status) << 8)
#define KILLED(number) (number)

static struct ending judge(const char *log, int wait_status, bool was_ready)
{
	struct ending_facts facts = {
		.name = "llama-server",
		.patterns = &adapter_llama.log,
		.log = str_from(log),
		.wait_status = wait_status,
		.was_ready = was_ready,
	};
	struct ending ending;

	ending_judge(&facts, &ending);
	return ending;
}

static void a_bad_file_is_told_and_not_tried_again(void **state)
{
	struct ending ending = judge(
		"0.00.1 I srv    load_model: loading model '/m/x.gguf'\n"
		"0.00.150.332 E gguf_init_from_file: failed to open GGUF file '/m/x.gguf' (No such file or directory)\n"
		"0.00.150.482 E llama_model_load: error loading model: llama_model_loader: failed to load model\n"
		"0.00.162.241 E srv  llama_server: exiting due to model loading error\n",
		EXITED(1), false);
	(void)state;

	assert_int_equal(ending.fail, FAIL_LOAD_FAILED);
	assert_true(ending.never_ready);
	assert_int_equal(ending.cause, CAUSE_CRASHED);
	assert_string_equal(ending.text, "llama-server ended with status 1 while loading: gguf_init_from_file: failed "
	                                 "to open GGUF file '/m/x.gguf' (No such file or directory)");
}

static void each_hopeless_cause_is_known(void **state)
{
	static const char *const lines[] = {
		"0.0 E gguf_init_from_reader: failed to read magic",
		"0.0 E gguf_init_from_reader: invalid magic characters: 'hell', expected 'GGUF'",
		"0.0 E gguf_init_from_reader: failed to read key-value pairs",
		"0.0 E llama_model_load: error loading model: tensor 'x' data is not within the file bounds",
		"0.0 E llama_model_load: error loading model: unknown model architecture: 'llamx'",
		"error: invalid argument: --nope",
		"error while handling argument \"-c\": stoi",
		"0.0 E llama_init_from_model: quantized V cache requires flash_attn to be enabled",
	};
	(void)state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_true(judge(lines[i], EXITED(1), false).never_ready);
}

/* It names the victim; counters may have risen for another, or not be there. */
static void the_kernel_s_word_comes_before_its_counters(void **state)
{
	struct ending_facts facts = { .name = "llama-server", .patterns = &adapter_llama.log, .was_ready = true,
		                      .wait_status = KILLED(SIGKILL), .before = { 3, 1, 0 }, .now = { 3, 1, 0 } };
	struct ending ending;

	(void)state;
	ending_judge(&facts, &ending);
	assert_int_equal(ending.cause, CAUSE_KILLED);
	facts.told = (struct kmsg_kill){ .pid = 7, .limit = true };
	ending_judge(&facts, &ending);
	assert_int_equal(ending.cause, CAUSE_GROUP_LIMIT);
	facts.told.limit = false;
	ending_judge(&facts, &ending);
	assert_int_equal(ending.cause, CAUSE_MACHINE_FULL);
	assert_int_equal(ending.fail, FAIL_OUT_OF_MEMORY);
}

static void a_shortage_may_pass(void **state)
{
	struct ending ending = judge(
		"0.02.9 E ggml_aligned_malloc: insufficient memory (attempted to allocate 9765.62 MB)\n"
		"0.02.9 E cmn  common_init_: failed to create context with model 'tiny.gguf'\n",
		EXITED(1), false);
	(void)state;

	assert_false(ending.never_ready);
	assert_non_null(strstr(ending.text, "insufficient memory (attempted"));
	ending = judge("0.0 E srv         start: couldn't bind HTTP server socket, hostname: /s, port: 1\n",
	               EXITED(1), false);
	assert_false(ending.never_ready);
	assert_non_null(strstr(ending.text, "couldn't bind"));
}

static void later_the_last_complaint_counts(void **state)
{
	struct ending ending = judge("0.0 E srv send_error: request (9000 tokens) exceeds the context\n"
	                             "/src/ggml.c:77: GGML_ASSERT(x) failed\n"
	                             "0.0 I bye\n",
	                             KILLED(SIGABRT), true);
	(void)state;

	assert_int_equal(ending.fail, FAIL_ENGINE_DIED);
	assert_string_equal(ending.text,
	                    "llama-server was ended by signal 6 (Aborted): /src/ggml.c:77: GGML_ASSERT(x) failed");
	assert_non_null(strstr(judge("", KILLED(SIGBUS), true).text, "cut short"));
}

static enum end_cause cause_of_kill(struct oom_count before, struct oom_count now, bool asked)
{
	struct ending_facts facts = {
		.name = "llama-server",
		.patterns = &adapter_llama.log,
		.log = STR("0.0 E something else\n"),
		.wait_status = KILLED(SIGKILL),
		.before = before,
		.now = now,
		.asked = asked,
		.killed = asked,
	};
	struct ending ending;

	ending_judge(&facts, &ending);
	assert_null(strstr(ending.text, "something else")); /* it had no time to say why */
	bool full = ending.cause >= CAUSE_GROUP_LIMIT;
	assert_int_equal(ending.fail, asked ? FAIL_NONE : full ? FAIL_OUT_OF_MEMORY : FAIL_LOAD_FAILED);
	return ending.cause;
}

static void the_kernel_s_kill_is_told_from_others(void **state)
{
	const struct oom_count before = { .machine_kills = 7, .group_kills = 2, .limit_hits = 40 };
	struct oom_count now = before;
	(void)state;

	assert_int_equal(cause_of_kill(before, now, false), CAUSE_KILLED);
	now.machine_kills = 8; /* somebody else's process */
	assert_int_equal(cause_of_kill(before, now, false), CAUSE_KILLED);
	now.group_kills = 3;
	assert_int_equal(cause_of_kill(before, now, false), CAUSE_MACHINE_FULL);
	now.limit_hits = 41;
	assert_int_equal(cause_of_kill(before, now, false), CAUSE_GROUP_LIMIT);
	assert_int_equal(cause_of_kill(before, now, true), CAUSE_NONE);
	/* No group to be read: any kill on the machine may have been it. */
	const struct oom_count blind = { .machine_kills = 7, .group_kills = -1 };
	now = blind;
	assert_int_equal(cause_of_kill(blind, now, false), CAUSE_KILLED);
	now.machine_kills = 8;
	assert_int_equal(cause_of_kill(blind, now, false), CAUSE_MACHINE_FULL);
}

static void who_gave_up_for_memory_said_so(void **state)
{
	(void)state;

	assert_int_equal(judge("0.1 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 512.00 MiB on device 0: "
	                       "cudaMalloc failed: out of memory\n"
	                       "0.1 E llama_init_from_model: failed to initialize the context: failed to allocate\n",
	                       EXITED(1), false).cause, CAUSE_DEVICE_FULL);
	assert_int_equal(judge("ggml_vulkan: Device memory allocation of size 1073741824 failed.\n"
	                       "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n",
	                       EXITED(1), true).cause, CAUSE_DEVICE_FULL);
	assert_int_equal(judge("NvMapMemAllocInternalTagged: 1075072515 error 12\nNvMapMemHandleAlloc: error 0\n",
	                       EXITED(1), false).cause, CAUSE_DEVICE_FULL);
	assert_int_equal(judge("E0000 failed to create the compiled model: VK_ERROR_OUT_OF_DEVICE_MEMORY\n",
	                       EXITED(1), false).cause, CAUSE_DEVICE_FULL);
	assert_int_equal(judge("vkAllocateMemory: VK_ERROR_OUT_OF_HOST_MEMORY\n", EXITED(1), false).cause, CAUSE_HOST_FULL);
	assert_int_equal(judge("0.02.9 E ggml_aligned_malloc: insufficient memory (attempted to allocate 9765.62 MB)\n",
	                       EXITED(1), false).cause, CAUSE_HOST_FULL);
	assert_int_equal(judge("terminate called after throwing an instance of 'std::bad_alloc'\n", KILLED(SIGABRT),
	                       true).cause, CAUSE_HOST_FULL);
	assert_int_equal(judge("0.0 E srv: something\n", KILLED(SIGSEGV), true).cause, CAUSE_CRASHED);
	assert_int_equal(judge("", EXITED(0), true).cause, CAUSE_CRASHED);
}

static void what_is_printed_becomes_text(void **state)
{
	char long_line[3000];
	(void)state;

	struct ending ending = judge("error: \x1b[31mred\x1b[0m \xff\xc3 gr\xc3\xbc\xc3\x9f \xe2\x82\xac",
	                             EXITED(1), false);
	assert_string_equal(ending.text, "llama-server ended with status 1 while loading: error:  [31mred [0m ?? "
	                                 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
	memset(long_line, 'x', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = '\0';
	memcpy(long_line, "error", 5);
	ending = judge(long_line, EXITED(1), false);
	assert_true(strlen(ending.text) < 300);
	assert_string_equal(judge("", EXITED(3), false).text, "llama-server ended with status 3 while loading");
	assert_string_equal(judge("only this\n\n", EXITED(3), false).text,
	                    "llama-server ended with status 3 while loading: only this");
}

static void what_cannot_start_says_what_was_tried(void **state)
{
	struct ending ending;
	(void)state;

	ending_not_started("llama-server", ENOENT, "exec llama-server", &ending);
	assert_true(ending.never_ready);
	assert_int_equal(ending.fail, FAIL_LOAD_FAILED);
	assert_string_equal(ending.text,
	                    "llama-server could not be started: exec llama-server: No such file or directory");
	ending_not_started("llama-server", EAGAIN, "fork", &ending);
	assert_false(ending.never_ready);
}

static void the_tail_keeps_the_end_and_positions(void **state)
{
	struct log_tail tail = { 0 };
	char line[64];
	uint64_t mark = 0;
	(void)state;

	for (int i = 0; i < 100000; i++) {
		int length = snprintf(line, sizeof(line), "line %d\n", i);
		if (i == 99990)
			mark = tail.total;
		log_tail_append(&tail, (struct str){ line, (size_t)length });
		assert_true(log_tail_since(&tail, 0).length <= LOG_TAIL_BYTES);
	}
	assert_true(tail.kept.capacity <= 2 * LOG_TAIL_BYTES);
	struct str since = log_tail_since(&tail, mark);
	assert_true(str_starts(since, "line 99990\n"));
	assert_true(str_ends(since, "line 99999\n"));
	assert_int_equal(log_tail_since(&tail, tail.total).length, 0);
	char *large = calloc(1, 1 << 20);
	log_tail_append(&tail, (struct str){ large, 1 << 20 });
	assert_true(tail.kept.capacity <= 4 * LOG_TAIL_BYTES);
	assert_int_equal(log_tail_since(&tail, mark).length, LOG_TAIL_BYTES);
	free(large);
	buf_release(&tail.kept);
}

static void a_process_is_measured(void **state)
{
	(void)state;
	assert_true(process_bytes_moved(getpid()) > 100000);
	assert_int_equal(process_bytes_moved(0x7ffffff0), -1);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(a_bad_file_is_told_and_not_tried_again),
		cmocka_unit_test(each_hopeless_cause_is_known),
		cmocka_unit_test(a_shortage_may_pass),
		cmocka_unit_test(the_kernel_s_word_comes_before_its_counters),
		cmocka_unit_test(later_the_last_complaint_counts),
		cmocka_unit_test(the_kernel_s_kill_is_told_from_others),
		cmocka_unit_test(who_gave_up_for_memory_said_so),
		cmocka_unit_test(what_is_printed_becomes_text),
		cmocka_unit_test(what_cannot_start_says_what_was_tried),
		cmocka_unit_test(the_tail_keeps_the_end_and_positions),
		cmocka_unit_test(a_process_is_measured),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
