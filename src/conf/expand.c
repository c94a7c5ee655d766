#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conf/bind.h"
#include "conf/rules.h"
#include "conf/written.h"

static const struct conf_pair *find_macro(const struct conf *conf, struct str name)
{
	for (size_t i = 0; i < conf->macros.count; i++)
		if (str_is(name, conf->macros.items[i].name))
			return &conf->macros.items[i];
	return NULL;
}

static bool refuse_unknown(struct binder *binder, struct place at, struct str name, bool late)
{
	const struct conf_pairs *macros = &binder->conf->macros;
	const char *nearest = NULL;
	char shown[EXCERPT];

	for (size_t i = 0; i < macros->count; i++)
		nearest = str_nearer(name, nearest, macros->items[i].name);
	excerpt(shown, name);
	if (rule_is_late(name) && !late)
		problem_error(binder->problems, at,
		              "%s: ${%s} is known only when an engine starts; try: it in cmd or args",
		              binder->where, shown);
	else if (nearest)
		problem_error(binder->problems, at, "%s: no macro '%s'; try: ${%s}", binder->where,
		              shown, nearest);
	else
		problem_error(binder->problems, at,
		              "%s: no macro '%s'; try: ${env.%s}, an entry of macros, or $${ for "
		              "the characters themselves",
		              binder->where, shown, shown);
	return false;
}

static bool take_env(struct binder *binder, struct place at, struct str name, struct buf *value,
                     struct buf *shown)
{
	char variable[256], named[EXCERPT];
	const char *content = NULL;

	if (!rule_variable(name) && str_copy(variable, sizeof(variable), name))
		content = getenv(variable);
	if (!content) {
		excerpt(named, name);
		problem_error(binder->problems, at,
		              "%s: the environment has no '%s'; try: set %s where the daemon starts",
		              binder->where, named, named);
		return false;
	}
	buf_append_str(value, str_from(content));
	buf_printf(shown, "${env.%.*s}", STR_ARG(name));
	return true;
}

/* One "${name}"; the name without its braces. */
static bool take_macro(struct binder *binder, struct place at, struct str name, bool late,
                       struct buf *value, struct buf *shown, bool *from_env)
{
	if (str_starts(name, "env.")) {
		*from_env = true;
		return take_env(binder, at, (struct str){ name.data + 4, name.length - 4 }, value,
		                shown);
	}
	if (late && rule_is_late(name)) {
		buf_printf(value, "${%.*s}", STR_ARG(name));
		buf_printf(shown, "${%.*s}", STR_ARG(name));
		return true;
	}
	const struct conf_pair *macro = find_macro(binder->conf, name);
	if (!macro)
		return refuse_unknown(binder, at, name, late);
	const char *written = written_find(binder->conf, macro->value);
	buf_append_str(value, str_from(macro->value));
	if (written)
		buf_append_str(shown, str_from(written));
	else
		written_escape(str_from(macro->value), late, shown);
	*from_env |= written != NULL;
	return true;
}

bool bind_expand(struct binder *binder, struct place at, struct str raw, bool late,
                 struct buf *value, struct buf *shown, bool *from_env)
{
	struct str rest = raw;

	*from_env = false;
	while (rest.length) {
		if (str_starts(rest, "$${")) {
			buf_append_str(value, STR("${"));
			buf_append_str(shown, STR("$${"));
			rest = (struct str){ rest.data + 3, rest.length - 3 };
			continue;
		}
		if (!str_starts(rest, "${")) {
			buf_append_char(value, rest.data[0]);
			buf_append_char(shown, rest.data[0]);
			rest = (struct str){ rest.data + 1, rest.length - 1 };
			continue;
		}
		struct str after,
			name = str_cut((struct str){ rest.data + 2, rest.length - 2 }, '}', &after);
		if (!after.data) {
			problem_error(binder->problems, at,
			              "%s: ${ without }; try: close it, or $${ for the characters "
			              "themselves",
			              binder->where);
			return false;
		}
		if (!take_macro(binder, at, name, late, value, shown, from_env))
			return false;
		rest = after;
	}
	return true;
}
