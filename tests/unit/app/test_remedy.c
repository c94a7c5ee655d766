/* Which remedies a load needs, and that those which can be had here do what they say: on files, a child, and a tree. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/remedy.h"
#include "base/str.h"
#include "probe/page_cache.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
enum { FILE_MIB = 8 };

/* A DGX Spark whose page cache holds what 60 GiB that come would need. */
static const struct remedy_facts spark = {
	.now = { .total = 120 * GIB, .free = 7 * GIB, .available = 100 * GIB, .cached = 93 * GIB, .large = 40 * GIB },
	.coming_bytes = 60 * GIB,
	.nvidia_unified = true,
};

static void a_driver_that_takes_free_pages_alone_wants_them_free(void **state)
{
	struct remedy_facts facts = spark;
	(void)state;

	assert_int_equal(remedy_next(&facts, REMEDY_FILES), REMEDY_FILES);
	facts.now.free = 61 * GIB; /* 2 GiB beside the load are wanted */
	assert_true(remedy_is_needed(&facts));
	facts.now.free = 62 * GIB;
	assert_false(remedy_is_needed(&facts));
	facts.coming_bytes = 1; /* nearly there: a sixteenth of the machine until it is ready */
	facts.now.free = 7 * GIB;
	assert_true(remedy_is_needed(&facts));
	facts.now.free = 8 * GIB;
	assert_false(remedy_is_needed(&facts));
	facts.coming_bytes = 0; /* nobody loads: nothing is dropped for nobody */
	facts.now.free = GIB;
	assert_false(remedy_is_needed(&facts));
	facts = spark;
	facts.nvidia_unified = false; /* other drivers have the kernel make room */
	assert_false(remedy_is_needed(&facts));
}

static void what_has_nothing_to_give_is_left_alone(void **state)
{
	struct remedy_facts facts = spark;
	(void)state;

	/* MemFree 1.2 GiB and 7 GiB available: little is cached, so there is nothing to drop, and blocks are enough. */
	facts.now.free = 12 * GIB / 10;
	facts.now.available = 7 * GIB;
	facts.now.cached = 3 * GIB;
	facts.now.large = GIB;
	facts.coming_bytes = GIB;
	assert_false(remedy_is_needed(&facts));
	facts.now.large = GIB / 4; /* they are not: only gathering them helps */
	assert_int_equal(remedy_next(&facts, REMEDY_FILES), REMEDY_COMPACT);
	assert_int_equal(remedy_next(&facts, REMEDY_STEPS), REMEDY_STEPS);
	facts.now.large = -1;
	assert_false(remedy_is_needed(&facts));
}

static void an_amd_gpu_that_serves_has_its_pages_left_where_they_are(void **state)
{
	struct remedy_facts facts = {
		.now = { .total = 124 * GIB, .free = 20 * GIB, .available = 95 * GIB, .cached = GIB, .large = 300 * MIB },
		.coming_bytes = 10 * GIB,
	};
	(void)state;

	assert_int_equal(remedy_next(&facts, REMEDY_FILES), REMEDY_COMPACT);
	facts.amd_serves = true;
	assert_false(remedy_is_needed(&facts));
	facts.now.cached = 60 * GIB; /* dropping the cache moves nobody */
	assert_int_equal(remedy_next(&facts, REMEDY_FILES), REMEDY_FILES);
	assert_int_equal(remedy_next(&facts, REMEDY_CACHE), REMEDY_CACHE);
	assert_int_equal(remedy_next(&facts, REMEDY_COMPACT), REMEDY_STEPS);
}

/* ---- what they do ---- */

static int make_file(char *path, size_t size)
{
	static char part[1 << 20];

	str_copy(path, size, STR("remedy-XXXXXX"));
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	memset(part, 'r', sizeof(part));
	for (int i = 0; i < FILE_MIB; i++)
		assert_int_equal(write(fd, part, sizeof(part)), sizeof(part));
	fsync(fd);
	return fd;
}

static void put(const char *root, const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void get(const char *root, const char *name, char out[16])
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", root, name);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	ssize_t length = read(fd, out, 15);
	out[length > 0 ? length : 0] = '\0';
	close(fd);
}

/* A machine on which nothing gets better, so that all is tried. */
static void make_tree(char *root, size_t size, const char *reclaimable)
{
	static const char *const folders[] = { "", "/proc", "/proc/self", "/proc/sys", "/proc/sys/vm" };
	char path[256], text[512];

	str_copy(root, size, STR("tree-XXXXXX"));
	assert_non_null(mkdtemp(root));
	for (size_t i = 1; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(text, sizeof(text),
	         "MemTotal: 125829120 kB\nMemFree: 2097152 kB\nMemAvailable: 104857600 kB\nActive(file): 52428800 kB\n"
	         "Inactive(file): 45088768 kB\nGPUReclaim: %s kB\n",
	         reclaimable);
	put(root, "/proc/meminfo", text);
	put(root, "/proc/buddyinfo", "Node 0, zone   Normal 500000 10 5 4 3 2 1 1 1 0 0\n");
	put(root, "/proc/sys/vm/drop_caches", "");
	put(root, "/proc/sys/vm/compact_memory", "");
}

static void remove_tree(const char *root)
{
	static const char *const names[] = { "/proc/meminfo", "/proc/buddyinfo", "/proc/sys/vm/drop_caches",
		                             "/proc/sys/vm/compact_memory", "/proc/sys/vm", "/proc/sys", "/proc/self",
		                             "/proc", "" };
	char path[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", root, names[i]);
		remove(path);
	}
}

static struct remedy *make_remedy(const char *root)
{
	struct remedy *remedy = test_calloc(1, sizeof(*remedy));

	remedy->root = root;
	remedy->facts = spark;
	return remedy;
}

static void all_are_taken_in_order_where_none_suffices(void **state)
{
	char root[32], path[32], text[16];
	(void)state;

	make_tree(root, sizeof(root), "0");
	int fd = make_file(path, sizeof(path));
	struct remedy *remedy = make_remedy(root);
	str_copy(remedy->file[remedy->files++], REMEDY_PATH_MAX, str_from(path));
	remedy_run(remedy);
	assert_int_equal(remedy->taken, 1u << REMEDY_FILES | 1u << REMEDY_CACHE | 1u << REMEDY_COMPACT);
	assert_string_equal(remedy->missing, "");
	assert_int_equal(remedy->facts.now.free, 2 * GIB);
	assert_true(page_cache_bytes(fd, 0, FILE_MIB * MIB) < FILE_MIB * MIB);
	get(root, "/proc/sys/vm/drop_caches", text);
	assert_string_equal(text, "1");
	get(root, "/proc/sys/vm/compact_memory", text);
	assert_string_equal(text, "1");
	test_free(remedy);
	remove_tree(root);

	make_tree(root, sizeof(root), "3145728"); /* drivers keep 3 GiB: they are asked too */
	remedy = make_remedy(root);
	remedy_run(remedy);
	get(root, "/proc/sys/vm/drop_caches", text);
	assert_string_equal(text, "3");
	test_free(remedy);
	remove_tree(root);
	close(fd);
	unlink(path);
}

static void what_may_not_be_done_is_named_and_the_rest_is_done(void **state)
{
	char root[32], path[256], text[16];
	(void)state;

	make_tree(root, sizeof(root), "0");
	snprintf(path, sizeof(path), "%s/proc/sys/vm/drop_caches", root);
	remove(path);
	struct remedy *remedy = make_remedy(root);
	remedy_run(remedy);
	assert_non_null(strstr(remedy->missing, "/proc/sys/vm/drop_caches: "));
	assert_null(strstr(remedy->missing, "compact_memory"));
	assert_int_equal(remedy->taken, 1u << REMEDY_COMPACT);
	get(root, "/proc/sys/vm/compact_memory", text);
	assert_string_equal(text, "1");
	test_free(remedy);
	remove_tree(root);
}

/* Bytes of the file that the process has in its own page tables. */
static int64_t rss_file_of(pid_t pid)
{
	char name[64], line[256];
	long long kib = -1;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	FILE *status = fopen(name, "r");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "RssFile: %lld", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib * 1024;
}

/* A child that maps all of the file and has touched it, as an engine that has copied it to its GPU. */
static pid_t start_engine(int fd)
{
	int told[2];
	char byte;

	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	if (pid == 0) {
		volatile const char *map = mmap(NULL, (size_t)(FILE_MIB * MIB), PROT_READ, MAP_SHARED, fd, 0);
		char sum = 0;
		for (int64_t i = 0; map != MAP_FAILED && i < FILE_MIB * MIB; i += 4096)
			sum = (char)(sum + map[i]);
		ssize_t unused = write(told[1], &sum, 1);
		(void)unused;
		pause();
		_exit(0);
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	return pid;
}

static void what_an_engine_maps_twice_leaves_it(void **state)
{
	char root[32], path[32];
	(void)state;

	int fd = make_file(path, sizeof(path));
	pid_t pid = start_engine(fd);
	int64_t before = rss_file_of(pid);
	assert_true(before >= FILE_MIB * MIB);
	make_tree(root, sizeof(root), "0");
	struct remedy *remedy = make_remedy(root);
	remedy->map[0].pid = pid;
	/* A mapping is known by its file, whatever name that is given. */
	snprintf(remedy->map[0].path, REMEDY_PATH_MAX, "./%s", path);
	remedy->maps = 1;
	remedy_run(remedy);
	int64_t after = rss_file_of(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	bool taken = remedy->taken & 1u << REMEDY_MAPS;
	bool refused = strstr(remedy->missing, "what engines map: ") != NULL;
	test_free(remedy);
	remove_tree(root);
	close(fd);
	unlink(path);
	assert_true(taken != refused);
	if (taken)
		assert_true(before - after >= FILE_MIB * MIB * 9 / 10);
}

static void an_engine_that_is_gone_is_no_fault(void **state)
{
	char root[32], path[32];
	(void)state;

	int fd = make_file(path, sizeof(path));
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	make_tree(root, sizeof(root), "0");
	struct remedy *remedy = make_remedy(root);
	remedy->map[0].pid = pid;
	str_copy(remedy->map[0].path, REMEDY_PATH_MAX, str_from(path));
	remedy->maps = 1;
	remedy_run(remedy);
	assert_string_equal(remedy->missing, "");
	assert_int_equal(remedy->taken & 1u << REMEDY_MAPS, 0);
	test_free(remedy);
	remove_tree(root);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_driver_that_takes_free_pages_alone_wants_them_free),
		cmocka_unit_test(what_has_nothing_to_give_is_left_alone),
		cmocka_unit_test(an_amd_gpu_that_serves_has_its_pages_left_where_they_are),
		cmocka_unit_test(all_are_taken_in_order_where_none_suffices),
		cmocka_unit_test(what_may_not_be_done_is_named_and_the_rest_is_done),
		cmocka_unit_test(what_an_engine_maps_twice_leaves_it),
		cmocka_unit_test(an_engine_that_is_gone_is_no_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
