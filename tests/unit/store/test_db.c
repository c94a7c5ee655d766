#include "../cmocka_all.h"

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

	for (size_t i = 0; i < 3; i++)
		unlink(names[i]);
	int gone = chdir("/") | rmdir(folder);
	free(folder);
	return gone;
}

static void open_db(struct db *db)
{
	struct err moved, err = { 0 };

	assert_int_equal(db_open(db, names[0], &moved, &err), SQLITE_OK);
	assert_int_equal(moved.code, 0);
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
	char *json = db_query(&db, TABLE_DECISIONS, &all, &err);
	assert_non_null(json);
	assert_non_null(strstr(json, "b-2"));
	free(json);
	db_close(&db);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_its_owner_reads_the_history, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_removed_in_use_is_begun_anew, setup,
		                                teardown),
	};

	return cmocka_run_group_tests_name("db", tests, NULL, NULL);
}
