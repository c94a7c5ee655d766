#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conf/schema.h"

const struct field *schema_field(const struct section *section, struct str key)
{
	FIELDS_EACH (field, section)
		if (str_is(key, field->key))
			return field;
	return NULL;
}

const char *schema_nearest(const struct section *section, struct str key)
{
	const char *nearest = NULL;

	FIELDS_EACH (field, section)
		nearest = str_nearer(key, nearest, field->key);
	return nearest;
}

static void places_under(const struct section *section, struct str key, struct buf *out)
{
	if (schema_field(section, key))
		buf_printf(out, "%s%s", buf_length(out) ? " or " : "", section->title);
	FIELDS_EACH (field, section)
		if (field->section)
			places_under(field->section, key, out);
}

void schema_places(const struct section *root, struct str key, struct buf *out)
{
	places_under(root, key, out);
}

void *field_at(const struct field *field, const void *base)
{
	return (char *)(uintptr_t)base + field->offset;
}

int64_t field_get(const struct field *field, const void *base)
{
	const void *at = field_at(field, base);

	if (field->bytes == sizeof(bool))
		return *(const bool *)at;
	if (field->bytes == sizeof(uint32_t))
		return *(const uint32_t *)at;
	assert(field->bytes == sizeof(int64_t));
	return *(const int64_t *)at;
}

void field_set(const struct field *field, void *base, int64_t value)
{
	void *at = field_at(field, base);

	if (field->bytes == sizeof(bool)) {
		*(bool *)at = value != 0;
	} else if (field->bytes == sizeof(uint32_t)) {
		*(uint32_t *)at = (uint32_t)value;
	} else {
		assert(field->bytes == sizeof(int64_t));
		*(int64_t *)at = value;
	}
}

bool field_noted(const struct field *field, const void *base)
{
	return *(const bool *)((const char *)base + field->also);
}

void *field_pointer(const void *at)
{
	void *pointer;

	memcpy(&pointer, at, sizeof(pointer)); /* whatever it points to */
	return pointer;
}

size_t field_count(const struct field *field, const void *base)
{
	return *(const size_t *)(const void *)((const char *)base + field->also);
}

char *field_item_name(const struct section *section, const void *item)
{
	return *(char *const *)(const void *)((const char *)item + section->name);
}

static bool text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool strings_equal(const struct conf_strings *a, const struct conf_strings *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return true;
}

static bool pairs_equal(const struct conf_pairs *a, const struct conf_pairs *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i].name, b->items[i].name) != 0 ||
		    strcmp(a->items[i].value, b->items[i].value) != 0)
			return false;
	return true;
}

static bool listens_equal(const struct field *field, const void *a, const void *b)
{
	const struct conf_listen *left = field_pointer(field_at(field, a));
	const struct conf_listen *right = field_pointer(field_at(field, b));

	if (field_count(field, a) != field_count(field, b))
		return false;
	for (size_t i = 0; i < field_count(field, a); i++) {
		const struct conf_listen *x = &left[i], *y = &right[i];
		if (!text_equal(x->host, y->host) || x->port != y->port ||
		    !text_equal(x->path, y->path))
			return false;
	}
	return true;
}

static bool arrays_equal(const struct field *field, const void *a, const void *b)
{
	const char *left = field_pointer(field_at(field, a)), *right = field_pointer(field_at(field, b));

	if (field_count(field, a) != field_count(field, b))
		return false;
	for (size_t i = 0; i < field_count(field, a); i++) {
		const char *x = left + i * field->section->bytes;
		const char *y = right + i * field->section->bytes;
		if (field->type == FIELD_TABLE &&
		    strcmp(field_item_name(field->section, x), field_item_name(field->section, y)) != 0)
			return false;
		if (!section_equal(field->section, x, y))
			return false;
	}
	return true;
}

enum field_shape field_shape(const struct field *field)
{
	static const enum field_shape shapes[] = {
		[FIELD_BOOL] = SHAPE_NUMBER,      [FIELD_INT] = SHAPE_NUMBER,
		[FIELD_SIZE] = SHAPE_NUMBER,      [FIELD_DURATION] = SHAPE_NUMBER,
		[FIELD_PERCENT] = SHAPE_NUMBER,   [FIELD_DECIMAL] = SHAPE_NUMBER,
		[FIELD_CHOICE] = SHAPE_NUMBER,    [FIELD_WORD] = SHAPE_TEXT,
		[FIELD_STRING] = SHAPE_TEXT,      [FIELD_PATH] = SHAPE_TEXT,
		[FIELD_PROGRAM] = SHAPE_TEXT,     [FIELD_JSON] = SHAPE_TEXT,
		[FIELD_STRINGS] = SHAPE_TEXTS,    [FIELD_PATHS] = SHAPE_TEXTS,
		[FIELD_ARGS] = SHAPE_TEXTS,       [FIELD_PAIRS] = SHAPE_PAIRS,
		[FIELD_CONTEXT] = SHAPE_CONTEXT,  [FIELD_LISTEN] = SHAPE_LISTENS,
		[FIELD_GROUP] = SHAPE_SECTION,    [FIELD_LIST] = SHAPE_SECTIONS,
		[FIELD_TABLE] = SHAPE_SECTIONS,   [FIELD_OPAQUE] = SHAPE_NONE,
	};
	return shapes[field->type];
}

static bool contexts_equal(const struct conf_model *a, const struct conf_model *b)
{
	return a->context_min == b->context_min && a->context_max == b->context_max &&
	       a->context_fixed == b->context_fixed;
}

bool field_equal(const struct field *field, const void *a, const void *b)
{
	const void *x = field_at(field, a), *y = field_at(field, b);

	switch (field_shape(field)) {
	case SHAPE_NUMBER:
		return field_get(field, a) == field_get(field, b) &&
		       (!(field->flags & FIELD_NOTED) || field_noted(field, a) == field_noted(field, b));
	case SHAPE_TEXT:
		return text_equal(*(char *const *)x, *(char *const *)y);
	case SHAPE_TEXTS:
		return strings_equal(x, y);
	case SHAPE_PAIRS:
		return pairs_equal(x, y);
	case SHAPE_CONTEXT:
		return contexts_equal(a, b);
	case SHAPE_LISTENS:
		return listens_equal(field, a, b);
	case SHAPE_SECTION:
		return section_equal(field->section, x, y);
	case SHAPE_SECTIONS:
		return arrays_equal(field, a, b);
	case SHAPE_NONE:
		return true;
	}
	return true;
}

bool section_equal(const struct section *section, const void *a, const void *b)
{
	FIELDS_EACH (field, section)
		if (!field_equal(field, a, b))
			return false;
	return true;
}

static void strings_free(struct conf_strings *strings)
{
	for (size_t i = 0; i < strings->count; i++)
		free(strings->items[i]);
	free(strings->items);
}

static void pairs_free(struct conf_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
}

static void listens_free(struct conf_listen *listens, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(listens[i].host);
		free(listens[i].path);
	}
	free(listens);
}

static void array_free(const struct field *field, void *base)
{
	char *items = field_pointer(field_at(field, base));

	for (size_t i = 0; i < field_count(field, base); i++) {
		char *item = items + i * field->section->bytes;
		section_free(field->section, item);
		if (field->type == FIELD_TABLE)
			free(field_item_name(field->section, item));
	}
	free(items);
}

void field_free(const struct field *field, void *base)
{
	void *at = field_at(field, base);

	switch (field_shape(field)) {
	case SHAPE_NUMBER:
	case SHAPE_CONTEXT:
	case SHAPE_NONE:
		return;
	case SHAPE_TEXT:
		free(*(char **)at);
		return;
	case SHAPE_TEXTS:
		strings_free(at);
		return;
	case SHAPE_PAIRS:
		pairs_free(at);
		return;
	case SHAPE_LISTENS:
		listens_free(field_pointer(at), field_count(field, base));
		return;
	case SHAPE_SECTION:
		section_free(field->section, at);
		return;
	case SHAPE_SECTIONS:
		array_free(field, base);
		return;
	}
}

void section_free(const struct section *section, void *base)
{
	FIELDS_EACH (field, section)
		field_free(field, base);
}
