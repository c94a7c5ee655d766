#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conf/schema.h"
#include "conf/text.h"
#include "conf/written.h"

/*
 * One walk over the schema writes both forms. YAML is in blocks, with flow
 * inside a line; JSON is all flow, with every word quoted, and so is a YAML
 * file too: what either prints can be loaded again.
 */
struct printer {
	const struct conf *conf;
	struct buf *out;
	bool json;
};

static void print_flow(struct printer *printer, const struct section *section, const void *base);

static bool is_empty(const struct field *field, const void *base)
{
	const void *at = field_at(field, base);
	bool nothing = true;

	if (field->flags & (FIELD_HIDDEN | FIELD_UNBUILT))
		return true; /* what is not built is as it is by default */
	switch (field_shape(field)) {
	case SHAPE_NUMBER:
		if (field->flags & FIELD_NOTED)
			return !field_noted(field, base);
		return !field->fallback && !(field->flags & FIELD_REQUIRED) && field_get(field, base) == 0;
	case SHAPE_TEXT:
		return *(char *const *)at == NULL;
	case SHAPE_TEXTS:
		return ((const struct conf_strings *)at)->count == 0;
	case SHAPE_PAIRS:
		return ((const struct conf_pairs *)at)->count == 0;
	case SHAPE_SECTION:
		FIELDS_EACH (child, field->section)
			nothing &= is_empty(child, at);
		return nothing;
	case SHAPE_LISTENS:
	case SHAPE_SECTIONS:
		return field_count(field, base) == 0 && !field->fallback; /* else none is another thing than nothing said */
	case SHAPE_CONTEXT:
		return false;
	case SHAPE_NONE:
		return true;
	}
	return true;
}

static void print_word(struct printer *printer, struct str text)
{
	if (printer->json)
		text_quote(text, printer->out);
	else
		text_word(text, printer->out);
}

/* Only a name of the environment, and nothing of the secret beside it. */
static bool is_reference(const char *written)
{
	const char *end = written ? strchr(written, '}') : NULL;

	return end && str_starts(str_from(written), "${env.") && end[1] == '\0';
}

static void print_text(struct printer *printer, const struct field *field, const char *value)
{
	const char *written = written_find(printer->conf, value);
	struct buf shown = BUF_INIT;

	if (field->flags & FIELD_SECRET)
		buf_append_str(&shown, str_from(is_reference(written) ? written : "***"));
	else if (written)
		buf_append_str(&shown, str_from(written));
	else
		written_escape(str_from(value), field->type == FIELD_ARGS, &shown);
	print_word(printer, buf_str(&shown));
	buf_release(&shown);
}

static void print_strings(struct printer *printer, const struct field *field,
                          const struct conf_strings *strings)
{
	buf_append_char(printer->out, '[');
	for (size_t i = 0; i < strings->count; i++) {
		buf_append_str(printer->out, i ? STR(", ") : STR(""));
		print_text(printer, field, strings->items[i]);
	}
	buf_append_char(printer->out, ']');
}

static void print_pairs(struct printer *printer, const struct field *field,
                        const struct conf_pairs *pairs)
{
	buf_append_char(printer->out, '{');
	for (size_t i = 0; i < pairs->count; i++) {
		buf_append_str(printer->out, i ? STR(", ") : STR(""));
		print_word(printer, str_from(pairs->items[i].name));
		buf_append_str(printer->out, STR(": "));
		print_text(printer, field, pairs->items[i].value);
	}
	buf_append_char(printer->out, '}');
}

static void print_tokens(struct printer *printer, int64_t tokens)
{
	if (tokens == CONF_AUTO)
		print_word(printer, STR("auto"));
	else
		buf_printf(printer->out, "%lld", (long long)tokens);
}

static void print_context(struct printer *printer, const struct conf_model *model)
{
	const char *quote = printer->json ? "\"" : "";

	if (model->context_fixed || (model->context_min == 0 && model->context_max == CONF_AUTO)) {
		print_tokens(printer, model->context_max);
		return;
	}
	buf_append_char(printer->out, '{');
	if (model->context_min)
		buf_printf(printer->out, "%smin%s: %lld, ", quote, quote, (long long)model->context_min);
	buf_printf(printer->out, "%smax%s: ", quote, quote);
	print_tokens(printer, model->context_max);
	buf_append_char(printer->out, '}');
}

static void print_listens(struct printer *printer, const struct conf_listen *listens, size_t count)
{
	buf_append_char(printer->out, '[');
	for (size_t i = 0; i < count; i++) {
		const struct conf_listen *listen = &listens[i];
		struct buf text = BUF_INIT;
		if (listen->path)
			buf_printf(&text, "unix:%s", listen->path);
		else
			buf_printf(&text, strchr(listen->host, ':') ? "[%s]:%u" : "%s:%u", listen->host,
			           listen->port);
		buf_append_str(printer->out, i ? STR(", ") : STR(""));
		text_quote(buf_str(&text), printer->out);
		buf_release(&text);
	}
	buf_append_char(printer->out, ']');
}

static void print_number(struct printer *printer, const struct field *field, int64_t value)
{
	struct buf text = BUF_INIT;

	if ((field->flags & FIELD_AUTO) && value == (field->type == FIELD_DURATION ? CONF_BY_POWER : CONF_AUTO))
		buf_append_str(&text, STR("auto"));
	else if ((field->flags & FIELD_NEVER) && value == CONF_NEVER)
		buf_append_str(&text, STR("never"));
	else if (field->type == FIELD_SIZE)
		text_size(value, &text);
	else if (field->type == FIELD_DURATION)
		text_duration(value, &text);
	else if (field->type == FIELD_PERCENT)
		text_thousandths(value, 10, &text);
	else if (field->type == FIELD_DECIMAL)
		text_thousandths(value, 1000, &text);
	else if (field->type == FIELD_BOOL)
		buf_append_str(&text, value ? STR("true") : STR("false"));
	else
		buf_printf(&text, "%lld", (long long)value);
	if (field->type == FIELD_PERCENT && value != CONF_AUTO)
		buf_append_char(&text, '%');
	bool bare = !printer->json || field->type == FIELD_BOOL || field->type == FIELD_INT ||
	            field->type == FIELD_DECIMAL;
	if (bare)
		buf_append_str(printer->out, buf_str(&text));
	else
		text_quote(buf_str(&text), printer->out);
	buf_release(&text);
}

static const struct choice *choice_of(const struct field *field, const void *base)
{
	const struct choice *choice = field->choices;

	while (choice->name && choice->value != field_get(field, base))
		choice++;
	return choice;
}

/* A model that went with a reload only keeps an index. */
static bool is_absent(const struct field *field, const void *item)
{
	return field->section == &schema_model && ((const struct conf_model *)item)->absent;
}

static void print_items(struct printer *printer, const struct field *field, const void *base)
{
	const char *items = field_pointer(field_at(field, base));
	bool table = field->type == FIELD_TABLE, first = true;

	buf_append_char(printer->out, table ? '{' : '[');
	for (size_t i = 0; i < field_count(field, base); i++) {
		const char *item = items + i * field->section->bytes;
		if (is_absent(field, item))
			continue;
		buf_append_str(printer->out, first ? STR("") : STR(", "));
		first = false;
		if (table) {
			print_word(printer, str_from(field_item_name(field->section, item)));
			buf_append_str(printer->out, STR(": "));
		}
		print_flow(printer, field->section, item);
	}
	buf_append_char(printer->out, table ? '}' : ']');
}

static void print_value(struct printer *printer, const struct field *field, const void *base)
{
	const void *at = field_at(field, base);

	switch (field_shape(field)) {
	case SHAPE_NUMBER:
		if (field->type == FIELD_CHOICE)
			print_word(printer, str_from(choice_of(field, base)->name));
		else
			print_number(printer, field, field_get(field, base));
		return;
	case SHAPE_TEXT:
		if (field->type == FIELD_JSON)
			buf_append_str(printer->out, str_from(*(char *const *)at));
		else
			print_text(printer, field, *(char *const *)at);
		return;
	case SHAPE_TEXTS:
		print_strings(printer, field, at);
		return;
	case SHAPE_PAIRS:
		print_pairs(printer, field, at);
		return;
	case SHAPE_CONTEXT:
		print_context(printer, base);
		return;
	case SHAPE_LISTENS:
		print_listens(printer, field_pointer(at), field_count(field, base));
		return;
	case SHAPE_SECTION:
		print_flow(printer, field->section, at);
		return;
	case SHAPE_SECTIONS:
		print_items(printer, field, base);
		return;
	case SHAPE_NONE:
		return;
	}
}

static void print_flow(struct printer *printer, const struct section *section, const void *base)
{
	bool first = true;

	buf_append_char(printer->out, '{');
	FIELDS_EACH (field, section) {
		if (is_empty(field, base))
			continue;
		buf_append_str(printer->out, first ? STR("") : STR(", "));
		first = false;
		print_word(printer, str_from(field->key));
		buf_append_str(printer->out, STR(": "));
		print_value(printer, field, base);
	}
	buf_append_char(printer->out, '}');
}

/* ---- YAML in blocks ---- */

static void print_block(struct printer *printer, const struct section *section, const void *base,
                        int depth);

static void print_block_items(struct printer *printer, const struct field *field, const void *base,
                              int depth)
{
	const char *items = field_pointer(field_at(field, base));

	for (size_t i = 0; i < field_count(field, base); i++) {
		const char *item = items + i * field->section->bytes;
		if (is_absent(field, item))
			continue;
		buf_printf(printer->out, "%*s", 2 * depth, "");
		if (field->type == FIELD_LIST) {
			buf_append_str(printer->out, STR("- "));
			print_flow(printer, field->section, item);
			buf_append_char(printer->out, '\n');
		} else {
			print_word(printer, str_from(field_item_name(field->section, item)));
			buf_append_str(printer->out, STR(":\n"));
			print_block(printer, field->section, item, depth + 1);
		}
	}
}

static void print_block(struct printer *printer, const struct section *section, const void *base,
                        int depth)
{
	FIELDS_EACH (field, section) {
		if (is_empty(field, base))
			continue;
		buf_printf(printer->out, "%*s%s:", 2 * depth, "", field->key);
		if (field->type == FIELD_GROUP) {
			buf_append_char(printer->out, '\n');
			print_block(printer, field->section, field_at(field, base), depth + 1);
		} else if (field->type == FIELD_LIST || field->type == FIELD_TABLE) {
			buf_append_str(printer->out, field_count(field, base) ? STR("\n") : STR(" []\n"));
			print_block_items(printer, field, base, depth + 1);
		} else {
			buf_append_char(printer->out, ' ');
			print_value(printer, field, base);
			if (field->type == FIELD_CHOICE && choice_of(field, base)->note)
				buf_printf(printer->out, "  # %s", choice_of(field, base)->note);
			buf_append_char(printer->out, '\n');
		}
	}
}

void conf_print(const struct conf *conf, struct buf *out)
{
	struct printer printer = { .conf = conf, .out = out };

	print_block(&printer, &schema_root, conf, 0);
}

void conf_print_json(const struct conf *conf, struct buf *out)
{
	struct printer printer = { .conf = conf, .out = out, .json = true };

	print_flow(&printer, &schema_root, conf);
	buf_append_char(out, '\n');
}
