#include "../cmocka_all.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/db.h"

static const char *const names[] = { "history.db", "history.db-wal", "history.db-shm" };

/* Each test runs in an empty folder of its own. */
static int setup(void **state)
{
	char *folder = xstrdup("/tmp/cotenant-db-XXXXXX");

	*state = folder;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	char *folder = *state;

	DIR *dir = opendir(".");
	struct dirent *file;
	while (dir && (file = readdir(dir)))
		if (file->d_name[0] != '.' && unlink(file->d_name) < 0)
			rmdir(file->d_name);
	closedir(dir);
	int gone = chdir("/") | rmdir(folder);
	free(folder);
	return gone;
}

static void open_db(struct db *db)
{
	struct err err = { 0 };

	assert_int_equal(db_open(db, names[0], &err), SQLITE_OK);
	assert_int_equal(db->moved.code, 0);
}

static void write_one(struct db *db, const char *id)
{
	struct store_decision row = { .at_ms = 1, .id = id, .kind = "load", .reason = "asked",
		                      .model = "chat", .for_model = "", .request = "", .text = "" };
	struct err err = { 0 };

	assert_int_equal(db_begin(db, &err), SQLITE_OK);
	assert_int_equal(db_write(db, TABLE_DECISIONS, &row, &err), SQLITE_OK);
	assert_int_equal(db_commit(db, &err), SQLITE_OK);
}

static void only_its_owner_reads_the_history(void **state)
{
	struct db db;
	struct stat st;

	(void)state;
	mode_t before = umask(022);
	open_db(&db);
	write_one(&db, "b-1");
	umask(before);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(stat(names[i], &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
	}
	db_close(&db);
}

/* It would be written on to a file without a name, and be gone with the daemon. */
static void a_file_removed_in_use_is_begun_anew(void **state)
{
	struct db db;
	struct err err = { 0 };
	struct store_query all = { .kind = "decisions", .limit = 10 };

	(void)state;
	open_db(&db);
	write_one(&db, "b-1");
	unlink(names[0]);
	write_one(&db, "b-2");
	db_close(&db);

	open_db(&db);
	char *json;
	assert_int_equal(db_query(&db, TABLE_DECISIONS, &all, &json, &err), SQLITE_OK);
	assert_non_null(strstr(json, "b-2"));
	free(json);
	db_close(&db);
}

static int count_asides(void)
{
	DIR *dir = opendir(".");
	struct dirent *file;
	int count = 0;

	while (dir && (file = readdir(dir)))
		count += strncmp(file->d_name, "history.db.aside-", 17) == 0 && !strstr(file->d_name, "-wal") &&
		         !strstr(file->d_name, "-shm") && !strstr(file->d_name, "-journal");
	closedir(dir);
	return count;
}

static void make_directory(void)
{
	assert_int_equal(mkdir(names[0], 0700), 0);
}

static void make_fifo(void)
{
	assert_int_equal(mkfifo(names[0], 0600), 0);
}

static void make_dangling_link(void)
{
	assert_int_equal(symlink("/nonexistent/elsewhere", names[0]), 0);
}

static void make_link(void)
{
	assert_int_equal(symlink("/etc/hostname", names[0]), 0);
}

static void run_sql(const char *sql)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(names[0], &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
}

/* One of ours, with something in it. */
static void make_good(void)
{
	struct db db;

	open_db(&db);
	for (int i = 0; i < 50; i++)
		write_one(&db, "b-1");
	db_close(&db);
}

static void make_one_of_another_program(void)
{
	run_sql("CREATE TABLE bookmarks(x); PRAGMA user_version = 7");
}

static void make_one_without_tables(void)
{
	make_good();
	run_sql("DROP TABLE decisions; DROP TABLE learned");
}

static void make_one_of_other_columns(void)
{
	make_good();
	run_sql("DROP TABLE requests; CREATE TABLE requests(seq INTEGER PRIMARY KEY, arrived_at_ms, id, needed NOT NULL)");
}

static void make_one_that_takes_no_rows(void)
{
	make_good();
	run_sql("CREATE TRIGGER t BEFORE INSERT ON decisions BEGIN SELECT RAISE(ABORT, 'no'); END");
}

static void make_one_of_version_0(void)
{
	make_good();
	run_sql("PRAGMA user_version = 0");
}

static void make_one_of_a_negative_version(void)
{
	make_good();
	run_sql("PRAGMA user_version = -2000000000");
}

static void make_half_a_page(void)
{
	make_good();
	assert_int_equal(truncate(names[0], 2048), 0);
}

static void make_half_a_file(void)
{
	make_good();
	assert_int_equal(truncate(names[0], 3 * 4096 + 100), 0);
}

static void make_a_few_bytes(void)
{
	make_good();
	assert_int_equal(truncate(names[0], 20), 0);
}

static void make_log_a_directory(void)
{
	make_good();
	assert_int_equal(mkdir(names[1], 0700), 0);
}

static void make_index_a_fifo(void)
{
	make_good();
	assert_int_equal(mkfifo(names[2], 0600), 0);
}

/* Whatever lies there: it is kept, and what happens from now on is written down. */
static void what_is_no_use_is_moved_aside(void **state)
{
	static void (*const make[])(void) = {
		make_directory,           make_fifo,
		make_dangling_link,       make_link,
		make_one_of_another_program, make_one_without_tables,
		make_one_of_other_columns, make_one_that_takes_no_rows,
		make_one_of_version_0,    make_one_of_a_negative_version,
		make_half_a_page,         make_half_a_file,
		make_a_few_bytes,         make_log_a_directory,
		make_index_a_fifo,
	};
	struct err err = { 0 };
	struct db db;

	(void)state;
	for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
		int before = count_asides();
		make[i]();
		if (db_open(&db, names[0], &err) != SQLITE_OK || count_asides() != before + 1)
			fail_msg("case %zu: %s, %d aside", i, err.text, count_asides() - before);
		assert_non_null(strstr(db.moved.text, "it is kept as history.db.aside-20"));
		write_one(&db, "b-2");
		db_close(&db);
		for (size_t k = 0; k < 3; k++)
			unlink(names[k]);
	}
}

/* Cut anywhere, it is read or moved aside, and can be written in any case. */
static void cut_anywhere_it_goes_on(void **state)
{
	struct err err = { 0 };
	struct store_query all = { .kind = "decisions", .limit = 1000 };
	struct db db;
	struct stat st;

	(void)state;
	make_good();
	assert_int_equal(stat(names[0], &st), 0);
	off_t whole = st.st_size;
	for (off_t length = 0; length < whole; length += 509) {
		unlink(names[0]);
		make_good();
		assert_int_equal(truncate(names[0], length), 0);
		assert_int_equal(db_open(&db, names[0], &err), SQLITE_OK);
		write_one(&db, "b-2");
		char *json;
		assert_int_equal(db_query(&db, TABLE_DECISIONS, &all, &json, &err), SQLITE_OK);
		free(json);
		db_close(&db);
		DIR *dir = opendir(".");
		struct dirent *file;
		while ((file = readdir(dir)))
			if (file->d_name[0] != '.')
				unlink(file->d_name);
		closedir(dir);
	}
}

/* Indexes and views of somebody who asks questions of it are no reason. */
static void what_is_added_to_it_does_no_harm(void **state)
{
	struct db db;

	(void)state;
	make_good();
	run_sql("CREATE VIEW mine AS SELECT * FROM decisions; CREATE INDEX faster ON requests(id)");
	open_db(&db);
	write_one(&db, "b-2");
	db_close(&db);
}

/* A disk that damages all that it is given is not filled with it. */
static void a_disk_that_damages_is_given_up(void **state)
{
	struct err err = { 0 };
	struct db db;
	int code = SQLITE_OK;

	(void)state;
	open_db(&db);
	for (int i = 0; i < 20; i++)
		code = db_start_anew(&db, &err);
	assert_int_not_equal(code, SQLITE_OK);
	assert_true(count_asides() <= 8);
	assert_non_null(strstr(err.text, "look after the disk"));
	db_close(&db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_its_owner_reads_the_history, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_removed_in_use_is_begun_anew, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(what_is_no_use_is_moved_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_anywhere_it_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_added_to_it_does_no_harm, setup, teardown),
		cmocka_unit_test_setup_teardown(a_disk_that_damages_is_given_up, setup, teardown),
	};

	return cmocka_run_group_tests_name("db", tests, NULL, NULL);
}
