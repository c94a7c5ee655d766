#include "store/table.h"

#include <stdint.h>
#include <string.h>

#include "store/store.h"

#define TEXT(type, member) { #member, true, offsetof(struct type, member) }
#define NUMBER(type, member) { #member, false, offsetof(struct type, member) }
#define END { NULL, false, 0 }

static const struct column decision_columns[] = {
	NUMBER(store_decision, at_ms),
	TEXT(store_decision, id),
	TEXT(store_decision, kind),
	TEXT(store_decision, reason),
	TEXT(store_decision, model),
	TEXT(store_decision, for_model),
	TEXT(store_decision, request),
	TEXT(store_decision, text),
	NUMBER(store_decision, need_bytes),
	NUMBER(store_decision, room_bytes),
	NUMBER(store_decision, held_bytes),
	NUMBER(store_decision, foreign_bytes),
	NUMBER(store_decision, capacity_bytes),
	NUMBER(store_decision, measured_bytes),
	NUMBER(store_decision, wait_ms),
	NUMBER(store_decision, load_ms),
	END,
};

static const struct column request_columns[] = {
	NUMBER(store_request, arrived_at_ms),
	TEXT(store_request, id),
	TEXT(store_request, model),
	TEXT(store_request, key_name),
	TEXT(store_request, path),
	TEXT(store_request, priority),
	TEXT(store_request, outcome),
	NUMBER(store_request, status),
	NUMBER(store_request, wait_ms),
	NUMBER(store_request, load_ms),
	NUMBER(store_request, first_byte_ms),
	NUMBER(store_request, total_ms),
	NUMBER(store_request, bytes_in),
	NUMBER(store_request, bytes_out),
	NUMBER(store_request, tokens_in),
	NUMBER(store_request, tokens_out),
	END,
};

static const struct column observation_columns[] = {
	NUMBER(store_observation, at_ms),
	TEXT(store_observation, model),
	TEXT(store_observation, file),
	TEXT(store_observation, build),
	NUMBER(store_observation, estimate_bytes),
	NUMBER(store_observation, measured_base_bytes),
	NUMBER(store_observation, measured_peak_bytes),
	NUMBER(store_observation, load_ms),
	END,
};

const struct table tables[TABLE_COUNT] = {
	[TABLE_DECISIONS] = { "decisions", "at_ms", decision_columns, sizeof(struct store_decision) },
	[TABLE_REQUESTS] = { "requests", "arrived_at_ms", request_columns,
	                     sizeof(struct store_request) },
	[TABLE_OBSERVATIONS] = { "observations", "at_ms", observation_columns,
	                         sizeof(struct store_observation) },
};

enum table_kind table_find(const char *name)
{
	enum table_kind kind = 0;

	while (kind < TABLE_COUNT && strcmp(tables[kind].name, name) != 0)
		kind++;
	return kind;
}

static void name_columns(const struct table *table, struct buf *out)
{
	for (const struct column *column = table->columns; column->name; column++)
		buf_printf(out, "%s%s", column == table->columns ? "" : ", ", column->name);
}

void table_insert_sql(const struct table *table, struct buf *out)
{
	buf_printf(out, "INSERT INTO %s(", table->name);
	name_columns(table, out);
	buf_append_str(out, STR(") VALUES ("));
	for (const struct column *column = table->columns; column->name; column++)
		buf_append_str(out, column == table->columns ? STR("?") : STR(", ?"));
	buf_append_char(out, ')');
}

void table_select_sql(const struct table *table, bool by_model, struct buf *out)
{
	buf_append_str(out, STR("SELECT "));
	name_columns(table, out);
	buf_printf(out, " FROM %s WHERE %s >= ?1%s ORDER BY %s DESC, seq DESC LIMIT ?2", table->name,
	           table->time, by_model ? " AND model = ?3" : "", table->time);
}

const char *column_text(const struct column *column, const void *row)
{
	return *(const char *const *)(const void *)((const char *)row + column->offset);
}

long long column_number(const struct column *column, const void *row)
{
	return *(const int64_t *)(const void *)((const char *)row + column->offset);
}
