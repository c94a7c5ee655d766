#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "conf/schema.h"

static const struct conf_model *find(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->model_count; i++)
		if (!conf->models[i].absent && strcmp(conf->models[i].name, name) == 0)
			return &conf->models[i];
	return NULL;
}

static enum conf_change worse(enum conf_change a, enum conf_change b)
{
	return a > b ? a : b;
}

static enum conf_change change_of(const struct field *field)
{
	switch (field->effect) {
	case EFFECT_LIVE:
		return CONF_CHANGE_LIVE;
	case EFFECT_DRAIN:
		return CONF_CHANGE_MODELS;
	case EFFECT_RESTART:
		return CONF_CHANGE_RESTART;
	}
	return CONF_CHANGE_RESTART;
}

/* `engines` may give the same name another program. */
static bool same_program(const struct conf_model *a, const struct conf_model *b)
{
	bool paths = a->engine_path && b->engine_path;

	return a->engine == b->engine &&
	       (paths ? strcmp(a->engine_path, b->engine_path) == 0 : a->engine_path == b->engine_path);
}

bool conf_model_equal(const struct conf_model *a, const struct conf_model *b)
{
	return strcmp(a->name, b->name) == 0 && same_program(a, b) &&
	       section_equal(&schema_model, a, b);
}

static enum conf_change compare_section(const struct section *section, const void *old,
                                        const void *new, const char *where, struct buf *report)
{
	static const char *const effects[] = { "at once", "a loaded model starts anew",
		                               "needs a restart" };
	enum conf_change change = CONF_CHANGE_NONE;

	FIELDS_EACH (field, section) {
		if (field->section == &schema_model || (field->flags & FIELD_HIDDEN) ||
		    field_equal(field, old, new))
			continue;
		if (field->type == FIELD_GROUP) {
			struct buf inside = BUF_INIT;
			buf_printf(&inside, "%s%s.", where, field->key);
			change = worse(change, compare_section(field->section, field_at(field, old),
			                                       field_at(field, new), buf_cstr(&inside), report));
			buf_release(&inside);
			continue;
		}
		change = worse(change, change_of(field));
		if (report)
			buf_printf(report, "%s%s: changed (%s)\n", where, field->key,
			           effects[field->effect]);
	}
	return change;
}

static enum conf_change compare_models(const struct conf_model *a, const struct conf_model *b,
                                       struct buf *report)
{
	char where[256];

	snprintf(where, sizeof(where), "models.%s.", a->name);
	enum conf_change change = compare_section(&schema_model, a, b, where, report);
	if (!same_program(a, b)) {
		change = CONF_CHANGE_MODELS;
		if (report)
			buf_printf(report, "%sengine: another program (a loaded model starts anew)\n", where);
	}
	return change;
}

enum conf_change conf_model_compare(const struct conf_model *a, const struct conf_model *b)
{
	return compare_models(a, b, NULL);
}

enum conf_change conf_compare(const struct conf *old, const struct conf *new, struct buf *report)
{
	enum conf_change change = compare_section(&schema_root, old, new, "", report);

	for (size_t i = 0; i < old->model_count; i++) {
		if (old->models[i].absent)
			continue;
		const struct conf_model *model = find(new, old->models[i].name);
		if (model) {
			change = worse(change, compare_models(&old->models[i], model, report));
			continue;
		}
		change = worse(change, CONF_CHANGE_MODELS);
		if (report)
			buf_printf(report, "models.%s: removed\n", old->models[i].name);
	}
	for (size_t i = 0; i < new->model_count; i++) {
		if (new->models[i].absent || find(old, new->models[i].name))
			continue;
		change = worse(change, CONF_CHANGE_MODELS);
		if (report)
			buf_printf(report, "models.%s: added\n", new->models[i].name);
	}
	return change;
}
