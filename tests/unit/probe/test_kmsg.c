/* The kernel's log of its kills, as records of /dev/kmsg. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/kmsg.h"

static bool parse(const char *record, struct kmsg_kill *out)
{
	return kmsg_parse(str_from(record), out);
}

static void a_kill_names_its_victim_and_whose_memory_was_out(void **state)
{
	struct kmsg_kill kill;

	(void)state;
	assert_true(parse("3,2101,98211,-;Memory cgroup out of memory: Killed process 4711 (llama-server) total-vm:9kB, "
	                  "anon-rss:8kB, UID:0 pgtables:1kB oom_score_adj:0\n", &kill));
	assert_int_equal(kill.pid, 4711);
	assert_true(kill.limit);
	assert_true(parse("3,2102,98212,-;Out of memory: Killed process 77 (python3) total-vm:9kB\n", &kill));
	assert_int_equal(kill.pid, 77);
	assert_false(kill.limit);
	assert_true(parse("3,1,2,c;Out of memory (oom_kill_allocating_task): Killed process 78 (a)\n", &kill));
	assert_int_equal(kill.pid, 78);
}

static void all_else_is_no_kill(void **state)
{
	static const char *const records[] = {
		"", "no semicolon: Out of memory: Killed process 5 (a)",
		"6,1,2,-;eth0: link up\n",
		"6,1,2,-;Killed process 5 (a)\n",
		"6,1,2,-;Out of memory: Killed process x (a)\n",
		"6,1,2,-;Out of memory: Killed process 0 (a)\n",
		"6,1,2,-;Out of memory: Killed process -5 (a)\n",
		"6,1,2,-;Out of memory: Killed process 99999999999999 (a)\n",
		"6,1,2,-;Out of memory: Killed process \n",
		/* What a driver adds below its record is not the kernel's word. */
		"6,1,2,-;usb 1-1: new device\n SUBSYSTEM=Out of memory: Killed process 5 (a)\n",
		"6,1,2,-;Killed process 5: it was out of memory\n",
	};
	struct kmsg_kill kill;

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		assert_false(parse(records[i], &kill));
}

/* Written by hand into a pipe, which gives what was written as records do, one at a time. */
static void each_of_several_victims_is_found(void **state)
{
	struct kmsg kmsg = { .fd = -1 };
	struct kmsg_kill kill;
	int ends[2];
	char record[128];

	(void)state;
	assert_false(kmsg_take(&kmsg, 1001, &kill)); /* it may not be read */
	assert_int_equal(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
	kmsg.fd = ends[0];
	for (int pid = 1001; pid < 1001 + KMSG_KILLS + 2; pid++) {
		int length = snprintf(record, sizeof(record), "3,1,2,-;%sut of memory: Killed process %d (a)\n",
		                      pid % 2 ? "Memory cgroup o" : "O", pid);
		assert_int_equal(write(ends[1], record, (size_t)length), length);
		assert_false(kmsg_take(&kmsg, 5, &kill));
	}
	assert_true(kmsg_take(&kmsg, 1001 + KMSG_KILLS, &kill));
	assert_true(kill.limit);
	assert_false(kmsg_take(&kmsg, 1001 + KMSG_KILLS, &kill)); /* another process by now */
	assert_true(kmsg_take(&kmsg, 1004, &kill));
	assert_false(kill.limit);
	assert_false(kmsg_take(&kmsg, 1001, &kill)); /* long ago */
	close(ends[1]);
	kmsg_close(&kmsg);
	assert_int_equal(kmsg.fd, -1);
}

static void this_machine_s_log_is_read_without_waiting(void **state)
{
	struct kmsg kmsg;
	struct kmsg_kill kill;

	(void)state;
	kmsg_open(&kmsg);
	assert_false(kmsg_take(&kmsg, getpid(), &kill));
	kmsg_close(&kmsg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kill_names_its_victim_and_whose_memory_was_out),
		cmocka_unit_test(all_else_is_no_kill),
		cmocka_unit_test(each_of_several_victims_is_found),
		cmocka_unit_test(this_machine_s_log_is_read_without_waiting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
