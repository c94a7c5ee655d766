#include "conf/bind.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "conf/number.h"
#include "conf/split.h"
#include "conf/written.h"

static void bind_field(struct binder *binder, const struct field *field, void *base,
                       const struct node *node);

/* ---- where we are, for messages ---- */

/* Returns what leave() wants back. A list's items stand as [0]. */
static size_t enter(struct binder *binder, const char *name, bool item)
{
	size_t before = strlen(binder->where);
	char shown[EXCERPT];

	excerpt(shown, str_from(name));
	if (item)
		snprintf(binder->where + before, sizeof(binder->where) - before, "[%s]", shown);
	else
		snprintf(binder->where + before, sizeof(binder->where) - before, "%s%s",
		         before ? "." : "", shown);
	return before;
}

static void leave(struct binder *binder, size_t before)
{
	binder->where[before] = '\0';
}

void bind_error(struct binder *binder, struct place at, const char *key, const char *format, ...)
{
	char text[768];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	problem_error(binder->problems, at, "%s%s%s%s%s", binder->where,
	              *binder->where && *key ? "." : "", key, *binder->where || *key ? ": " : "",
	              text);
}

void bind_unbuilt(struct binder *binder, struct place at, const char *what, const char *instead)
{
	problem_unbuilt(binder->problems, at, "%s%s%s%snot built yet in this version; try: %s", binder->where,
	                *binder->where ? ": " : "", what ? what : "", what ? " is " : "", instead);
}

/* ---- keys that are none ---- */

static void refuse_key(struct binder *binder, const struct section *section, const struct node *key)
{
	struct str name = str_from(key->text);
	const char *nearest = schema_nearest(section, name);
	struct buf hint = BUF_INIT;
	char shown[EXCERPT];

	if (!nearest || str_distance(name, str_from(nearest)) > 1)
		schema_places(binder->root, name, &hint);
	if (buf_length(&hint)) {
		struct str places = buf_str(&hint);
		bind_error(binder, key->at, "", "'%s' does not stand here; try: move it to %.*s",
		           excerpt(shown, name), STR_ARG(places));
	} else if (nearest) {
		bind_error(binder, key->at, "", "unknown key '%s'; try: %s", excerpt(shown, name),
		           nearest);
	} else {
		excerpt(shown, name);
		bind_error(binder, key->at, "",
		           "unknown key '%s'; try: remove it, or x-%s for a note of your own", shown,
		           shown);
	}
	buf_release(&hint);
}

static void refuse_unknown_keys(struct binder *binder, const struct section *section,
                                const struct node *node)
{
	NODE_EACH(child, node)
		if (!str_starts(str_from(child->key->text), "x-") &&
		    !schema_field(section, str_from(child->key->text)))
			refuse_key(binder, section, child->key);
}

/* ---- texts ---- */

/* ~/x is in the home folder; what is relative, in the file's. Takes and returns an allocation. */
static char *make_path(struct binder *binder, const struct field *field, char *path)
{
	const char *home = getenv("HOME");
	char *whole = NULL;

	if (path[0] == '~' && (path[1] == '/' || path[1] == '\0') && home && *home)
		whole = xasprintf("%s%s", home, path + 1);
	else if (path[0] != '/' && path[0] != '\0' &&
	         (field->type != FIELD_PROGRAM || strchr(path, '/')))
		whole = xasprintf("%s/%s", binder->folder, path);
	if (whole)
		free(path);
	return whole ? whole : path;
}

char *bind_text(struct binder *binder, const struct field *field, struct place at, struct str raw)
{
	bool late = field->type == FIELD_ARGS, from_env = false;
	struct buf value = BUF_INIT, shown = BUF_INIT;
	char *text = NULL;

	if (bind_expand(binder, at, raw, late, &value, &shown, &from_env)) {
		/* A pair's rule is for its name. */
		const char *wrong = field->refuse && field->type != FIELD_PAIRS
		                            ? field->refuse(buf_str(&value))
		                            : NULL;
		if (wrong) {
			char said[EXCERPT];
			bool secret = field->flags & FIELD_SECRET ||
			              (field->flags & FIELD_ADDRESS && raw.length && memchr(raw.data, '@', raw.length));
			bind_error(binder, at, "", "%s%s%s%s", secret ? "" : "'",
			           secret ? "" : excerpt(said, raw), secret ? "" : "': ", wrong);
		} else {
			text = xstrndup(buf_cstr(&value), buf_length(&value));
			if (field->type == FIELD_PATH || field->type == FIELD_PATHS ||
			    field->type == FIELD_PROGRAM)
				text = make_path(binder, field, text);
			if (from_env)
				written_add(binder->conf, text, buf_str(&shown));
		}
	}
	buf_release(&value);
	buf_release(&shown);
	return text;
}

static bool expect(struct binder *binder, const struct node *node, enum node_kind kind,
                   const char *wanted)
{
	static const char *const kinds[] = { "a single value", "a list", "a map" };

	if (node->kind == kind)
		return true;
	bind_error(binder, node->at, "", "%s stands here; try: %s",
	           kinds[node->kind], wanted);
	return false;
}

static void bind_string(struct binder *binder, const struct field *field, void *base,
                        const struct node *node)
{
	if (!expect(binder, node, NODE_SCALAR, "a text"))
		return;
	char *text = bind_text(binder, field, node->at, str_from(node->text));
	if (text && field->type == FIELD_WORD && !number_choice(binder, field, node, text, NULL)) {
		free(text);
		return;
	}
	if (text)
		*(char **)field_at(field, base) = text;
}

static void add_string(struct binder *binder, const struct field *field, struct conf_strings *out,
                       struct place at, const char *raw)
{
	char *text = bind_text(binder, field, at, str_from(raw));

	if (text)
		strings_add(out, text);
}

/* Split before anything is replaced, so that no variable can add a word. */
static void bind_line(struct binder *binder, const struct field *field, struct conf_strings *out,
                      const struct node *node)
{
	struct conf_strings words;
	const char *wrong = split_words(str_from(node->text), &words);

	if (wrong)
		bind_error(binder, node->at, "", "%s", wrong);
	for (size_t i = 0; i < words.count; i++) {
		add_string(binder, field, out, node->at, words.items[i]);
		free(words.items[i]);
	}
	free(words.items);
}

static void bind_strings(struct binder *binder, const struct field *field, void *base,
                         const struct node *node)
{
	struct conf_strings *out = field_at(field, base);

	if (node->kind == NODE_SCALAR && field->type == FIELD_ARGS) {
		bind_line(binder, field, out, node);
		return;
	}
	if (node->kind == NODE_SCALAR) {
		add_string(binder, field, out, node->at, node->text);
		return;
	}
	if (!expect(binder, node, NODE_LIST, "a list, such as [a, b]"))
		return;
	NODE_EACH(item, node)
		if (expect(binder, item, NODE_SCALAR, "a text"))
			add_string(binder, field, out, item->at, item->text);
}

static void bind_pairs(struct binder *binder, const struct field *field, void *base,
                       const struct node *node)
{
	struct conf_pairs *out = field_at(field, base);

	if (!expect(binder, node, NODE_MAP, "a map, such as {NAME: value}"))
		return;
	out->items = xcalloc(node->count + 1, sizeof(*out->items));
	NODE_EACH(child, node) {
		struct str name = str_from(child->key->text);
		const char *wrong = field->refuse(name);
		char shown[EXCERPT];
		if (wrong)
			bind_error(binder, child->key->at, "", "'%s': %s", excerpt(shown, name), wrong);
		size_t before = enter(binder, child->key->text, false);
		if (!wrong && expect(binder, child, NODE_SCALAR, "a text")) {
			char *value = bind_text(binder, field, child->at, str_from(child->text));
			if (value)
				out->items[out->count++] =
					(struct conf_pair){ xstrdup(child->key->text), value };
		}
		leave(binder, before);
	}
}

/* ---- what is made of several values ---- */

static bool bind_tokens(struct binder *binder, const struct field *field, const struct node *node,
                        bool may_be_auto, int64_t *out)
{
	struct field tokens = *field;

	tokens.type = FIELD_INT;
	tokens.flags = may_be_auto ? FIELD_AUTO : 0;
	tokens.fallback = "8192";
	return number_bind(binder, &tokens, node, out);
}

static void bind_context(struct binder *binder, const struct field *field,
                         struct conf_model *model, const struct node *node)
{
	model->context_max = CONF_AUTO;
	if (node->kind == NODE_SCALAR) {
		int64_t tokens;
		if (!bind_tokens(binder, field, node, true, &tokens))
			return;
		model->context_max = tokens;
		model->context_fixed = tokens != CONF_AUTO;
		model->context_min = model->context_fixed ? tokens : 0;
		return;
	}
	if (!expect(binder, node, NODE_MAP, "a number, auto, or {min: 4096, max: 32768}"))
		return;
	NODE_EACH(child, node) {
		bool min = strcmp(child->key->text, "min") == 0;
		bool max = strcmp(child->key->text, "max") == 0;
		char shown[EXCERPT];
		if (!min && !max) {
			bind_error(binder, child->key->at, "", "unknown key '%s'; try: min or max",
			           excerpt(shown, str_from(child->key->text)));
			continue;
		}
		size_t before = enter(binder, child->key->text, false);
		bind_tokens(binder, field, child, max, min ? &model->context_min : &model->context_max);
		leave(binder, before);
	}
}

static void bind_object(struct binder *binder, const struct field *field, void *base,
                        const struct node *node)
{
	struct buf text = BUF_INIT;

	if (!expect(binder, node, NODE_MAP, "a map, such as {top_p: 0.9}"))
		return;
	bind_json(node, &text);
	*(char **)field_at(field, base) = xstrndup(buf_cstr(&text), buf_length(&text));
	buf_release(&text);
}

static void bind_listens(struct binder *binder, const struct field *field, void *base,
                         const struct node *node)
{
	const struct node *first = node->kind == NODE_LIST ? node->first : node;
	size_t room = node->kind == NODE_LIST ? node->count : 1, count = 0;
	struct conf_listen *items = xcalloc(room + 1, sizeof(*items));

	for (const struct node *item = first; item && count < room;
	     item = node->kind == NODE_LIST ? item->next : NULL) {
		struct buf text = BUF_INIT, shown = BUF_INIT;
		bool from_env;
		if (expect(binder, item, NODE_SCALAR, "an address, such as 127.0.0.1:8778") &&
		    bind_expand(binder, item->at, str_from(item->text), false, &text, &shown, &from_env) &&
		    bind_listen(binder, field, item->at, buf_str(&text), &items[count]))
			count++;
		buf_release(&text);
		buf_release(&shown);
	}
	*(struct conf_listen **)field_at(field, base) = items;
	*(size_t *)(void *)((char *)base + field->also) = count;
}

/* The items of a list or of a table of maps. */
static void bind_items(struct binder *binder, const struct field *field, void *base,
                       const struct node *node)
{
	const struct section *section = field->section;
	bool table = field->type == FIELD_TABLE;
	size_t count = 0;

	if (!expect(binder, node, table ? NODE_MAP : NODE_LIST,
	            table ? "names with a map under each" : "a list of maps"))
		return;
	char *items = xcalloc(node->count + 1, section->bytes);
	NODE_EACH(child, node) {
		char *item = items + count * section->bytes, number[24], shown[EXCERPT];
		snprintf(number, sizeof(number), "%zu", count);
		size_t before = enter(binder, table ? child->key->text : number, !table);
		if (table) {
			const char *wrong = section->refuse_name(str_from(child->key->text));
			if (wrong)
				problem_error(binder->problems, child->key->at, "%s: '%s': %s", field->key,
				              excerpt(shown, str_from(child->key->text)), wrong);
			*(char **)(void *)(item + section->name) = xstrdup(child->key->text);
		}
		if (section == &schema_model)
			((struct conf_model *)(void *)item)->at =
				(struct conf_place){ child->key->at.line, child->key->at.column };
		bind_section(binder, section, item, child);
		leave(binder, before);
		count++;
	}
	memcpy(field_at(field, base), &items, sizeof(items));
	*(size_t *)(void *)((char *)base + field->also) = count;
}

/* ---- any field ---- */

static void bind_opaque(struct binder *binder, const struct node *node)
{
	if (node_is_null(node) || (node->kind != NODE_SCALAR && node->count == 0))
		return;
	bind_unbuilt(binder, node->key ? node->key->at : node->at, NULL, "remove it");
}

static void bind_value(struct binder *binder, const struct field *field, void *base,
                       const struct node *node)
{
	int64_t value;

	switch (field_shape(field)) {
	case SHAPE_NUMBER:
		if (number_bind(binder, field, node, &value))
			field_set(field, base, value);
		return;
	case SHAPE_TEXT:
		if (field->type == FIELD_JSON)
			bind_object(binder, field, base, node);
		else
			bind_string(binder, field, base, node);
		return;
	case SHAPE_TEXTS:
		bind_strings(binder, field, base, node);
		return;
	case SHAPE_PAIRS:
		bind_pairs(binder, field, base, node);
		return;
	case SHAPE_CONTEXT:
		bind_context(binder, field, base, node);
		return;
	case SHAPE_LISTENS:
		bind_listens(binder, field, base, node);
		return;
	case SHAPE_SECTION:
		bind_section(binder, field->section, field_at(field, base), node);
		return;
	case SHAPE_SECTIONS:
		bind_items(binder, field, base, node);
		return;
	case SHAPE_NONE:
		bind_opaque(binder, node);
		return;
	}
}

static void bind_default(struct binder *binder, const struct field *field, void *base)
{
	struct node node = { .kind = NODE_SCALAR, .plain = true, .text = (char *)(uintptr_t)field->fallback };

	if (field->type == FIELD_GROUP)
		bind_section(binder, field->section, field_at(field, base), NULL);
	else if (field->fallback && field->type == FIELD_LIST) {
		struct node *list = node_parse(str_from(field->fallback), binder->problems);
		assert(list);
		bind_items(binder, field, base, list);
		node_free(list);
	} else if (field->fallback && field->type == FIELD_JSON)
		*(char **)field_at(field, base) = xstrdup(field->fallback);
	else if (field->fallback)
		bind_value(binder, field, base, &node);
}

/* A key of what is not built may stand in the file as long as it changes nothing. */
static void refuse_unbuilt(struct binder *binder, const struct field *field, void *base,
                           const struct node *node)
{
	void *plain = xcalloc(1, field->offset + field->bytes);

	bind_default(binder, field, plain);
	if (!field_equal(field, base, plain))
		bind_unbuilt(binder, node->key->at, NULL, "remove it");
	field_free(field, plain);
	free(plain);
}

static bool inherit(struct binder *binder, const struct field *field, void *base)
{
	const void *defaults = &binder->conf->defaults;

	if (!(field->flags & FIELD_INHERITED) || base == defaults)
		return false;
	field_set(field, base, field_get(field, defaults));
	return true;
}

static void bind_field(struct binder *binder, const struct field *field, void *base,
                       const struct node *node)
{
	bool given = node && !node_is_null(node);
	size_t refusing = problems_refusing(binder->problems);
	size_t before = enter(binder, field->key, false);

	if (!given && (field->flags & FIELD_REQUIRED)) {
		leave(binder, before);
		return; /* said by the section, which knows the place */
	}
	if (!given && !inherit(binder, field, base))
		bind_default(binder, field, base);
	if (given && field->bytes && field->type <= FIELD_CHOICE && !inherit(binder, field, base))
		bind_default(binder, field, base); /* where the value turns out wrong */
	if (given)
		bind_value(binder, field, base, node);
	bool fine = given && problems_refusing(binder->problems) == refusing;
	if (fine && (field->flags & FIELD_UNBUILT) && field->type == FIELD_OPAQUE)
		bind_unbuilt(binder, node->at, NULL, "remove it");
	else if (fine && (field->flags & FIELD_UNBUILT))
		refuse_unbuilt(binder, field, base, node);
	if (given && (field->flags & FIELD_NOTED))
		*(bool *)(void *)((char *)base + field->also) = true;
	leave(binder, before);
}

/* `engines: {llama-server: {path: ...}}`: a choice left out may stand in the section's name. */
static bool named_by_section(const struct section *section, const struct field *field, void *base)
{
	if (field->type != FIELD_CHOICE || !section->refuse_name)
		return false;
	for (const struct choice *choice = field->choices; choice->name; choice++) {
		if (strcmp(choice->name, field_item_name(section, base)) == 0 && !choice->unbuilt) {
			field_set(field, base, choice->value);
			return true;
		}
	}
	return false;
}

static void refuse_missing(struct binder *binder, const struct field *field, const struct node *node)
{
	const struct choice *first = field->type == FIELD_CHOICE ? field->choices : NULL;

	bind_error(binder, node->at, "", "%s is missing; try: add %s: %s", field->key, field->key,
	           first ? first->name : "...");
}

void bind_section(struct binder *binder, const struct section *section, void *base,
                  const struct node *node)
{
	if (node && node_is_null(node))
		node = NULL;
	if (node && !expect(binder, node, NODE_MAP, "a map of keys and values"))
		node = NULL;
	if (node)
		refuse_unknown_keys(binder, section, node);
	FIELDS_EACH (field, section) {
		const struct node *child = node_child(node, field->key);
		bool given = child && !node_is_null(child);
		if (node && (field->flags & FIELD_REQUIRED) && !given && !named_by_section(section, field, base))
			refuse_missing(binder, field, node);
		bind_field(binder, field, base, child);
	}
}
