#include <string.h>

#include "base/buf.h"
#include "conf/schema.h"
#include "conf/text.h"

static const char preface[] =
	"# cotenant.yaml\n"
	"\n"
	"Every key, generated from the table that reads it (`src/conf/schema.c`).\n"
	"\n"
	"The file is the one given with `-f`, else `$COTENANT_CONFIG`, `./cotenant.yaml`,\n"
	"`~/.config/cotenant/cotenant.yaml`, `/etc/cotenant/cotenant.yaml`. `cotenant check` reads it\n"
	"and says what is wrong and where; `cotenant config` prints what is in force.\n"
	"\n"
	"- Sizes take KiB, MiB, GiB, TiB, KB, MB, GB, TB, or are bytes; times take us, ms, s, m, h, d.\n"
	"- A relative path begins at the folder of the file; `~/` is the home folder.\n"
	"- `${env.NAME}` stands for a variable of the environment, `${name}` for a text of `macros`;\n"
	"  `$${` for the characters themselves. They are replaced after a command is split into\n"
	"  words, and no shell runs. In `cmd` and `args`, `${PORT}`, `${SOCKET}`, `${FILE}` and\n"
	"  `${MODEL}` are filled in when the engine starts.\n"
	"- A key that begins with `x-` is yours: nothing reads it. Any other unknown key is an error.\n"
	"- Reload says what `cotenant reload` does with a changed value: live = at once; drain =\n"
	"  a loaded model finishes what runs and starts anew; restart = the daemon must be restarted.\n"
	"- A key marked *not built yet* is refused unless it says what holds anyway.\n";

static const char *type_name(const struct field *field)
{
	static const char *const names[] = {
		[FIELD_BOOL] = "true or false", [FIELD_INT] = "number",
		[FIELD_SIZE] = "size", [FIELD_DURATION] = "duration",
		[FIELD_PERCENT] = "percentage", [FIELD_DECIMAL] = "decimal",
		[FIELD_CHOICE] = "", [FIELD_WORD] = "",
		[FIELD_STRING] = "text", [FIELD_PATH] = "path",
		[FIELD_PROGRAM] = "program", [FIELD_STRINGS] = "list of texts",
		[FIELD_PATHS] = "list of paths", [FIELD_ARGS] = "arguments",
		[FIELD_PAIRS] = "map of texts", [FIELD_CONTEXT] = "number, {min, max} or `auto`",
		[FIELD_JSON] = "map", [FIELD_LISTEN] = "address, or a list",
		[FIELD_GROUP] = "keys, see below", [FIELD_LIST] = "list of keys, see below",
		[FIELD_TABLE] = "names with keys, see below", [FIELD_OPAQUE] = "",
	};
	return names[field->type];
}

static void describe_type(const struct field *field, struct buf *out)
{
	buf_append_str(out, str_from(type_name(field)));
	for (const struct choice *choice = field->choices; choice && choice->name; choice++)
		buf_printf(out, "%s`%s`%s", choice == field->choices ? "" : ", ", choice->name,
		           choice->unbuilt ? " (not built yet)" : "");
	if (field->flags & FIELD_AUTO)
		buf_append_str(out, STR(" or `auto`"));
	if (field->flags & FIELD_NEVER)
		buf_append_str(out, STR(" or `never`"));
	if (field->type == FIELD_INT && field->max <= INT32_MAX)
		buf_printf(out, ", %lld to %lld", (long long)field->min, (long long)field->max);
	if (field->type == FIELD_DECIMAL) {
		buf_append_str(out, STR(", "));
		text_thousandths(field->min, 1000, out);
		buf_append_str(out, STR(" to "));
		text_thousandths(field->max, 1000, out);
	}
}

static const char *effect_name(enum field_effect effect)
{
	switch (effect) {
	case EFFECT_LIVE:
		return "live";
	case EFFECT_DRAIN:
		return "drain";
	case EFFECT_RESTART:
		return "restart";
	}
	return "";
}

void section_docs(const struct section *section, bool reload, struct buf *out)
{
	buf_printf(out, "\n## %s\n\n", section->title);
	buf_append_str(out, reload ? STR("| key | value | default | reload | |\n|---|---|---|---|---|\n")
	                           : STR("| key | value | default | |\n|---|---|---|---|\n"));
	FIELDS_EACH (field, section) {
		buf_printf(out, "| `%s` | ", field->key);
		describe_type(field, out);
		if (field->flags & FIELD_REQUIRED)
			buf_append_str(out, STR(" | must be given"));
		else if (field->fallback)
			buf_printf(out, " | `%s`", field->fallback);
		else
			buf_append_str(out, STR(" | "));
		if (reload)
			buf_printf(out, " | %s", effect_name(field->effect));
		buf_printf(out, " | %s%s |\n", field->flags & FIELD_UNBUILT ? "*Not built yet.* " : "",
			           field->help);
	}
	FIELDS_EACH (field, section)
		if (field->section)
			section_docs(field->section, reload, out);
}

void conf_print_docs(struct buf *out)
{
	buf_append_str(out, str_from(preface));
	section_docs(&schema_root, true, out);
}
