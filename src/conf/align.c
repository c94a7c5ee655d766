#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "conf/conf.h"

static void put(struct conf_model *rows, size_t *count, size_t at, const struct conf_model *model)
{
	rows[at] = *model;
	if (at >= *count)
		*count = at + 1;
}

static size_t index_of(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->model_count; i++)
		if (strcmp(conf->models[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}

/* A row whose model went in an earlier reload and whose engine is gone. */
static size_t first_free(const struct conf_model *rows, const struct conf *old,
                         bool (*in_use)(void *ctx, size_t index), void *ctx)
{
	size_t at = 0;

	while (at < old->model_count &&
	       (rows[at].name || !old->models[at].absent || in_use(ctx, at)))
		at++;
	return at;
}

void conf_align(struct conf *next, const struct conf *old, bool (*in_use)(void *ctx, size_t index),
                void *ctx)
{
	size_t count = old->model_count;
	struct conf_model *rows = xcalloc(old->model_count + next->model_count, sizeof(*rows));

	for (size_t i = 0; i < next->model_count; i++) {
		size_t at = index_of(old, next->models[i].name);
		if (at != SIZE_MAX)
			put(rows, &count, at, &next->models[i]);
	}
	for (size_t i = 0; i < next->model_count; i++) {
		if (index_of(old, next->models[i].name) != SIZE_MAX)
			continue;
		size_t at = first_free(rows, old, in_use, ctx);
		put(rows, &count, at < old->model_count ? at : count, &next->models[i]);
	}
	for (size_t i = 0; i < old->model_count; i++) {
		if (rows[i].name)
			continue;
		rows[i].name = xstrdup(old->models[i].name);
		rows[i].absent = true;
	}
	free(next->models);
	next->models = rows;
	next->model_count = count;
}
