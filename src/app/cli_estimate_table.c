#include "app/cli_estimate_table.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/estimate_json.h"
#include "api/value.h"
#include "app/cli_estimate_args.h"
#include "app/cli_json.h"
#include "app/cli_table.h"
#include "base/alloc.h"
#include "base/units.h"

enum { CONTEXT_FIRST = 2048, CONTEXTS_MOST = 12, FILES_MOST = 4096 };

static const enum kv_cache_type types[] = { KV_F16, KV_Q8_0, KV_Q4_0 };
enum { TYPES = sizeof(types) / sizeof(*types) };

int64_t machine_most(const struct estimate *e)
{
	return e->steady_bytes > e->peak_bytes ? e->steady_bytes : e->peak_bytes;
}

const char *machine_fits(const struct machine_room *room, const struct estimate *e)
{
	int64_t device = room->own_memory ? e->device.total_bytes : 0;
	struct device_share least = { 0 };

	if (device == 0) {
		if (machine_most(e) <= (room->own_memory ? room->host_free_bytes : room->free_bytes))
			return "now";
		return e->lower_bytes <= (room->own_memory ? room->host_capacity_bytes : room->capacity_bytes)
		               ? "after-eviction"
		               : "never";
	}
	if (device <= room->free_bytes && machine_most(e) - device <= room->host_free_bytes)
		return "now";
	estimate_on_device(e, &least);
	bool ever = least.lower_bytes <= room->capacity_bytes &&
	            e->lower_bytes - least.lower_bytes <= room->host_capacity_bytes;
	return ever ? "after-eviction" : "never";
}

static bool estimate_cell(const struct cli_args *args, const char *path,
                          const struct estimate_params *params, const struct machine_room *room,
                          int64_t context, enum kv_cache_type type, struct estimate *out)
{
	struct estimate_params cell = *params;
	struct err err;

	cell.context = context;
	cell.kv_k = cell.kv_v = type;
	if (type > KV_BF16)
		cell.flash = FLASH_ON;
	return estimate_launched(args, path, &cell, room, out, &err) == 0;
}

/* Powers of two up to what the model was trained for, and that. The count. */
static int contexts_of(const struct estimate *e, int64_t contexts[CONTEXTS_MOST])
{
	int64_t most = e->trained_context;
	int count = 0;

	if (e->trained_context == 0)
		return 0; /* speech and pictures */
	for (int64_t context = CONTEXT_FIRST; context < most && count < CONTEXTS_MOST - 1; context *= 2)
		contexts[count++] = context;
	contexts[count++] = most;
	return count;
}

/* An encoder keeps no cache: one column is enough. */
static int types_of(const struct estimate *e)
{
	return e->kv_bytes_per_token > 0 ? TYPES : 1;
}

static const char *mark_of(const struct machine_room *room, const struct estimate *e)
{
	const char *fits = room->known ? machine_fits(room, e) : "";
	return strcmp(fits, "now") == 0 ? "" : strcmp(fits, "never") == 0 ? " no" : " *";
}

void table_print(const struct cli_args *args, const char *path, const struct estimate_params *params,
                 const struct machine_room *room)
{
	static const char *const titles[] = { ">CONTEXT", ">KV f16", ">q8_0", ">q4_0", NULL };
	static const char *const encoder_titles[] = { ">CONTEXT", ">FULL", NULL };
	int64_t contexts[CONTEXTS_MOST];
	struct buf out = BUF_INIT;
	struct table table;
	struct estimate e;
	char size[UNITS_TEXT];

	if (!estimate_cell(args, path, params, room, CONTEXT_FIRST, KV_F16, &e))
		return;
	int rows = contexts_of(&e, contexts), columns = types_of(&e);
	table_begin(&table, columns == 1 ? encoder_titles : titles);
	for (int i = 0; i < rows; i++) {
		table_add(&table, "%lld", (long long)contexts[i]);
		for (int j = 0; j < columns; j++) {
			bool known = estimate_cell(args, path, params, room, contexts[i], types[j], &e);
			table_add(&table, "%s%s", known ? units_size(size, machine_most(&e)) : "-",
			          known ? mark_of(room, &e) : "");
		}
	}
	table_end(&table, &out);
	if (rows > 0)
		printf("\n%s  started by cotenant, all slots full; the context is over all slots%s\n", buf_cstr(&out),
		       room->known ? "; * fits when others make room, no: never here" : "");
	buf_release(&out);
}

json_t *table_json(const struct cli_args *args, const char *path, const struct estimate_params *params,
                   const struct machine_room *room)
{
	int64_t contexts[CONTEXTS_MOST];
	json_t *array = json_array();
	struct estimate e;

	if (!estimate_cell(args, path, params, room, CONTEXT_FIRST, KV_F16, &e))
		return array;
	int rows = contexts_of(&e, contexts), columns = types_of(&e);
	for (int i = 0; i < rows * columns; i++) {
		int64_t context = contexts[i / columns];
		if (!estimate_cell(args, path, params, room, context, types[i % columns], &e))
			continue;
		json_t *cell = json_pack("{s:I, s:s, s:I, s:I, s:I}", "context", (json_int_t)context, "kv_type",
		                         estimate_kv_type_name(types[i % columns]), "base_bytes",
		                         (json_int_t)e.base_bytes, "peak_bytes", (json_int_t)e.peak_bytes, "full_bytes",
		                         (json_int_t)machine_most(&e));
		json_object_set_new(cell, "fits",
		                    room->known ? json_string(machine_fits(room, &e)) : json_null());
		json_array_append_new(array, cell);
	}
	return array;
}

/* ---- a folder ---- */

static bool is_model_name(const char *name)
{
	static const char *const endings[] = { ".gguf", ".safetensors", ".bin", ".part", ".incomplete", NULL };
	struct str text = str_from(name);

	for (const char *const *ending = endings; *ending; ending++)
		if (str_ends(text, *ending) && text.length > strlen(*ending))
			return !strstr(name, "-of-") || strstr(name, "-00001-of-");
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of model files, sorted; free each and the array. -1: errno says why. */
static int names_in(const char *folder, char ***out)
{
	DIR *dir = opendir(folder);
	int count = 0;

	*out = NULL;
	if (!dir)
		return -1;
	char **names = xcalloc(FILES_MOST, sizeof(*names));
	for (struct dirent *entry; count < FILES_MOST && (entry = readdir(dir));)
		if (is_model_name(entry->d_name))
			names[count++] = xstrndup(entry->d_name, strlen(entry->d_name));
	closedir(dir);
	qsort(names, (size_t)count, sizeof(*names), by_name);
	*out = names;
	return count;
}

static void add_row(struct table *table, const char *name, const struct estimate *e,
                    const struct machine_room *room, int64_t context)
{
	table_add(table, "%s", name);
	table_add(table, "%s %s", e->architecture, e->quantisation);
	table_add_size(table, e->file_bytes);
	table_add_count(table, context);
	table_add_size(table, e->base_bytes);
	table_add_size(table, machine_most(e));
	table_add(table, "%s", room->known ? machine_fits(room, e) : "-");
	table_add(table, "%s", e->flags);
}

static json_t *row_json(const char *name, const struct estimate *e, const struct machine_room *room,
                        int64_t context)
{
	json_t *json = estimate_json(e);

	json_object_set_new(json, "file", json_lossy(str_from(name)));
	json_object_set_new(json, "context", json_integer(context));
	json_object_set_new(json, "fits", room->known ? json_string(machine_fits(room, e)) : json_null());
	return json;
}

/* The largest context of the table that fits now, else the smallest: of what is given that. */
static int64_t context_for(const struct cli_args *args, const char *path,
                           const struct estimate_params *params, const struct machine_room *room,
                           struct estimate *out, struct err *err)
{
	struct estimate_params small = *params;
	int64_t contexts[CONTEXTS_MOST];

	if (params->context == 0)
		small.context = CONTEXT_FIRST;
	if (estimate_launched(args, path, &small, room, out, err) < 0)
		return -1;
	int rows = params->context > 0 ? 0 : contexts_of(out, contexts);
	if (rows == 1) {
		small.context = contexts[0];
		return estimate_launched(args, path, &small, room, out, err) < 0 ? -1 : small.context;
	}
	for (int i = rows - 1; i > 0; i--) {
		struct estimate larger;
		if (!estimate_cell(args, path, params, room, contexts[i], params->kv_k, &larger) ||
		    strcmp(machine_fits(room, &larger), "now") != 0)
			continue;
		*out = larger;
		return contexts[i];
	}
	return out->trained_context > 0 ? small.context : 0;
}

static void say_folder(const struct cli_args *args, const char *folder, char *const *names, int count,
                       const struct estimate_params *params, const struct machine_room *room,
                       struct table *table, json_t *array)
{
	for (int i = 0; i < count; i++) {
		struct estimate e;
		struct err err = { 0 };
		char path[PATH_MAX];
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, names[i]) >= sizeof(path))
			continue;
		int64_t context = context_for(args, path, params, room, &e, &err);
		if (array)
			json_array_append_new(array, context < 0
			                                     ? json_pack("{s:o, s:s}", "file",
			                                                 json_lossy(str_from(names[i])), "error", err.text)
			                                     : row_json(names[i], &e, room, context));
		else if (context < 0)
			fprintf(stderr, "%s\n", err.text);
		else
			add_row(table, names[i], &e, room, context);
	}
}

int estimate_folder(const struct cli_args *args, const char *folder, const struct estimate_params *params,
                    const struct machine_room *room)
{
	static const char *const titles[] = { "FILE", "WHAT", ">SIZE", ">CONTEXT", ">IDLE", ">FULL", "FITS",
		                              "REMARKS", NULL };
	json_t *array = args->json ? json_array() : NULL;
	struct buf out = BUF_INIT;
	struct table table;
	char **names;

	int count = names_in(folder, &names);
	if (count < 0) {
		json_decref(array);
		return cli_fail(CLI_FAILED, "ls -ld FOLDER", "%s: %s", folder, strerror(errno));
	}
	table_begin(&table, titles);
	say_folder(args, folder, names, count, params, room, &table, array);
	table_end(&table, &out);
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
	if (array) {
		buf_release(&out);
		return json_print(json_pack("{s:o, s:I}", "models", array, "free_bytes",
		                            (json_int_t)room->free_bytes));
	}
	if (buf_length(&out))
		printf("%s", buf_cstr(&out));
	else
		printf("no model files in %s (.gguf, .safetensors, .bin)\n", folder);
	buf_release(&out);
	return CLI_DONE;
}
