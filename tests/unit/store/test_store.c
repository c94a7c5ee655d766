#include "../cmocka_all.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "store/db.h"
#include "store/queue.h"
#include "store/store.h"

enum { PATIENCE_MS = 60000 }; /* a disk may be busy */

/* Each test runs in an empty folder of its own. */
static int setup(void **state)
{
	char *folder = xstrdup("/tmp/cotenant-store-XXXXXX");

	*state = folder;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	char *folder = *state;
	static const char *const names[] = { "history.db", "history.db-wal", "history.db-shm" };

	for (size_t i = 0; i < 3; i++)
		unlink(names[i]);
	int gone = chdir("/") | rmdir(folder);
	free(folder);
	return gone;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static struct store *open_store(void)
{
	struct err err = { 0 };
	struct store *store = store_open("history.db", &err);

	if (!store)
		print_error("%s\n", err.text);
	assert_non_null(store);
	return store;
}

static bool add_decision(struct store *store, int64_t at_ms, const char *id, const char *model)
{
	return store_add_decision(store, &(struct store_decision){
		.at_ms = at_ms, .id = id, .kind = "load", .reason = "asked", .model = model,
		.for_model = "", .request = "", .text = "a load", .need_bytes = INT64_C(5) << 33,
		.load_ms = 7 });
}

struct answer {
	atomic_bool ready;
	char *json;
};

static void on_json(void *ctx, const char *json)
{
	struct answer *answer = ctx;

	answer->json = json ? xstrdup(json) : NULL;
	atomic_store(&answer->ready, true);
}

/* The answer, to be freed. */
static char *ask(struct store *store, const char *kind, const char *model, int64_t since_ms,
                 int64_t limit)
{
	struct answer answer = { 0 };
	struct store_query query = { kind, model, since_ms, limit };
	bool taken = false;

	for (int i = 0; i < PATIENCE_MS && !taken; i++) {
		taken = store_query(store, &query, on_json, &answer);
		if (!taken)
			pause_ms(1); /* the queue is full of a test's rows */
	}
	assert_true(taken);
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&answer.ready); i++)
		pause_ms(1);
	assert_true(atomic_load(&answer.ready));
	return answer.json;
}

static void assert_answer(struct store *store, const char *kind, const char *model,
                          int64_t since_ms, int64_t limit, const char *wanted)
{
	char *json = ask(store, kind, model, since_ms, limit);

	assert_non_null(json);
	assert_string_equal(json, wanted);
	free(json);
}

static void sql(const char *path, const char *text)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(handle);
}

static int64_t number(const char *path, const char *text)
{
	sqlite3 *handle;
	sqlite3_stmt *statement;

	assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(handle, text, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	int64_t value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(handle);
	return value;
}

static void rows_come_back_as_json_with_the_newest_first(void **state)
{
	struct store *store = open_store();
	(void)state;

	assert_true(store_add_observation(store, &(struct store_observation){
		1000, "chat", "/m/c.gguf", "b1", 10, 11, 12, 13 }));
	assert_true(store_add_observation(store, &(struct store_observation){
		3000, "b\"\xC3\xA9", "\xFF", "", 20, 21, 22, INT64_C(9007199254740993) }));
	assert_true(store_add_observation(store, &(struct store_observation){
		2000, "chat", "", "", 0, 0, 0, 0 }));
	assert_answer(store, "observations", "", 0, 10,
	              "[{\"at_ms\":3000,\"model\":\"b\\\"\xC3\xA9\",\"file\":\"?\",\"build\":\"\","
	              "\"estimate_bytes\":20,\"measured_base_bytes\":21,\"measured_peak_bytes\":22,"
	              "\"load_ms\":9007199254740993},"
	              "{\"at_ms\":2000,\"model\":\"chat\",\"file\":\"\",\"build\":\"\","
	              "\"estimate_bytes\":0,\"measured_base_bytes\":0,\"measured_peak_bytes\":0,"
	              "\"load_ms\":0},"
	              "{\"at_ms\":1000,\"model\":\"chat\",\"file\":\"/m/c.gguf\",\"build\":\"b1\","
	              "\"estimate_bytes\":10,\"measured_base_bytes\":11,\"measured_peak_bytes\":12,"
	              "\"load_ms\":13}]");
	assert_answer(store, "observations", "chat", 1001, 10,
	              "[{\"at_ms\":2000,\"model\":\"chat\",\"file\":\"\",\"build\":\"\","
	              "\"estimate_bytes\":0,\"measured_base_bytes\":0,\"measured_peak_bytes\":0,"
	              "\"load_ms\":0}]");
	assert_answer(store, "observations", "none", 0, 10, "[]");
	store_close(store, PATIENCE_MS);
}

static void requests_keep_all_their_fields(void **state)
{
	struct store *store = open_store();
	(void)state;

	assert_true(store_add_request(store, &(struct store_request){
		.arrived_at_ms = 1, .id = "id", .model = "m", .key_name = "k", .path = "/v1/x",
		.priority = "batch", .outcome = "ok", .status = 200, .wait_ms = 2, .load_ms = 3,
		.first_byte_ms = 4, .total_ms = 5, .bytes_in = 6, .bytes_out = 7, .tokens_in = 8,
		.tokens_out = 9 }));
	assert_answer(store, "requests", "m", 0, 1,
	              "[{\"arrived_at_ms\":1,\"id\":\"id\",\"model\":\"m\",\"key_name\":\"k\","
	              "\"path\":\"/v1/x\",\"priority\":\"batch\",\"outcome\":\"ok\",\"status\":200,"
	              "\"wait_ms\":2,\"load_ms\":3,\"first_byte_ms\":4,\"total_ms\":5,\"bytes_in\":6,"
	              "\"bytes_out\":7,\"tokens_in\":8,\"tokens_out\":9}]");
	store_close(store, PATIENCE_MS);
}

static void what_was_queued_survives_the_close(void **state)
{
	struct store *store = open_store();
	struct store_counters counters;
	char id[32];
	(void)state;

	for (int i = 0; i < 1000; i++) {
		snprintf(id, sizeof(id), "id-%d", i);
		assert_true(add_decision(store, i, id, i % 2 ? "a" : "b"));
	}
	store_close(store, PATIENCE_MS);
	store = open_store();
	char *json = ask(store, "decisions", "a", 997, 1000);
	assert_non_null(strstr(json, "\"id\":\"id-999\""));
	assert_non_null(strstr(json, "\"id\":\"id-997\""));
	assert_null(strstr(json, "id-998"));
	assert_null(strstr(json, "id-995"));
	free(json);
	store_counters(store, &counters);
	assert_int_equal(counters.written + counters.dropped + counters.failed, 0);
	store_close(store, PATIENCE_MS);
	assert_int_equal(number("history.db", "SELECT count(*) FROM decisions"), 1000);
	assert_int_equal(number("history.db", "PRAGMA user_version"), 1);
}

static void a_missing_text_is_empty_and_a_long_one_is_cut_at_a_character(void **state)
{
	struct store *store = open_store();
	char text[3001] = "x";
	(void)state;

	for (size_t i = 1; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xC3\xA9", 2);
	text[2999] = '\0';
	assert_true(store_add_decision(store, &(struct store_decision){ .text = text }));
	char *json = ask(store, "decisions", "", 0, 1);
	assert_non_null(strstr(json, "\"id\":\"\""));
	assert_null(strchr(json, '?'));
	free(json);
	store_close(store, PATIENCE_MS);
	assert_int_equal(number("history.db", "SELECT length(CAST(text AS BLOB)) FROM decisions"), 2047);
}

static void a_query_of_no_such_kind_is_refused(void **state)
{
	struct store *store = open_store();
	(void)state;

	assert_false(store_query(store, &(struct store_query){ "learned", "", 0, 1 }, on_json, NULL));
	assert_false(store_query(store, &(struct store_query){ "requests", "", 0, 0 }, on_json, NULL));
	assert_false(store_query(store, &(struct store_query){ "requests", "", 0, 1001 }, on_json, NULL));
	assert_false(store_query(NULL, &(struct store_query){ "requests", "", 0, 1 }, on_json, NULL));
	assert_false(add_decision(NULL, 1, "", ""));
	store_close(store, PATIENCE_MS);
	store_close(NULL, 0);
}

static void add_learned(void *ctx, const void *row)
{
	*(uint64_t *)ctx = *(uint64_t *)ctx * 10 + *(const uint64_t *)row;
}

static void learned_rows_come_back_the_last_of_each_key(void **state)
{
	struct store *store = open_store();
	uint64_t one = 1, two = 2, three = 3, sum = 0;
	uint32_t other = 4;
	(void)state;

	assert_int_equal(store_load_learned(store, 8, add_learned, &sum), 0);
	assert_true(store_save_learned(store, UINT64_MAX, 1, &one, 8));
	assert_true(store_save_learned(store, 5, 2, &two, 8));
	assert_true(store_save_learned(store, UINT64_MAX, 1, &three, 8));
	assert_true(store_save_learned(store, 7, 7, &other, 4));
	store_close(store, PATIENCE_MS);
	store = open_store();
	assert_int_equal(store_load_learned(store, 8, add_learned, &sum), 2);
	assert_true(sum == 32 || sum == 23);
	store_close(store, PATIENCE_MS);
}

static void a_learned_row_that_is_forgotten_is_gone(void **state)
{
	struct store *store = open_store();
	uint64_t one = 1, two = 2, three = 3, sum = 0;
	(void)state;

	assert_true(store_save_learned(store, 1, 1, &one, 8));
	assert_true(store_save_learned(store, 2, 1, &two, 8));
	assert_true(store_save_learned(store, 3, 1, &three, 8));
	assert_true(store_forget_learned(store, 2, 1, 8));
	assert_true(store_forget_learned(store, 3, 1, 4)); /* what lies there is another's by now */
	assert_true(store_forget_learned(store, 9, 9, 8));
	assert_int_equal(store_load_learned(store, 8, add_learned, &sum), 2);
	assert_true(sum == 13 || sum == 31);
	store_close(store, 5000);
	store = open_store();
	assert_int_equal(store_load_learned(store, 8, add_learned, &sum), 2);
	store_close(store, 5000);
}

static void a_full_queue_costs_rows_which_are_counted(void **state)
{
	struct queue queue = { 0 };
	struct store_decision row = { .text = "t" };
	(void)state;

	for (int i = 0; i < QUEUE_ITEMS_MAX; i++)
		assert_true(queue_put(&queue, item_of_row(TABLE_DECISIONS, &row)));
	struct item *item = item_of_row(TABLE_DECISIONS, &row);
	assert_false(queue_put(&queue, item));
	free(item);
	for (item = queue_take_all(&queue); item;) {
		struct item *next = item->next;
		free(item);
		item = next;
	}
	assert_int_equal(queue.count, 0);
}

static void many_rows_at_once_are_written_or_counted(void **state)
{
	struct store *store = open_store();
	struct store_counters counters;
	uint64_t refused = 0;
	(void)state;

	for (int i = 0; i < 20000; i++)
		refused += !add_decision(store, i, "x", "m");
	free(ask(store, "decisions", "", 0, 1));
	store_counters(store, &counters);
	assert_int_equal(counters.dropped, refused);
	assert_int_equal(counters.written, 20000 - refused);
	assert_int_equal(counters.failed, 0);
	store_close(store, PATIENCE_MS);
}

static void an_older_schema_is_brought_forward_step_by_step(void **state)
{
	static const struct migration steps[] = {
		{ "CREATE TABLE a(x INTEGER) STRICT; INSERT INTO a VALUES (1)" },
		{ "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7" },
		{ "CREATE TABLE broken(" },
	};
	sqlite3 *handle;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(sqlite3_open("history.db", &handle), SQLITE_OK);
	assert_int_equal(db_migrate(handle, steps, 1, &err), SQLITE_OK);
	assert_int_equal(db_migrate(handle, steps, 2, &err), SQLITE_OK);
	assert_int_equal(db_migrate(handle, steps, 2, &err), SQLITE_OK);
	assert_int_not_equal(db_migrate(handle, steps, 3, &err), SQLITE_OK);
	assert_non_null(strstr(err.text, "schema 2 to 3"));
	sqlite3_close(handle);
	assert_int_equal(number("history.db", "PRAGMA user_version"), 2);
	assert_int_equal(number("history.db", "SELECT x + y FROM a"), 8);
}

static void an_empty_file_becomes_a_history(void **state)
{
	(void)state;
	sql("history.db", "VACUUM");
	store_close(open_store(), PATIENCE_MS);
	assert_int_equal(number("history.db", "PRAGMA user_version"), 1);
}

static void assert_left_alone(const char *why)
{
	struct err err = { 0 };

	assert_null(store_open("history.db", &err));
	if (!strstr(err.text, why))
		print_error("%s\n", err.text);
	assert_non_null(strstr(err.text, why));
}

static void a_newer_file_is_left_alone(void **state)
{
	struct store *store = open_store();
	(void)state;

	store_close(store, PATIENCE_MS);
	sql("history.db", "CREATE TABLE later(x); PRAGMA user_version = 2");
	assert_left_alone("newer version (schema 2, this program knows 1)");
	assert_int_equal(number("history.db", "PRAGMA user_version"), 2);
	assert_int_equal(number("history.db", "SELECT count(*) FROM later"), 0);
}

/* The newest that was moved aside; removed with its parts. */
static bool take_aside(char *out, size_t out_bytes)
{
	DIR *dir = opendir(".");
	struct dirent *file;
	bool found = false;

	while ((file = readdir(dir))) {
		if (strncmp(file->d_name, "history.db.aside-", 17) != 0)
			continue;
		if (!strchr(file->d_name + 17 + 9, '-'))
			found = str_copy(out, out_bytes, str_from(file->d_name));
		unlink(file->d_name);
	}
	closedir(dir);
	return found;
}

static void another_programs_file_is_kept_aside(void **state)
{
	struct err err = { 0 };
	char name[64];
	(void)state;

	sql("history.db", "CREATE TABLE bookmarks(x); INSERT INTO bookmarks VALUES (1)");
	struct store *store = open_store();
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "another program's database; it is kept as history.db.aside-"));
	const char *at = strstr(err.text, "kept as ") + 8;
	assert_true(str_copy(name, sizeof(name), (struct str){ at, strcspn(at, " ") }));
	assert_int_equal(number(name, "SELECT count(*) FROM bookmarks"), 1);
	assert_int_equal(number(name, "SELECT count(*) FROM sqlite_schema"), 1);
	assert_true(add_decision(store, 1, "x", "m"));
	store_close(store, 5000);
	assert_int_equal(number("history.db", "SELECT count(*) FROM decisions"), 1);
	assert_true(take_aside(name, sizeof(name)));
}

static void a_file_of_rubbish_is_kept_aside_and_a_new_one_begun(void **state)
{
	struct err err = { 0 };
	char name[64];
	(void)state;

	FILE *file = fopen("history.db", "we");
	for (int i = 0; i < 5000; i++)
		fputc("rubbish"[i % 7], file);
	fclose(file);
	struct store *store = open_store();
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "damaged; it is kept as history.db.aside-"));
	assert_false(store_take_error(store, &err));
	assert_true(add_decision(store, 1, "x", "m"));
	store_close(store, PATIENCE_MS);
	assert_int_equal(number("history.db", "SELECT count(*) FROM decisions"), 1);
	assert_true(take_aside(name, sizeof(name)));
}

static void a_file_damaged_in_use_costs_a_batch_and_is_replaced(void **state)
{
	struct store *store = open_store();
	struct store_counters counters;
	struct err err = { 0 };
	char name[64];
	(void)state;

	for (int i = 0; i < 3000; i++)
		add_decision(store, i, "x", "m");
	store_close(store, PATIENCE_MS);
	struct stat stat_of;
	assert_int_equal(stat("history.db", &stat_of), 0);
	FILE *file = fopen("history.db", "r+e");
	fseek(file, 4096, SEEK_SET); /* all but the first page, which is read on opening */
	for (off_t at = 4096; at < stat_of.st_size; at++)
		fputc(0x5A, file);
	fclose(file);
	store = open_store();
	for (int i = 0; i < 10; i++) {
		add_decision(store, 5000 + i, "y", "m");
		free(ask(store, "requests", "", 0, 1)); /* one batch each */
	}
	store_counters(store, &counters);
	assert_int_equal(counters.written + counters.failed, 10);
	assert_true(counters.failed >= 1 && counters.failed < 10);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "damaged"));
	store_close(store, PATIENCE_MS);
	assert_int_equal(number("history.db", "SELECT count(*) FROM decisions"), counters.written);
	assert_true(take_aside(name, sizeof(name)));
}

/* Asked for alone, and never written: it would be told as unreadable for ever. */
static void a_file_damaged_where_only_reading_sees_it_is_replaced(void **state)
{
	struct store *store = open_store();
	struct err err = { 0 };
	struct stat stat_of;
	char name[64];
	(void)state;

	for (int i = 0; i < 3000; i++)
		add_decision(store, i, "x", "m");
	store_close(store, 10000);
	assert_int_equal(stat("history.db", &stat_of), 0);
	FILE *file = fopen("history.db", "r+e");
	fseek(file, 4096, SEEK_SET);
	for (off_t at = 4096; at < stat_of.st_size; at++)
		fputc(0x5A, file);
	fclose(file);
	store = open_store();
	free(ask(store, "decisions", "", 0, 10));
	char *json = ask(store, "decisions", "", 0, 10);
	assert_string_equal(json, "[]");
	free(json);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "damaged; it is kept as"));
	store_close(store, 5000);
	assert_true(take_aside(name, sizeof(name)));
}

/* Told, and tried again: a folder may be mounted later, and another's lock goes. */
static void what_may_be_over_in_a_while_is_tried_again(void **state)
{
	struct err err = { 0 };
	struct store_counters counters;
	sqlite3 *other;
	(void)state;

	struct store *store = store_open("nowhere/history.db", &err);
	assert_non_null(store);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "nowhere/history.db"));
	assert_int_equal(mkdir("nowhere", 0700), 0);
	assert_true(add_decision(store, 1, "x", "m"));
	store_close(store, 5000);
	assert_int_equal(number("nowhere/history.db", "SELECT count(*) FROM decisions"), 1);
	assert_int_equal(unlink("nowhere/history.db"), 0);
	assert_int_equal(rmdir("nowhere"), 0);

	assert_int_equal(sqlite3_open("history.db", &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
	store = store_open("history.db", &err);
	assert_non_null(store);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "locked"));
	assert_null(ask(store, "decisions", "", 0, 1));
	assert_false(store_take_error(store, &err)); /* the same, and it was told */
	sqlite3_close(other);
	char *json = NULL; /* who asks need not wait for a row to be written */
	for (int i = 0; i < 100 && !json; i++, pause_ms(20))
		json = ask(store, "decisions", "", 0, 1);
	assert_string_equal(json, "[]");
	free(json);
	assert_true(add_decision(store, 1, "x", "m"));
	free(ask(store, "decisions", "", 0, 1));
	store_counters(store, &counters);
	assert_int_equal(counters.written, 1);
	store_close(store, 5000);
}

/* By who may write the folder it is moved aside; else it is told. */
static void a_file_that_may_not_be_written(void **state)
{
	struct err err = { 0 };
	uid_t me = geteuid();
	char name[64];
	(void)state;

	store_close(open_store(), PATIENCE_MS);
	assert_int_equal(chmod("history.db", 0444), 0);
	assert_int_equal(chmod(".", me == 0 ? 0777 : 0755), 0);
	if (me == 0)
		assert_int_equal(seteuid(65534), 0);
	struct store *store = open_store();
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "not to be read and written by this user; it is kept as"));
	store_close(store, 5000);
	assert_int_equal(chmod("history.db", 0444), 0);
	if (me == 0)
		assert_int_equal(seteuid(0), 0);
	assert_true(take_aside(name, sizeof(name)));
	assert_int_equal(chmod(".", 0555), 0);
	if (me == 0)
		assert_int_equal(seteuid(65534), 0);
	store = open_store();
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "cannot be moved aside (Permission denied)"));
	store_close(store, 5000);
	if (me == 0)
		assert_int_equal(seteuid(0), 0);
	chmod(".", 0755);
}

/* The disk is full for this process: files may not grow. Answers are still given. */
static void a_full_disk_costs_rows_said_once_and_then_goes_on(void **state)
{
	struct store *store = open_store();
	struct store_counters counters, after;
	struct err err = { 0 };
	struct rlimit before, small;
	char text[2000];
	(void)state;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ 256 * 1024, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (int i = 0; i < 2000; i++)
		store_add_decision(store, &(struct store_decision){ .at_ms = i, .text = text });
	char *json = ask(store, "decisions", "", 0, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_non_null(json);
	free(json);
	store_counters(store, &counters);
	assert_true(counters.failed > 0);
	assert_int_equal(counters.failed + counters.written + counters.dropped, 2000);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "history.db"));
	assert_false(store_take_error(store, &err));
	assert_true(add_decision(store, 3000, "later", "m"));
	json = ask(store, "decisions", "", 3000, 1);
	assert_non_null(strstr(json, "later"));
	free(json);
	store_counters(store, &after);
	assert_int_equal(after.written, counters.written + 1);
	store_close(store, PATIENCE_MS);
}

static void a_full_file_system_is_survived(void **state)
{
	struct store *store;
	struct store_counters counters;
	struct err err = { 0 };
	char text[2000];
	(void)state;

	assert_int_equal(mkdir("small", 0700), 0);
	if (mount("none", "small", "tmpfs", 0, "size=512k") != 0) {
		rmdir("small");
		skip();
	}
	store = store_open("small/history.db", &err);
	assert_non_null(store);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 1000; i++)
		store_add_decision(store, &(struct store_decision){ .at_ms = i, .text = text });
	free(ask(store, "decisions", "", 0, 1));
	store_counters(store, &counters);
	assert_true(counters.failed > 0);
	assert_true(store_take_error(store, &err));
	assert_non_null(strstr(err.text, "full"));
	store_close(store, PATIENCE_MS);
	assert_int_equal(umount("small"), 0);
	rmdir("small");
}

static void what_is_old_or_too_much_is_pruned(void **state)
{
	struct db db;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(db_open(&db, "history.db", &err), SQLITE_OK);
	assert_int_equal(db_begin(&db, &err), SQLITE_OK);
	for (int i = 0; i < 10000; i++) {
		struct store_observation row = { i, "m", "", "", 0, 0, 0, 0 };
		assert_int_equal(db_write(&db, TABLE_OBSERVATIONS, &row, &err), SQLITE_OK);
	}
	assert_int_equal(db_commit(&db, &err), SQLITE_OK);
	assert_int_equal(db_prune(&db, 20000, 20000, &err), SQLITE_OK);
	assert_int_equal(number("history.db", "SELECT count(*) FROM observations"), 10000);
	assert_int_equal(db_prune(&db, 5000, 20000, &err), SQLITE_OK);
	assert_int_equal(number("history.db", "SELECT min(at_ms) FROM observations"), 4999);
	assert_int_equal(db_prune(&db, 20000, 100, &err), SQLITE_OK);
	assert_int_equal(number("history.db", "SELECT count(*) FROM observations"), 100);
	assert_int_equal(number("history.db", "SELECT max(at_ms) FROM observations"), 9999);
	db_close(&db);
}

static void queries_pending_at_the_close_are_answered(void **state)
{
	struct store *store = open_store();
	struct answer answers[8] = { 0 };
	(void)state;

	for (int i = 0; i < 1000; i++)
		add_decision(store, i, "x", "m");
	for (size_t i = 0; i < 8; i++)
		assert_true(store_query(store, &(struct store_query){ "decisions", "", 0, 1 }, on_json,
		                        &answers[i]));
	store_close(store, PATIENCE_MS);
	for (size_t i = 0; i < 8; i++) {
		assert_true(atomic_load(&answers[i].ready));
		free(answers[i].json);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_come_back_as_json_with_the_newest_first),
		TEST(requests_keep_all_their_fields),
		TEST(what_was_queued_survives_the_close),
		TEST(a_missing_text_is_empty_and_a_long_one_is_cut_at_a_character),
		TEST(a_query_of_no_such_kind_is_refused),
		TEST(learned_rows_come_back_the_last_of_each_key),
		TEST(a_learned_row_that_is_forgotten_is_gone),
		TEST(a_full_queue_costs_rows_which_are_counted),
		TEST(many_rows_at_once_are_written_or_counted),
		TEST(an_older_schema_is_brought_forward_step_by_step),
		TEST(an_empty_file_becomes_a_history),
		TEST(a_newer_file_is_left_alone),
		TEST(another_programs_file_is_kept_aside),
		TEST(a_file_of_rubbish_is_kept_aside_and_a_new_one_begun),
		TEST(a_file_damaged_in_use_costs_a_batch_and_is_replaced),
		TEST(a_file_damaged_where_only_reading_sees_it_is_replaced),
		TEST(what_may_be_over_in_a_while_is_tried_again),
		TEST(a_file_that_may_not_be_written),
		TEST(a_full_disk_costs_rows_said_once_and_then_goes_on),
		TEST(a_full_file_system_is_survived),
		TEST(what_is_old_or_too_much_is_pruned),
		TEST(queries_pending_at_the_close_are_answered),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
