#include "../cmocka_all.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "engine/log_file.h"

struct bench {
	uv_loop_t loop;
	char folder[64];
};

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	uv_loop_init(&bench->loop);
	snprintf(bench->folder, sizeof(bench->folder), "/tmp/log-file-XXXXXX");
	assert_non_null(mkdtemp(bench->folder));
	*state = bench;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;
	DIR *dir = opendir(bench->folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(bench->folder);
	assert_int_equal(uv_loop_close(&bench->loop), 0);
	free(bench);
	return 0;
}

/* The size of a file of the folder, -1 where it is not there; the mode too. */
static int64_t size_of(const struct bench *bench, const char *name, mode_t *mode)
{
	char path[200];
	struct stat found;

	snprintf(path, sizeof(path), "%s/%s", bench->folder, name);
	if (stat(path, &found) < 0)
		return -1;
	*mode = found.st_mode & 0777;
	return found.st_size;
}

static char *read_all(const struct bench *bench, const char *name)
{
	char path[200];
	char *text = calloc(1, LOG_FILE_BYTES + 1);

	snprintf(path, sizeof(path), "%s/%s", bench->folder, name);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	assert_true(fread(text, 1, LOG_FILE_BYTES, file) > 0);
	fclose(file);
	return text;
}

static void what_comes_is_kept_over_lives_and_only_for_us(void **state)
{
	struct bench *bench = *state;
	mode_t mode;

	for (int i = 0; i < 2; i++) {
		struct log_file *file = log_file_new(&bench->loop, bench->folder, "a/b");
		log_file_append(file, STR("one\n"));
		log_file_append(file, STR("two\n"));
		uv_run(&bench->loop, UV_RUN_DEFAULT);
		log_file_append(file, STR("three\n"));
		log_file_free(file); /* its write is under way */
		uv_run(&bench->loop, UV_RUN_DEFAULT);
	}
	char *text = read_all(bench, "a%2Fb.log");
	assert_string_equal(text, "one\ntwo\nthree\none\ntwo\nthree\n");
	free(text);
	assert_int_equal(size_of(bench, "a%2Fb.log", &mode), 28);
	assert_int_equal(mode, 0600);
}

static void a_flood_takes_what_is_its_and_says_what_it_lost(void **state)
{
	struct bench *bench = *state;
	struct log_file *file = log_file_new(&bench->loop, bench->folder, "m");
	size_t length = 16 * 1024;
	char *line = xmalloc(length);

	memset(line, 'x', length);
	line[length - 1] = '\n';
	for (int i = 0; i < 64 * 1024; i++) /* 1 GiB */
		log_file_append(file, (struct str){ line, length });
	log_file_free(file);
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	free(line);
	mode_t mode;
	assert_in_range(size_of(bench, "m.log", &mode), LOG_FILE_BYTES_A_SECOND / 2, 2 * LOG_FILE_BYTES_A_SECOND);
	assert_int_equal(size_of(bench, "m.log.1", &mode), -1);
	char *text = read_all(bench, "m.log");
	assert_non_null(strstr(text, "bytes of the log left out here]"));
	free(text);
}

static void two_files_are_all_there_ever_is(void **state)
{
	struct bench *bench = *state;
	size_t length = LOG_FILE_BYTES_A_SECOND / 2;
	char *line = xmalloc(length);
	mode_t mode;

	memset(line, 'x', length);
	line[length - 1] = '\n';
	for (int i = 0; i < 60; i++) { /* 30 MiB, each from a life of its own: no second passes */
		struct log_file *file = log_file_new(&bench->loop, bench->folder, "m");
		log_file_append(file, (struct str){ line, length });
		uv_run(&bench->loop, UV_RUN_DEFAULT);
		log_file_free(file);
	}
	free(line);
	assert_in_range(size_of(bench, "m.log", &mode), 1, LOG_FILE_BYTES);
	assert_in_range(size_of(bench, "m.log.1", &mode), LOG_FILE_BYTES / 2, LOG_FILE_BYTES);
	assert_int_equal(mode, 0600);
}

static void a_link_or_a_folder_that_is_gone_is_left_alone(void **state)
{
	struct bench *bench = *state;
	char path[200], target[200];
	mode_t mode;

	snprintf(path, sizeof(path), "%s/m.log", bench->folder);
	snprintf(target, sizeof(target), "%s/target", bench->folder);
	int fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(symlink(target, path), 0);
	struct log_file *file = log_file_new(&bench->loop, bench->folder, "m");
	log_file_append(file, STR("text\n"));
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	log_file_free(file);
	assert_int_equal(size_of(bench, "target", &mode), 0);
	file = log_file_new(&bench->loop, "/nonexistent/folder", "m");
	log_file_append(file, STR("text\n"));
	uv_run(&bench->loop, UV_RUN_DEFAULT);
	log_file_free(file);
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(what_comes_is_kept_over_lives_and_only_for_us),
		FILE_TEST(a_flood_takes_what_is_its_and_says_what_it_lost),
		FILE_TEST(two_files_are_all_there_ever_is),
		FILE_TEST(a_link_or_a_folder_that_is_gone_is_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
