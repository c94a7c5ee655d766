#ifndef STORE_DB_H
#define STORE_DB_H

#include <stdint.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "base/err.h"
#include "store/store.h"
#include "store/table.h"

/*
 * db - the file: opened, brought to this program's schema, written and read.
 *
 * Used by one thread. Functions return 0, or SQLite's own code, with `err` told
 * what was being done; a failed transaction leaves the file as it was.
 */
struct db {
	char *path;
	sqlite3 *handle;               /* NULL while it could not be opened again */
	struct stat file;              /* the one that is open */
	struct err moved;              /* what was moved aside, yet to be said; code 0: nothing */
	int asides;                    /* so often in this life */
	int failed_code;               /* of the last try to open it, and when that ended */
	int64_t failed_at_ms;
	const char *unfit;             /* why what was found there cannot be used; NULL: damaged, or it can */
	sqlite3_stmt *insert[TABLE_COUNT];
	sqlite3_stmt *select[TABLE_COUNT][2]; /* all models, one model */
	sqlite3_stmt *learn, *forget;
};

/* One step of the schema; step i leads from version i to i + 1. */
struct migration {
	const char *sql;
};
extern const struct migration db_migrations[];
extern const int db_version; /* what the last one leads to */

/*
 * Open `path`, creating it. What lies there and is no use (damaged, another program's, of other tables, no
 * file, not ours to write) is moved aside as NAME.aside-<date> and a new one begun: then `moved` says so. A file of
 * a newer version is left alone: SQLITE_MISUSE. After any other code the next db_begin() tries again: a disk may have
 * room then. db_close() in any case.
 */
int db_open(struct db *db, const char *path, struct err *err);
void db_close(struct db *db);
/* The file turned out damaged while in use: the same for a db that is open; a few times, and then no more. */
int db_start_anew(struct db *db, struct err *err);

/* From the version it has to `version`, each step in a transaction of its own. */
int db_migrate(sqlite3 *handle, const struct migration *migrations, int version, struct err *err);

/* To read: opens it where it was not, or is not there any more, but not again at once. */
int db_ready(struct db *db, struct err *err);
int db_begin(struct db *db, struct err *err);
int db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);
int db_write(struct db *db, enum table_kind kind, const void *row, struct err *err);
int db_write_learned(struct db *db, uint64_t file_key, uint64_t build_key, const void *row,
                     uint32_t row_bytes, struct err *err);

/* The row of these keys, where it is of that size. */
int db_forget_learned(struct db *db, uint64_t file_key, uint64_t build_key, uint32_t row_bytes, struct err *err);
/* Append each learned row of that size to `out`, and count them; after a failure, what could be read. */
int db_read_learned(struct db *db, uint32_t row_bytes, struct buf *out, int *out_count, struct err *err);
/* A JSON array, to be freed; NULL where it failed. */
int db_query(struct db *db, enum table_kind kind, const struct store_query *query, char **out, struct err *err);

/*
 * Delete what is older than `keep_ms` before the newest row, and all but the
 * newest `keep_rows`, a few thousand at a time. By the newest row and not the
 * clock: a clock that is wrong for an hour must not empty the history.
 */
int db_prune(struct db *db, int64_t keep_ms, int64_t keep_rows, struct err *err);

#endif
