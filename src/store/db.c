#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"

enum {
	APPLICATION_ID = 0x636f7465, /* "cote": tells our files from other programs' */
	BUSY_MS = 1000,              /* somebody looks into the file with another program */
	REST_MS = 250,               /* who reads several things at the start waits for a lock once */
	ASIDES_MAX = 8,              /* a disk that damages what it is given would be filled */
};

static int fail(struct db *db, int code, const char *doing, struct err *err)
{
	err_set(err, -EIO, "history '%s': %s: %s%s", db->path, doing,
	        db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code),
	        (code & 0xFF) == SQLITE_FULL ? "; until there is room on that disk, what happens and what is learned is not kept"
	                                     : "");
	return code;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int read_number(sqlite3 *handle, const char *sql, int64_t *out)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(handle, sql, -1, &statement, NULL);

	if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
		*out = sqlite3_column_int64(statement, 0);
		code = SQLITE_OK;
	}
	sqlite3_finalize(statement);
	return code;
}

int db_migrate(sqlite3 *handle, const struct migration *migrations, int version, struct err *err)
{
	int64_t from = 0;
	int code = read_number(handle, "PRAGMA user_version", &from);

	for (int64_t step = from; code == SQLITE_OK && step < version; step++) {
		char *sql = xasprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %lld; COMMIT",
		                      migrations[step].sql, (long long)step + 1);
		code = sqlite3_exec(handle, sql, NULL, NULL, NULL);
		free(sql);
		if (code != SQLITE_OK) {
			err_set(err, -EIO, "history: schema %lld to %lld: %s", (long long)step,
			        (long long)step + 1, sqlite3_errmsg(handle));
			sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
		}
	}
	return code;
}

/* Nobody gains by a file that cannot be used: it is moved aside, and a new one begun. */
static int unfit(struct db *db, const char *why)
{
	db->unfit = why;
	return SQLITE_NOTADB;
}

/* Ours, empty, of no use to us, or not to be touched. */
static int check_owner(struct db *db, struct err *err)
{
	int64_t application = 0, version = 0, objects = 0;
	int code = read_number(db->handle, "PRAGMA application_id", &application);

	if (code == SQLITE_OK)
		code = read_number(db->handle, "PRAGMA user_version", &version);
	if (code == SQLITE_OK)
		code = read_number(db->handle, "SELECT count(*) FROM sqlite_schema", &objects);
	if (code != SQLITE_OK)
		return fail(db, code, "reading it", err);
	if (application != APPLICATION_ID && objects > 0)
		return unfit(db, "another program's database");
	if (application == APPLICATION_ID && version > db_version) {
		err_set(err, -EPROTO,
		        "history '%s': written by a newer version (schema %lld, this program knows "
		        "%d); it is left alone",
		        db->path, (long long)version, db_version);
		return SQLITE_MISUSE;
	}
	return version < 0 || version > db_version ? unfit(db, "of a schema that never was") : SQLITE_OK;
}

/* All that `wanted` has is in the file, word for word, and nothing that acts by itself. */
static int compare_schema(struct db *db, sqlite3 *wanted)
{
	sqlite3_stmt *each = NULL, *same = NULL;
	int64_t triggers = 0;
	int code = sqlite3_prepare_v2(wanted, "SELECT type, name, sql FROM sqlite_schema", -1, &each, NULL);
	bool all = true;

	if (code == SQLITE_OK)
		code = sqlite3_prepare_v2(db->handle,
		                          "SELECT 1 FROM sqlite_schema WHERE type IS ? AND name IS ? AND sql IS ?", -1,
		                          &same, NULL);
	while (code == SQLITE_OK && all && (code = sqlite3_step(each)) == SQLITE_ROW) {
		for (int i = 0; i < 3; i++)
			sqlite3_bind_value(same, i + 1, sqlite3_column_value(each, i));
		code = sqlite3_step(same);
		all = code == SQLITE_ROW;
		code = code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
		sqlite3_reset(same);
	}
	sqlite3_finalize(each);
	sqlite3_finalize(same);
	if (code == SQLITE_DONE || code == SQLITE_OK)
		code = read_number(db->handle, "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", &triggers);
	return code == SQLITE_OK && (!all || triggers) ? unfit(db, "with other tables than this program's") : code;
}

/* A version alone proves nothing: rows that its tables do not take would be lost for good. */
static int check_schema(struct db *db, struct err *err)
{
	sqlite3 *wanted = NULL;
	int code = sqlite3_open(":memory:", &wanted);

	if (code == SQLITE_OK)
		code = db_migrate(wanted, db_migrations, db_version, err);
	if (code == SQLITE_OK)
		code = compare_schema(db, wanted);
	sqlite3_close(wanted);
	return code == SQLITE_OK || db->unfit ? code : fail(db, code, "reading its tables", err);
}

/* The cache is small: rows are written once and seldom read, and memory is for models. */
static int set_up(struct db *db, struct err *err)
{
	char sql[400];

	snprintf(sql, sizeof(sql),
	         "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
	         "PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -256;"
	         "PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;"
	         "PRAGMA application_id = %d",
	         APPLICATION_ID);
	int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
	if (code != SQLITE_OK)
		return fail(db, code, "setting it up", err);
	code = db_migrate(db->handle, db_migrations, db_version, err);
	if (code == SQLITE_ERROR)
		return unfit(db, "with other tables than this program's");
	return code == SQLITE_OK ? check_schema(db, err) : code;
}

static int prepare_one(struct db *db, struct buf *sql, sqlite3_stmt **out, struct err *err)
{
	int code = sqlite3_prepare_v3(db->handle, buf_cstr(sql), -1, SQLITE_PREPARE_PERSISTENT, out,
	                              NULL);

	buf_release(sql);
	return code == SQLITE_OK ? code : fail(db, code, "reading its tables", err);
}

static int prepare(struct db *db, struct err *err)
{
	struct buf sql = BUF_INIT;
	int code = SQLITE_OK;

	for (size_t i = 0; i < TABLE_COUNT && code == SQLITE_OK; i++) {
		table_insert_sql(&tables[i], &sql);
		code = prepare_one(db, &sql, &db->insert[i], err);
		for (int by_model = 0; by_model < 2 && code == SQLITE_OK; by_model++) {
			table_select_sql(&tables[i], by_model, &sql);
			code = prepare_one(db, &sql, &db->select[i][by_model], err);
		}
	}
	if (code != SQLITE_OK)
		return code;
	buf_append_str(&sql, STR("INSERT INTO learned(file_key, build_key, row) VALUES (?, ?, ?) "
	                         "ON CONFLICT DO UPDATE SET row = excluded.row"));
	code = prepare_one(db, &sql, &db->learn, err);
	if (code != SQLITE_OK)
		return code;
	buf_append_str(&sql, STR("DELETE FROM learned WHERE file_key = ? AND build_key = ? AND length(row) = ?"));
	return prepare_one(db, &sql, &db->forget, err);
}

static void finalize(struct db *db)
{
	for (size_t i = 0; i < TABLE_COUNT; i++) {
		sqlite3_finalize(db->insert[i]);
		sqlite3_finalize(db->select[i][0]);
		sqlite3_finalize(db->select[i][1]);
	}
	sqlite3_finalize(db->learn);
	sqlite3_finalize(db->forget);
	sqlite3_close(db->handle);
	*db = (struct db){ .path = db->path, .moved = db->moved, .asides = db->asides, .unfit = db->unfit,
	                    .failed_code = db->failed_code, .failed_at_ms = db->failed_at_ms };
}

static const char *const parts[] = { "", "-wal", "-shm", "-journal" };
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

/* What SQLite cannot read or write, or would read for ever: told apart before it opens anything. */
static const char *what_it_is_instead(const char *path)
{
	struct stat st;

	for (size_t i = 0; i < PARTS; i++) {
		char *part = xasprintf("%s%s", path, parts[i]);
		bool other = lstat(part, &st) == 0 && !S_ISREG(st.st_mode);
		free(part);
		if (other)
			return i ? "beside something of its name that is no file" : "no file";
	}
	if (lstat(path, &st) == 0 && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0 && errno == EACCES)
		return "not to be read and written by this user";
	return NULL;
}

/* What SQLite makes others could read; where it cannot be made, SQLite says why. */
static void make_private(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd >= 0)
		close(fd);
}

static int open_once(struct db *db, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
	            SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE;
	db->unfit = NULL;
	const char *instead = what_it_is_instead(db->path);
	if (instead)
		return unfit(db, instead);
	make_private(db->path);
	int code = sqlite3_open_v2(db->path, &db->handle, flags, NULL);

	if (code != SQLITE_OK)
		return fail(db, code, "opening it", err);
	sqlite3_busy_timeout(db->handle, BUSY_MS);
	sqlite3_db_config(db->handle, SQLITE_DBCONFIG_LOOKASIDE, NULL, 0, 0);
	if (sqlite3_db_readonly(db->handle, "main") == 1) {
		err_set(err, -EROFS, "history '%s': the file may not be written", db->path);
		return SQLITE_READONLY;
	}
	code = check_owner(db, err);
	if (code == SQLITE_OK)
		code = set_up(db, err);
	if (code == SQLITE_OK)
		code = prepare(db, err);
	if (code == SQLITE_OK && stat(db->path, &db->file) < 0)
		code = SQLITE_CANTOPEN;
	return code;
}

/* Somebody removed or replaced the file: what is written to it from now on, nobody will read. */
static bool is_taken_away(const struct db *db)
{
	struct stat now;

	return stat(db->path, &now) < 0 || now.st_ino != db->file.st_ino ||
	       now.st_dev != db->file.st_dev;
}

static bool is_damage(int code)
{
	return (code & 0xFF) == SQLITE_NOTADB || (code & 0xFF) == SQLITE_CORRUPT;
}

/* A name beside it that nobody has; false where there is none. */
static bool find_name(const char *path, char *out, size_t out_bytes)
{
	time_t now = time(NULL);
	struct tm utc;
	struct stat st;
	char date[32];

	gmtime_r(&now, &utc);
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", &utc);
	for (int i = 1; i < 100; i++) {
		int length = snprintf(out, out_bytes, i == 1 ? "%s.aside-%s" : "%s.aside-%s-%d", path, date, i);
		if (length > 0 && (size_t)length < out_bytes && lstat(out, &st) < 0)
			return true;
	}
	return false;
}

/* Its log and index go with it: they would be read into the new file. */
static int move_aside(struct db *db, struct err *err)
{
	const char *what = db->unfit ? db->unfit : "damaged";
	char name[PATH_MAX] = "";
	int failed = find_name(db->path, name, sizeof(name)) ? 0 : EEXIST;

	for (size_t i = 0; i < PARTS && !failed; i++) {
		char *from = xasprintf("%s%s", db->path, parts[i]);
		char *to = xasprintf("%s%s", name, parts[i]);
		failed = rename(from, to) != 0 && errno != ENOENT ? errno : 0;
		free(from);
		free(to);
	}
	if (failed) {
		err_set(err, -failed, "history '%s': %s, and it cannot be moved aside (%s): nothing is kept; try: move it away",
		        db->path, what, strerror(failed));
		return SQLITE_IOERR;
	}
	db->asides++;
	err_set(&db->moved, -EIO, "history '%s': %s; it is kept as %s and a new one is begun", db->path, what, name);
	return SQLITE_OK;
}

int db_start_anew(struct db *db, struct err *err)
{
	finalize(db);
	if (db->asides == ASIDES_MAX) {
		err_set(err, -EIO, "history '%s': damaged %d times since the start: nothing more is kept; look after the disk",
		        db->path, ASIDES_MAX);
		return SQLITE_IOERR;
	}
	int code = move_aside(db, err);
	if (code == SQLITE_OK)
		code = open_once(db, err);
	if (code != SQLITE_OK)
		finalize(db);
	return code;
}

/* With what is no use out of the way. */
static int open_again(struct db *db, struct err *err)
{
	int code = open_once(db, err);

	if (is_damage(code))
		return db_start_anew(db, err);
	if (code != SQLITE_OK)
		finalize(db);
	db->failed_code = code;
	db->failed_at_ms = code == SQLITE_OK ? 0 : now_ms();
	return code;
}

int db_open(struct db *db, const char *path, struct err *err)
{
	*db = (struct db){ .path = xstrdup(path) };
	return open_again(db, err);
}

void db_close(struct db *db)
{
	finalize(db);
	free(db->path);
	db->path = NULL;
}

static int run(struct db *db, const char *sql, const char *doing, struct err *err)
{
	int code = db->handle ? sqlite3_exec(db->handle, sql, NULL, NULL, NULL) : SQLITE_CANTOPEN;

	return code == SQLITE_OK ? code : fail(db, code, doing, err);
}

static int ready(struct db *db, struct err *err)
{
	if (db->handle && is_taken_away(db))
		finalize(db);
	return db->handle ? SQLITE_OK : open_again(db, err); /* it could not be begun anew; perhaps now */
}

int db_ready(struct db *db, struct err *err)
{
	if (!db->handle && db->failed_at_ms && now_ms() - db->failed_at_ms < REST_MS) {
		err_set(err, -EIO, "history '%s': it could not be opened a moment ago", db->path);
		return db->failed_code;
	}
	return ready(db, err);
}

int db_begin(struct db *db, struct err *err)
{
	int code = ready(db, err);

	return code == SQLITE_OK ? run(db, "BEGIN IMMEDIATE", "beginning to write", err) : code;
}

int db_commit(struct db *db, struct err *err)
{
	return run(db, "COMMIT", "writing", err);
}

void db_rollback(struct db *db)
{
	if (db->handle && !sqlite3_get_autocommit(db->handle))
		sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

static int step_once(struct db *db, sqlite3_stmt *statement, struct err *err)
{
	int code = sqlite3_step(statement);
	int result = code == SQLITE_DONE ? SQLITE_OK : fail(db, code, "writing", err);

	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return result;
}

int db_write(struct db *db, enum table_kind kind, const void *row, struct err *err)
{
	sqlite3_stmt *statement = db->insert[kind];
	int index = 1;

	for (const struct column *column = tables[kind].columns; column->name; column++, index++) {
		if (column->text)
			sqlite3_bind_text(statement, index, column_text(column, row), -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(statement, index, column_number(column, row));
	}
	return step_once(db, statement, err);
}

int db_write_learned(struct db *db, uint64_t file_key, uint64_t build_key, const void *row,
                     uint32_t row_bytes, struct err *err)
{
	sqlite3_bind_int64(db->learn, 1, (int64_t)file_key);
	sqlite3_bind_int64(db->learn, 2, (int64_t)build_key);
	sqlite3_bind_blob(db->learn, 3, row, (int)row_bytes, SQLITE_STATIC);
	return step_once(db, db->learn, err);
}

int db_forget_learned(struct db *db, uint64_t file_key, uint64_t build_key, uint32_t row_bytes, struct err *err)
{
	sqlite3_bind_int64(db->forget, 1, (int64_t)file_key);
	sqlite3_bind_int64(db->forget, 2, (int64_t)build_key);
	sqlite3_bind_int64(db->forget, 3, (int64_t)row_bytes);
	return step_once(db, db->forget, err);
}

int db_prune(struct db *db, int64_t keep_ms, int64_t keep_rows, struct err *err)
{
	enum { CHUNK = 4000, CHUNKS_MAX = 25 }; /* the thread has other things to do; the next turn goes on */

	for (size_t i = 0; i < TABLE_COUNT; i++) {
		const char *name = tables[i].name, *at = tables[i].time;
		char *sql = xasprintf(
			"DELETE FROM %s WHERE seq IN (SELECT seq FROM %s WHERE %s < "
			"(SELECT max(%s) FROM %s) - %lld OR seq <= (SELECT max(seq) FROM %s) - %lld "
			"LIMIT %d)",
			name, name, at, at, name, (long long)keep_ms, name, (long long)keep_rows, CHUNK);
		int code = SQLITE_OK, chunks = 0;
		do
			code = run(db, sql, "deleting what is old", err);
		while (code == SQLITE_OK && ++chunks < CHUNKS_MAX &&
		       sqlite3_changes(db->handle) == CHUNK);
		free(sql);
		if (code != SQLITE_OK)
			return code;
	}
	return SQLITE_OK;
}
