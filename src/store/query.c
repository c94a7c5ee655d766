#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/db.h"

int db_read_learned(struct db *db, uint32_t row_bytes, struct buf *out, int *out_count, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int code = db_ready(db, err);

	*out_count = 0;
	if (code != SQLITE_OK)
		return code;
	code = sqlite3_prepare_v2(db->handle, "SELECT row FROM learned WHERE length(row) = ?", -1, &statement, NULL);
	if (code == SQLITE_OK) {
		sqlite3_bind_int64(statement, 1, row_bytes);
		while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
			const void *row = sqlite3_column_blob(statement, 0);
			if (!row || sqlite3_column_bytes(statement, 0) != (int)row_bytes)
				continue;
			buf_append(out, row, row_bytes);
			++*out_count;
		}
	}
	sqlite3_finalize(statement);
	if (code == SQLITE_DONE)
		return SQLITE_OK;
	err_set(err, -EIO, "history '%s': reading what was learned: %s", db->path,
	        sqlite3_errstr(code));
	return code;
}

/* What a client sent may be no UTF-8, and JSON must be. */
static json_t *text_of(const char *text, size_t length)
{
	json_t *json = json_stringn(text, length);

	if (json)
		return json;
	char *ascii = xstrndup(text, length);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)ascii[i] >= 0x80)
			ascii[i] = '?';
	json = json_stringn(ascii, length);
	free(ascii);
	return json;
}

static json_t *row_of(const struct table *table, sqlite3_stmt *statement)
{
	json_t *row = json_object();
	int index = 0;

	for (const struct column *column = table->columns; column->name; column++, index++) {
		const char *text = (const char *)sqlite3_column_text(statement, index);
		size_t length = (size_t)sqlite3_column_bytes(statement, index);
		json_object_set_new(row, column->name,
		                    column->text ? text_of(text ? text : "", text ? length : 0)
		                                 : json_integer(sqlite3_column_int64(statement, index)));
	}
	return row;
}

int db_query(struct db *db, enum table_kind kind, const struct store_query *query, char **out, struct err *err)
{
	bool by_model = query->model && query->model[0];
	int code = db_ready(db, err);

	*out = NULL;
	if (code != SQLITE_OK)
		return code;
	sqlite3_stmt *statement = db->select[kind][by_model];
	json_t *rows = json_array();
	sqlite3_bind_int64(statement, 1, query->since_ms);
	sqlite3_bind_int64(statement, 2, query->limit);
	if (by_model)
		sqlite3_bind_text(statement, 3, query->model, -1, SQLITE_STATIC);
	while ((code = sqlite3_step(statement)) == SQLITE_ROW)
		json_array_append_new(rows, row_of(&tables[kind], statement));
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	if (code == SQLITE_DONE)
		*out = json_dumps(rows, JSON_COMPACT);
	else
		err_set(err, -EIO, "history '%s': reading %s: %s", db->path, tables[kind].name,
		        sqlite3_errstr(code));
	json_decref(rows);
	return code == SQLITE_DONE ? SQLITE_OK : code;
}
