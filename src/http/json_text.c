#include "http/json_text.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "http/utf8.h"

#define EACH_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

/* Marks bytes of `word` below `limit` (at most 0x80); exact for the lowest of them. */
static uint64_t bytes_below(uint64_t word, unsigned limit)
{
	return (word - EACH_BYTE(limit)) & ~word & EACH_BYTE(0x80);
}

/* Marks the bytes that do not simply stand for themselves in a string. */
static uint64_t special_bytes(uint64_t word)
{
	return bytes_below(word, 0x20) | bytes_below(word ^ EACH_BYTE('"'), 1) |
	       bytes_below(word ^ EACH_BYTE('\\'), 1) | (word & EACH_BYTE(0x80));
}

size_t json_plain_run(const char *text, size_t count)
{
	size_t i = 0;

	while (i < count) {
		if (count - i >= 8) {
			uint64_t word, special;
			memcpy(&word, text + i, 8);
			special = special_bytes(htole64(word));
			if (!special) {
				i += 8;
				continue;
			}
			i += (size_t)__builtin_ctzll(special) / 8;
		}
		unsigned char c = (unsigned char)text[i];
		if (c < 0x20 || c == '"' || c == '\\')
			break;
		size_t length = utf8_length(text + i, count - i);
		if (length == 0)
			break;
		i += length;
	}
	return i;
}

static void append_escaped(struct buf *out, char c)
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
	if ((unsigned char)c < 0x20)
		buf_printf(out, "\\u%04x", (unsigned)c);
	else
		buf_append_str(out, STR("\\ufffd")); /* it is not UTF-8 */
}

void json_append_string(struct buf *out, struct str text)
{
	buf_append_char(out, '"');
	while (text.length > 0) {
		size_t length = json_plain_run(text.data, text.length);
		buf_append(out, text.data, length);
		if (length == 0) {
			append_escaped(out, text.data[0]);
			length = 1;
		}
		text = (struct str){ text.data + length, text.length - length };
	}
	buf_append_char(out, '"');
}
