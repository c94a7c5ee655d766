#include "conf/number.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "conf/text.h"

static void refuse(struct binder *binder, const struct node *node, const char *what,
                   const char *instead)
{
	char said[EXCERPT];

	bind_error(binder, node->at, "", "'%s' %s; try: %s", excerpt(said, str_from(node->text)), what,
	           instead);
}

static void show(const struct field *field, int64_t value, struct buf *out)
{
	switch ((int)field->type) {
	case FIELD_SIZE:
		text_size(value, out);
		break;
	case FIELD_DURATION:
		text_duration(value, out);
		break;
	case FIELD_PERCENT:
		text_thousandths(value, 10, out);
		buf_append_char(out, '%');
		break;
	case FIELD_DECIMAL:
		text_thousandths(value, 1000, out);
		break;
	default:
		buf_printf(out, "%lld", (long long)value);
	}
}

static bool in_range(struct binder *binder, const struct field *field, const struct node *node,
                     int64_t value)
{
	struct buf range = BUF_INIT;

	if (value >= field->min && value <= field->max)
		return true;
	buf_append_str(&range, field->max < INT64_MAX ? STR("a value from ") : STR("a value of at least "));
	show(field, field->min, &range);
	if (field->max < INT64_MAX) {
		buf_append_str(&range, STR(" to "));
		show(field, field->max, &range);
	}
	refuse(binder, node, "is out of range", buf_cstr(&range));
	buf_release(&range);
	return false;
}

static bool all_digits(struct str text)
{
	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
	return text.length > 0;
}

/* Digits with at most `places` behind a point, in units of the last place; a minus may stand before them. */
static bool parse_decimal(struct str text, unsigned places, int64_t *out)
{
	bool negative = text.length > 1 && text.data[0] == '-';
	struct str fraction, whole = str_cut((struct str){ text.data + negative, text.length - negative }, '.', &fraction);
	uint64_t value;

	if (!str_to_u64(whole, &value) || value > INT32_MAX)
		return false;
	if (fraction.data && (fraction.length > places || !all_digits(fraction)))
		return false;
	for (size_t i = 0; i < places; i++)
		value = value * 10 +
		        (i < fraction.length ? (uint64_t)(fraction.data[i] - '0') : 0);
	*out = negative ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool parse_int(struct binder *binder, const struct field *field, const struct node *node,
                      struct str text, int64_t *out)
{
	bool negative = text.length > 1 && text.data[0] == '-';
	struct str digits = { text.data + negative, text.length - negative };
	uint64_t value = 0;

	if (!all_digits(digits)) {
		refuse(binder, node, "is not a whole number", field->fallback ? field->fallback : "4096");
		return false;
	}
	if (!str_to_u64(digits, &value) || value > INT64_MAX)
		value = INT64_MAX;
	*out = negative ? -(int64_t)value : (int64_t)value;
	return in_range(binder, field, node, *out);
}

static bool parse_duration(struct binder *binder, const struct field *field,
                           const struct node *node, struct str text, int64_t *out)
{
	char seconds[EXCERPT];

	if (units_parse_duration(text, out))
		return in_range(binder, field, node, *out);
	if (all_digits(text) && str_copy(seconds, sizeof(seconds) - 1, text)) {
		strncpy(seconds + text.length, "s", 2);
		refuse(binder, node, "has no unit", seconds);
	} else {
		refuse(binder, node, "is not a duration",
		       field->flags & FIELD_NEVER ? "30s, 5m, 2h or never" : "30s, 5m or 2h");
	}
	return false;
}

enum { UNITLESS_MAX = 1 << 20 }; /* bytes: who writes less than a MiB without a unit forgot it */

static bool parse_size(struct binder *binder, const struct field *field, const struct node *node,
                       struct str text, int64_t *out)
{
	char with_unit[EXCERPT];
	struct str number = str_starts(text, "-") ? (struct str){ text.data + 1, text.length - 1 } : text;

	if (units_parse_size(number, out) && number.length < text.length) {
		*out = -*out;
		return in_range(binder, field, node, *out);
	}
	bool forgot = all_digits(text) && units_parse_size(text, out) && *out > 0 && *out < UNITLESS_MAX;
	if (!forgot && units_parse_size(text, out))
		return in_range(binder, field, node, *out);
	snprintf(with_unit, sizeof(with_unit), "%.*sGiB", STR_ARG(text));
	refuse(binder, node, forgot ? "has no unit" : "is not a size",
	       forgot ? with_unit : field->flags & FIELD_AUTO ? "8GiB, 512MiB or auto" : "8GiB or 512MiB");
	return false;
}

static bool parse_percent(struct binder *binder, const struct field *field,
                          const struct node *node, struct str text, int64_t *out)
{
	bool percent = str_ends(text, "%");
	struct str number = { text.data, text.length - percent };

	if ((percent || str_is(text, "0")) && parse_decimal(str_trim(number), 1, out))
		return in_range(binder, field, node, *out);
	refuse(binder, node, "is not a percentage",
	       field->flags & FIELD_AUTO ? "15%, or auto" : "15%");
	return false;
}

static bool parse(struct binder *binder, const struct field *field, const struct node *node,
                  struct str text, int64_t *out)
{
	switch ((int)field->type) {
	case FIELD_BOOL:
		*out = str_is(text, "true");
		if (*out || str_is(text, "false"))
			return true;
		refuse(binder, node, "is neither true nor false", "true or false");
		return false;
	case FIELD_SIZE:
		return parse_size(binder, field, node, text, out);
	case FIELD_DURATION:
		return parse_duration(binder, field, node, text, out);
	case FIELD_PERCENT:
		return parse_percent(binder, field, node, text, out);
	case FIELD_DECIMAL:
		if (parse_decimal(text, 3, out))
			return in_range(binder, field, node, *out);
		refuse(binder, node, "is not a number", "1, 2 or 0.5");
		return false;
	default:
		return parse_int(binder, field, node, text, out);
	}
}

bool number_choice(struct binder *binder, const struct field *field, const struct node *node,
                   const char *text, int64_t *out)
{
	struct buf list = BUF_INIT;
	const char *nearest = NULL;

	for (const struct choice *choice = field->choices; choice->name; choice++) {
		if (strcmp(text, choice->name) == 0) {
			if (out)
				*out = choice->value;
			if (choice->unbuilt)
				bind_unbuilt(binder, node->at, text, choice->unbuilt);
			buf_release(&list);
			return true; /* what else it goes with is looked at all the same */
		}
		nearest = str_nearer(str_from(text), nearest, choice->name);
		buf_printf(&list, "%s%s", buf_length(&list) ? ", " : "one of ", choice->name);
	}
	refuse(binder, node, "is no choice here", nearest ? nearest : buf_cstr(&list));
	buf_release(&list);
	return false;
}

bool number_bind(struct binder *binder, const struct field *field, const struct node *node,
                 int64_t *out)
{
	struct buf text = BUF_INIT, shown = BUF_INIT;
	bool from_env, good = false;

	if (node->kind != NODE_SCALAR) {
		bind_error(binder, node->at, "", "%s stands here; try: a single value",
		           node->kind == NODE_LIST ? "a list" : "a map");
	} else if (bind_expand(binder, node->at, str_from(node->text), false, &text, &shown,
	                       &from_env)) {
		struct str value = buf_str(&text);
		good = true;
		if ((field->flags & FIELD_AUTO) && str_is(value, "auto"))
			*out = field->type == FIELD_DURATION ? CONF_BY_POWER : CONF_AUTO;
		else if ((field->flags & FIELD_NEVER) && str_is(value, "never"))
			*out = CONF_NEVER;
		else if (field->type == FIELD_CHOICE)
			good = number_choice(binder, field, node, buf_cstr(&text), out);
		else
			good = parse(binder, field, node, value, out);
	}
	buf_release(&text);
	buf_release(&shown);
	return good;
}
