#ifndef HTTP_UTF8_H
#define HTTP_UTF8_H

#include <stddef.h>

/*
 * utf8 - the length of the sequence that begins with the byte at `text`, of
 * which `count` bytes are there. 0 where it is not UTF-8 (overlong forms,
 * surrogates and what lies past U+10FFFF are not) or where it is cut short.
 */
static inline size_t utf8_length(const char *text, size_t count)
{
	const unsigned char *at = (const unsigned char *)text;

	if (count == 0)
		return 0;
	if (at[0] < 0x80)
		return 1;
	size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	if (at[0] < 0xc2 || at[0] > 0xf4 || length > count)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	int is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
	int is_surrogate = at[0] == 0xed && at[1] >= 0xa0;
	int is_beyond = at[0] == 0xf4 && at[1] >= 0x90;
	return is_overlong || is_surrogate || is_beyond ? 0 : length;
}

#endif
