#include "probe/mapping.h"

#include <sys/sysmacros.h>

#include "probe/lines.h"

#define LENGTH_MOST (UINT64_C(1) << 48)

static bool take_hex(struct str *text, char end, uint64_t *out)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < text->length && i < 17; i++) {
		char c = text->data[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (digit < 0)
			break;
		value = value << 4 | (uint64_t)digit;
	}
	if (i == 0 || i > 16 || i >= text->length || text->data[i] != end)
		return false;
	*text = (struct str){ text->data + i + 1, text->length - i - 1 };
	*out = value;
	return true;
}

bool mapping_parse(struct str line, struct mapping *out)
{
	uint64_t offset, major, minor;
	int64_t inode;
	struct str rest;

	if (!take_hex(&line, '-', &out->from) || !take_hex(&line, ' ', &out->to))
		return false;
	str_cut(line, ' ', &rest); /* rights */
	if (!rest.data || !take_hex(&rest, ' ', &offset) || !take_hex(&rest, ':', &major) ||
	    !take_hex(&rest, ' ', &minor) || !lines_number(rest, &inode, &rest))
		return false;
	if (out->to <= out->from || out->to - out->from > LENGTH_MOST)
		return false;
	out->device = makedev((unsigned)major, (unsigned)minor);
	out->inode = (uint64_t)inode;
	out->path = str_trim(rest);
	return true;
}

bool mapping_is_of(const struct mapping *mapping, uint64_t device, uint64_t inode, const char *path)
{
	return mapping->inode == inode && (mapping->device == device || str_is(mapping->path, path));
}
