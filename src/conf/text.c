#include "conf/text.h"

#include <string.h>

#include "base/units.h"

/*
 * Characters that a YAML reader refuses or takes for a line break although they
 * may stand in a string: DEL, C1 controls, U+2028, U+2029, U+FEFF, U+FFFE,
 * U+FFFF. Returns the bytes of the one at the start of `rest`, 0 for another.
 */
static size_t awkward(struct str rest, unsigned *out_code)
{
	const unsigned char *b = (const unsigned char *)rest.data;
	unsigned code;

	if (b[0] == 0x7F) {
		*out_code = b[0];
		return 1;
	}
	if (rest.length >= 2 && b[0] == 0xC2 && b[1] < 0xA0) {
		*out_code = b[1];
		return 2;
	}
	if (rest.length < 3 || (b[0] & 0xF0) != 0xE0)
		return 0;
	code = (b[0] & 0xFu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
	*out_code = code;
	return code == 0x2028 || code == 0x2029 || code == 0xFEFF || code >= 0xFFFE ? 3 : 0;
}

void text_quote(struct str text, struct buf *out)
{
	buf_append_char(out, '"');
	for (size_t i = 0; i < text.length;) {
		struct str rest = { text.data + i, text.length - i };
		unsigned char c = (unsigned char)text.data[i];
		unsigned code = c;
		size_t bytes = awkward(rest, &code);

		if (bytes || c < 0x20)
			buf_printf(out, "\\u%04x", code);
		else if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else
			buf_append_char(out, (char)c);
		i += bytes ? bytes : 1;
	}
	buf_append_char(out, '"');
}

static bool is_plain(struct str text)
{
	static const char *const taken[] = { "true", "false", "null", "yes", "no", "on", "off",
		                             "y",    "n" };
	bool digits_only = true;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool digit = c >= '0' && c <= '9';
		bool joint = c == '_' || c == '/' || c == '.' || c == '-';
		if (!letter && !digit && (!joint || (i == 0 && c != '/')))
			return false;
		digits_only &= !letter && c != '/';
	}
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (str_equal_nocase(text, str_from(taken[i])))
			return false;
	/* 0x1F, 1e5, 12.5 are numbers to some readers: what begins with a digit is quoted */
	return text.length > 0 && !digits_only && !(text.data[0] >= '0' && text.data[0] <= '9');
}

void text_word(struct str text, struct buf *out)
{
	if (is_plain(text))
		buf_append_str(out, text);
	else
		text_quote(text, out);
}

struct unit {
	const char *name;
	int64_t factor;
};

static void exact(int64_t value, const struct unit *units, struct buf *out)
{
	while (units->factor > 1 && (value == 0 || value % units->factor != 0))
		units++;
	buf_printf(out, "%lld%s", (long long)(value / units->factor), units->name);
}

void text_size(int64_t bytes, struct buf *out)
{
	static const struct unit units[] = { { "TiB", INT64_C(1) << 40 }, { "GiB", INT64_C(1) << 30 },
		                             { "MiB", INT64_C(1) << 20 }, { "KiB", 1024 }, { "", 1 } };
	exact(bytes, units, out);
}

void text_duration(int64_t us, struct buf *out)
{
	static const struct unit units[] = { { "d", 86400 * US_PER_S }, { "h", 3600 * US_PER_S },
		                             { "m", 60 * US_PER_S },    { "s", US_PER_S },
		                             { "ms", US_PER_MS },       { "us", 1 } };
	if (us == 0)
		buf_append_str(out, STR("0s"));
	else
		exact(us, units, out);
}

void text_thousandths(int64_t value, int64_t scale, struct buf *out)
{
	int64_t part = value % scale;

	buf_printf(out, "%lld", (long long)(value / scale));
	for (const char *point = "."; part; point = "") {
		scale /= 10;
		buf_printf(out, "%s%lld", point, (long long)(part / scale));
		part %= scale;
	}
}
