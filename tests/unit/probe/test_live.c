/* The probe against this machine and children whose memory is known. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "probe/programs.h"
#include "probe/sample.h"
#include "probe/seen.h"
#include "probe/topology.h"

#define MIB (INT64_C(1) << 20)

struct child {
	pid_t pid;
	int ready; /* read end: a byte comes when it holds its memory */
	int told;  /* of one that forks: read end, a byte comes from each of the two */
};

/* A process of its own session that touches `anon` bytes and the pages of `file`, then waits. */
static struct child start_child(int64_t anon, const char *file, int64_t file_bytes)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setsid();
		if (anon) {
			char *memory = mmap(NULL, (size_t)anon, PROT_READ | PROT_WRITE,
			                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (memory == MAP_FAILED)
				_exit(1);
			memset(memory, 1, (size_t)anon);
		}
		if (file) {
			int fd = open(file, O_RDONLY | O_CLOEXEC);
			volatile const char *pages = mmap(NULL, (size_t)file_bytes, PROT_READ, MAP_SHARED, fd, 0);
			if ((const void *)(uintptr_t)pages == MAP_FAILED)
				_exit(1);
			for (int64_t i = 0; i < file_bytes; i += 4096)
				(void)pages[i];
		}
		if (write(ends[1], "r", 1) != 1)
			_exit(1);
		alarm(30);
		pause();
		_exit(0);
	}
	close(ends[1]);
	char byte;
	assert_int_equal(read(ends[0], &byte, 1), 1);
	return (struct child){ pid, ends[0], -1 };
}

static void stop_child(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->ready);
	if (child->told >= 0)
		close(child->told);
}

static struct sample *read_live(struct sample *sample)
{
	struct err err = { 0 };
	if (sample_read("", sample, &err) < 0)
		fail_msg("%s", err.text);
	return sample;
}

/* What any child of this program has before it takes anything: more with a sanitizer. */
static int64_t own_of_nothing(void)
{
	static struct sample sample;
	struct child child = start_child(0, NULL, 0);

	sample = (struct sample){ .owners = 1, .owner[0].pgid = child.pid };
	read_live(&sample);
	stop_child(&child);
	return sample.owner[0].anon_bytes;
}

static void a_child_of_200_mib_is_measured(void **state)
{
	static struct sample sample;
	int64_t nothing = own_of_nothing();
	struct child child = start_child(200 * MIB, NULL, 0);

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pgid = child.pid };
	read_live(&sample);
	struct sample_owner *owner = &sample.owner[0];
	assert_int_equal(owner->processes, 1);
	assert_true(owner->complete);
	assert_in_range(owner->anon_bytes, 200 * MIB, 204 * MIB + nothing);
	assert_int_equal(owner->hot_file_bytes, 0);
	assert_int_equal(owner->own_bytes, owner->anon_bytes);
	assert_true(sample.unreclaimable_bytes >= owner->own_bytes);
	assert_true(sample.total_bytes > sample.unreclaimable_bytes);
	assert_true(owner->file_bytes > 0);
	stop_child(&child);

	read_live(&sample);
	assert_int_equal(owner->processes, 0);
	assert_int_equal(owner->own_bytes, 0);
}

static void a_mapped_model_counts_once_over_two_owners(void **state)
{
	static struct sample sample;
	char path[] = "/var/tmp/test-probe-XXXXXX"; /* on a disk: tmpfs is memory of another class */
	char block[65536];
	int64_t size = 32 * MIB;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	memset(block, 7, sizeof block);
	for (int64_t at = 0; at < size; at += (int64_t)sizeof block)
		assert_int_equal(write(fd, block, sizeof block), sizeof block);
	struct child first = start_child(0, path, size);
	struct child second = start_child(0, path, size);
	struct child stranger = start_child(0, path, size);
	sample = (struct sample){ .owners = 3, .owner = {
		{ .pgid = first.pid, .files = { path } },
		{ .pgid = second.pid, .files = { path } },
		{ .pgid = stranger.pid } } };
	read_live(&sample);
	int64_t hot = sample.owner[0].hot_file_bytes + sample.owner[1].hot_file_bytes;
	assert_in_range(hot, size * 98 / 100, size * 102 / 100);
	assert_int_equal(sample.hot_file_bytes, hot);
	assert_true(sample.owner[0].hot_file_bytes == 0 || sample.owner[1].hot_file_bytes == 0);
	assert_int_equal(sample.owner[2].hot_file_bytes, 0); /* asked for no file: its mapping is cold */
	assert_true(sample.owner[1].file_bytes >= size);
	assert_int_equal(sample.unreclaimable_bytes,
	                 sample.total_bytes - sample.available_bytes + hot);
	stop_child(&first);
	stop_child(&second);
	stop_child(&stranger);
	close(fd);
	unlink(path);
}

/* ---- from one sample to the next ---- */

static struct sample *look(struct sample *sample, bool quick)
{
	sample->quick = quick;
	return read_live(sample);
}

static void what_stays_open_tells_of_now(void **state)
{
	static struct sample sample;
	int64_t nothing = own_of_nothing();
	struct child first = start_child(50 * MIB, NULL, 0), second = start_child(20 * MIB, NULL, 0);

	(void)state;
	sample = (struct sample){ .owners = 2, .owner = { { .pgid = first.pid }, { .pgid = second.pid } } };
	sample.seen = seen_new();
	look(&sample, false);
	assert_int_equal(seen_last(sample.seen)->count, 2);
	assert_true(seen_last(sample.seen)->process[0].status >= 0);
	look(&sample, true);
	assert_in_range(sample.owner[0].anon_bytes, 50 * MIB, 54 * MIB + nothing);
	assert_in_range(sample.owner[1].anon_bytes, 20 * MIB, 24 * MIB + nothing);
	stop_child(&first);
	look(&sample, true);
	assert_int_equal(sample.owner[0].processes, 0);
	assert_int_equal(sample.owner[1].processes, 1);
	look(&sample, false);
	assert_int_equal(seen_last(sample.seen)->count, 1);
	assert_int_equal(sample.owner[1].processes, 1);
	stop_child(&second);
	seen_free(sample.seen);
}

/* It forks when it is told to; the child holds memory of its own and lives as long. */
static struct child start_forking(pid_t *session)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	int told[2];
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	*session = fork();
	assert_true(*session >= 0);
	if (*session > 0) {
		close(ends[0]);
		close(told[1]);
		char byte;
		assert_int_equal(read(told[0], &byte, 1), 1);
		return (struct child){ *session, ends[1], told[0] };
	}
	close(ends[1]);
	setsid();
	char byte = 'r';
	if (write(told[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
		_exit(1);
	pid_t grandchild = fork();
	const size_t large = 96 * MIB;
	char *memory = grandchild == 0 ? mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
	if (memory && memory != MAP_FAILED)
		memset(memory, 1, large);
	if (grandchild == 0 && write(told[1], &byte, 1) != 1)
		_exit(1);
	alarm(30);
	pause();
	_exit(0);
}

/* Until there are two. */
static void let_fork(const struct child *child)
{
	char byte = 'f';

	assert_int_equal(write(child->ready, &byte, 1), 1);
	assert_int_equal(read(child->told, &byte, 1), 1);
}

static void who_comes_later_is_found_by_the_next_look_at_all(void **state)
{
	static struct sample sample;
	pid_t session;
	struct child child = start_forking(&session);

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pgid = session };
	sample.seen = seen_new();
	look(&sample, false);
	assert_int_equal(sample.owner[0].processes, 1);
	let_fork(&child);
	look(&sample, false);
	assert_int_equal(sample.owner[0].processes, 2);
	kill(-session, SIGKILL);
	stop_child(&child);
	seen_free(sample.seen);
}

/* Tells its number, and is there until it is let go. */
static void *rest(void *ctx)
{
	const int *ends = ctx;
	int number = (int)gettid();
	char byte;

	if (write(ends[0], &number, sizeof number) == sizeof number)
		while (read(ends[1], &byte, 1) > 0)
			;
	return NULL;
}

/* While nothing else changes: with the next sample or the one after it, and no thread is taken for a process. */
static void a_large_child_is_found_by_a_quick_look(void **state)
{
	static struct sample sample;
	pid_t session;
	struct child child = start_forking(&session);
	int looks = 0;

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pgid = session };
	sample.seen = seen_new();
	look(&sample, false);
	look(&sample, true);
	assert_int_equal(sample.owner[0].processes, 1);
	assert_int_equal(write(child.ready, "f", 1), 1);
	while (sample.owner[0].anon_bytes < 96 * MIB && looks++ < 40) {
		poll(NULL, 0, 50);
		look(&sample, true);
	}
	assert_int_equal(sample.owner[0].processes, 2);
	assert_true(sample.owner[0].anon_bytes >= 96 * MIB);
	assert_int_equal(seen_last(sample.seen)->count, 2);
	look(&sample, true);
	look(&sample, false);
	assert_int_equal(sample.owner[0].processes, 2);
	kill(-session, SIGKILL);
	stop_child(&child);
	seen_free(sample.seen);
}

static void a_thread_is_no_process(void **state)
{
	static struct sample sample;
	pthread_t thread;
	int told[2], held[2], number;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	int ends[2] = { told[1], held[0] };
	sample = (struct sample){ .owners = 1, .owner[0].pgid = getsid(0) };
	sample.seen = seen_new();
	look(&sample, false);
	assert_int_equal(pthread_create(&thread, NULL, rest, ends), 0);
	assert_int_equal(read(told[0], &number, sizeof number), sizeof number);
	look(&sample, true);
	look(&sample, true);
	assert_true(seen_has(sample.seen, getpid()) && !seen_has(sample.seen, number));
	close(held[1]);
	pthread_join(thread, NULL);
	close(held[0]);
	close(told[0]);
	close(told[1]);
	seen_free(sample.seen);
}

/* Nobody asked for them when they were seen first. */
static void who_was_nobodys_is_found_when_it_is_asked_for(void **state)
{
	static struct sample sample;
	struct child other = start_child(MIB, NULL, 0);
	pid_t session;
	struct child child = start_forking(&session);

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pgid = other.pid };
	sample.seen = seen_new();
	let_fork(&child);
	look(&sample, false);
	look(&sample, false);
	assert_true(seen_last(sample.seen)->others > 1);
	sample.owners = 2;
	sample.owner[1] = (struct sample_owner){ .pgid = session };
	for (int i = 0; i < 3; i++) {
		look(&sample, i > 0);
		assert_int_equal(sample.owner[0].processes, 1);
		assert_int_equal(sample.owner[1].processes, 2);
	}
	kill(-session, SIGKILL);
	stop_child(&child);
	stop_child(&other);
	seen_free(sample.seen);
}

/* A server that we did not start: it and its children, in whatever session. */
static void one_that_is_asked_for_by_its_number_has_its_children(void **state)
{
	static struct sample sample;
	struct child child = start_child(20 * MIB, NULL, 0);

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pid = getpid() };
	sample.seen = seen_new();
	for (int i = 0; i < 3; i++) {
		look(&sample, i > 0);
		assert_true(sample.owner[0].processes >= 2);
		assert_true(sample.owner[0].anon_bytes >= 20 * MIB);
	}
	stop_child(&child);
	look(&sample, true);
	assert_true(sample.owner[0].processes >= 1);
	seen_free(sample.seen);
}

enum sharing { SHARED, COPIED_ON_WRITE, SESSION_OF_ITS_OWN };

/* A leader of a session with `bytes`, and three children that have them too, or one that has them alone. */
static pid_t start_family(enum sharing sharing, int64_t bytes)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t leader = fork();
	assert_true(leader >= 0);
	if (leader > 0) {
		close(ends[1]);
		for (int i = 0; i < (sharing == SESSION_OF_ITS_OWN ? 1 : 3); i++)
			assert_int_equal(read(ends[0], &byte, 1), 1);
		close(ends[0]);
		return leader;
	}
	setsid();
	alarm(30);
	int kind = sharing == SHARED ? MAP_SHARED : MAP_PRIVATE;
	volatile char *block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
	for (int64_t at = 0; sharing != SESSION_OF_ITS_OWN && at < bytes; at += 4096)
		block[at] = 1;
	for (int i = 0; i < (sharing == SESSION_OF_ITS_OWN ? 1 : 3); i++) {
		if (fork() != 0)
			continue;
		alarm(30);
		if (sharing == SESSION_OF_ITS_OWN)
			setsid();
		for (int64_t at = 0; at < bytes; at += 4096)
			byte = sharing == SESSION_OF_ITS_OWN ? (block[at] = 1) : block[at];
		if (write(ends[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	pause();
	_exit(0);
}

static void end_family(pid_t leader, const struct seen_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		kill(list->process[i].pid, SIGKILL);
	waitpid(leader, NULL, 0);
}

/* Shared, or private and not written to since the fork: resident in all four of them, and there once. */
static void what_processes_share_counts_once(void **state)
{
	static struct sample sample;
	int64_t nothing = own_of_nothing();

	(void)state;
	for (enum sharing sharing = SHARED; sharing <= COPIED_ON_WRITE; sharing++) {
		pid_t leader = start_family(sharing, 200 * MIB);
		sample = (struct sample){ .owners = 1, .owner[0].pgid = leader };
		sample.seen = seen_new();
		for (int i = 0; i < 30; i++) {
			look(&sample, i % 3 != 0);
			assert_int_equal(sample.owner[0].processes, 4);
			assert_in_range(sample.owner[0].own_bytes, 199 * MIB, 206 * MIB + 4 * nothing);
		}
		end_family(leader, seen_last(sample.seen));
		seen_free(sample.seen);
	}
}

static void who_left_its_session_is_still_its_parents_child(void **state)
{
	static struct sample sample;
	pid_t leader = start_family(SESSION_OF_ITS_OWN, 50 * MIB);

	(void)state;
	sample = (struct sample){ .owners = 1, .owner[0].pgid = leader };
	sample.seen = seen_new();
	for (int i = 0; i < 40; i++) { /* looks at all, and anew */
		look(&sample, i % 3 != 0);
		assert_int_equal(sample.owner[0].processes, 2);
		assert_true(sample.owner[0].own_bytes >= 50 * MIB);
	}
	end_family(leader, seen_last(sample.seen));
	seen_free(sample.seen);
}

static const struct program *program_named(const struct programs *programs, const char *name)
{
	for (uint32_t i = 0; i < programs->count; i++)
		if (strcmp(programs->list[i].name, name) == 0)
			return &programs->list[i];
	return NULL;
}

/* More names than there is room for: those that have most keep theirs, in whatever order they are found. */
static void the_heaviest_of_many_programs_has_its_name(void **state)
{
	static struct programs programs;
	static const struct topology topology;
	pid_t child[PROGRAMS_MAX + 4];
	uint32_t count = sizeof child / sizeof child[0];
	int ends[2];
	char byte, name[16];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	for (uint32_t i = 0; i < count; i++) {
		bool last = i == count - 1;
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] > 0)
			continue;
		snprintf(name, sizeof name, last ? "the heaviest" : "light-%u", i);
		prctl(PR_SET_NAME, name);
		char *memory = last ? mmap(NULL, 300 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : NULL;
		if (memory)
			memset(memory, 1, 300 * MIB);
		alarm(60);
		if (write(ends[1], "r", 1) == 1)
			pause();
		_exit(0);
	}
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(programs_read("", &topology, NULL, &programs), 0);
	const struct program *heaviest = program_named(&programs, "the heaviest");
	assert_non_null(heaviest);
	assert_true(heaviest->anon_bytes >= 300 * MIB);
	for (uint32_t i = 0; i < programs.count; i++)
		assert_true(programs.list[i].anon_bytes + programs.list[i].shmem_bytes + programs.list[i].swap_bytes > 0);
	for (uint32_t i = 0; i < count; i++)
		kill(child[i], SIGKILL);
	for (uint32_t i = 0; i < count; i++)
		waitpid(child[i], NULL, 0);
	close(ends[0]);
	close(ends[1]);
}

static void what_programs_share_counts_once_too(void **state)
{
	static struct programs programs;
	static const struct topology topology;
	char name[16];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	for (enum sharing sharing = SHARED; sharing <= COPIED_ON_WRITE; sharing++) {
		prctl(PR_SET_NAME, "a family");
		pid_t leader = start_family(sharing, 200 * MIB);
		prctl(PR_SET_NAME, name);
		assert_int_equal(programs_read("", &topology, NULL, &programs), 0);
		const struct program *family = program_named(&programs, "a family");
		assert_non_null(family);
		assert_int_equal(family->processes, 4);
		assert_in_range(program_ram_bytes(family), 199 * MIB, 220 * MIB);
		static struct sample sample;
		sample = (struct sample){ .owners = 1, .owner[0].pgid = leader, .seen = seen_new() };
		look(&sample, false);
		end_family(leader, seen_last(sample.seen));
		seen_free(sample.seen);
	}
}

static void a_mapped_file_is_recalled_by_any_of_its_names(void **state)
{
	static struct sample sample;
	char path[] = "/var/tmp/test-probe-XXXXXX", link_path[64];
	static const char block[MIB];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(write(fd, block, sizeof block), sizeof block);
	snprintf(link_path, sizeof link_path, "%s-too", path);
	assert_int_equal(link(path, link_path), 0);
	struct child first = start_child(0, path, 8 * MIB), second = start_child(0, link_path, 8 * MIB);
	sample = (struct sample){ .owners = 2, .owner = { { .pgid = first.pid, .files = { path } },
		                                          { .pgid = second.pid, .files = { link_path } } } };
	sample.seen = seen_new();
	look(&sample, false);
	int64_t hot = sample.hot_file_bytes;
	assert_in_range(hot, 8 * MIB, 8 * MIB + MIB);
	look(&sample, true);
	assert_int_equal(sample.hot_file_bytes, hot);
	/* The first of them is no longer asked for: by the other name it is the same file. */
	stop_child(&first);
	sample.owners = 1;
	sample.owner[0] = sample.owner[1];
	look(&sample, true);
	assert_int_equal(sample.hot_file_bytes, hot);
	assert_int_equal(sample.owner[0].hot_file_bytes, hot);
	stop_child(&second);
	seen_free(sample.seen);
	close(fd);
	unlink(path);
	unlink(link_path);
}

/* The two sums are made of different counters; what stands in none of them is small. */
static void both_sums_of_what_is_used_agree(void **state)
{
	static struct topology topology;
	struct err err = { 0 };
	int64_t least = INT64_MAX;

	(void)state;
	/* Other programs come and go between two files: the best of some tries. */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(topology_find("", &topology, &err), 0);
		int64_t apart = topology.u_top_bytes - topology.u_bot_bytes;
		apart = apart < 0 ? -apart : apart;
		least = apart < least ? apart : least;
	}
	assert_true(topology.devices > 0 || least < topology.mem.total / 50);
	assert_true(topology.zones.pcp_bytes <= topology.mem.total / ZONES_PCP_PART);
}

static void the_machine_makes_sense(void **state)
{
	static struct sample sample;

	(void)state;
	sample = (struct sample){ 0 };
	read_live(&sample);
	assert_true(sample.total_bytes > 0 && sample.free_bytes > 0);
	assert_true(sample.high_watermark_bytes > 0);
	assert_true(sample.high_watermark_bytes < sample.total_bytes / 10);
	int64_t reserve = sample_default_reserve(&sample);
	assert_true(reserve >= sample.total_bytes / 100 * 3 && reserve <= sample.total_bytes / 8 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sums_of_what_is_used_agree),
		cmocka_unit_test(the_machine_makes_sense),
		cmocka_unit_test(a_child_of_200_mib_is_measured),
		cmocka_unit_test(a_mapped_model_counts_once_over_two_owners),
		cmocka_unit_test(what_stays_open_tells_of_now),
		cmocka_unit_test(who_comes_later_is_found_by_the_next_look_at_all),
		cmocka_unit_test(a_large_child_is_found_by_a_quick_look),
		cmocka_unit_test(a_thread_is_no_process),
		cmocka_unit_test(who_was_nobodys_is_found_when_it_is_asked_for),
		cmocka_unit_test(one_that_is_asked_for_by_its_number_has_its_children),
		cmocka_unit_test(what_processes_share_counts_once),
		cmocka_unit_test(the_heaviest_of_many_programs_has_its_name),
		cmocka_unit_test(what_programs_share_counts_once_too),
		cmocka_unit_test(who_left_its_session_is_still_its_parents_child),
		cmocka_unit_test(a_mapped_file_is_recalled_by_any_of_its_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
