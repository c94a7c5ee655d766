#include "http/json_text.h"

#include <stddef.h>

/* Length of the UTF-8 sequence at the front of `text`; 0 where there is no valid one. */
static size_t sequence_length(struct str text)
{
	const unsigned char *at = (const unsigned char *)text.data;
	size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;

	if (length == 1)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4 || length > text.length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
	bool is_surrogate = at[0] == 0xed && at[1] >= 0xa0;
	bool is_beyond = at[0] == 0xf4 && at[1] >= 0x90;
	return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

static void append_byte(struct buf *out, char c)
{
	switch (c) {
	case '"':
		buf_append_str(out, STR("\\\""));
		return;
	case '\\':
		buf_append_str(out, STR("\\\\"));
		return;
	case '\n':
		buf_append_str(out, STR("\\n"));
		return;
	case '\r':
		buf_append_str(out, STR("\\r"));
		return;
	case '\t':
		buf_append_str(out, STR("\\t"));
		return;
	default:
		break;
	}
	if ((unsigned char)c < 0x20 || c == 0x7f)
		buf_printf(out, "\\u%04x", (unsigned)c);
	else
		buf_append_char(out, c);
}

void json_append_string(struct buf *out, struct str text)
{
	buf_append_char(out, '"');
	while (text.length > 0) {
		size_t length = sequence_length(text);
		if (length == 0) {
			buf_append_str(out, STR("\\ufffd"));
			length = 1;
		} else if (length == 1) {
			append_byte(out, text.data[0]);
		} else {
			buf_append(out, text.data, length);
		}
		text = (struct str){ text.data + length, text.length - length };
	}
	buf_append_char(out, '"');
}
