#include "engine/told.h"

#include <stdbool.h>
#include <string.h>

static const char mark[] = " compute buffer size =";

enum { DEVICES_MOST = 16, DEVICE_BYTES = 32, DIGITS_MOST = 12 };

struct buffer {
	char device[DEVICE_BYTES];
	int64_t bytes;
};

/* "  302.75 MiB" in bytes; false where it is none. */
static bool parse_mib(struct str text, int64_t *out)
{
	struct str fraction, trimmed = str_trim(text);
	size_t end = 0;
	uint64_t whole = 0, part = 0, scale = 1;

	while (end < trimmed.length && ((trimmed.data[end] >= '0' && trimmed.data[end] <= '9') || trimmed.data[end] == '.'))
		end++;
	if (end == 0 || end > DIGITS_MOST || !str_starts((struct str){ trimmed.data + end, trimmed.length - end }, " MiB"))
		return false;
	struct str number = str_cut((struct str){ trimmed.data, end }, '.', &fraction);
	if (!str_to_u64(number, &whole) || (fraction.data && !str_to_u64(fraction, &part)))
		return false;
	for (size_t i = 0; fraction.data && i < fraction.length; i++)
		scale *= 10;
	*out = (int64_t)((whole << 20) + (part << 20) / scale);
	return true;
}

/* The word before the mark. */
static struct str device_of(struct str before)
{
	size_t start = before.length;

	while (start > 0 && before.data[start - 1] != ' ')
		start--;
	return (struct str){ before.data + start, before.length - start };
}

static struct buffer *buffer_of(struct buffer *buffers, uint32_t *count, struct str device)
{
	for (uint32_t i = 0; i < *count; i++)
		if (str_is(device, buffers[i].device))
			return &buffers[i];
	if (*count == DEVICES_MOST)
		return NULL;
	struct buffer *made = &buffers[(*count)++];
	if (!str_copy(made->device, sizeof(made->device), device))
		return NULL;
	return made;
}

int64_t told_compute_bytes(struct str log)
{
	struct buffer buffers[DEVICES_MOST] = { 0 };
	uint32_t count = 0;
	int64_t sum = 0;

	for (struct str rest = log; rest.data;) {
		struct str line = str_cut(rest, '\n', &rest);
		const char *at = line.length ? memmem(line.data, line.length, mark, sizeof(mark) - 1) : NULL;
		int64_t bytes = 0;
		if (!at)
			continue;
		size_t place = (size_t)(at - line.data);
		struct str size = { at + sizeof(mark) - 1, line.length - place - sizeof(mark) + 1 };
		if (!parse_mib(size, &bytes))
			continue;
		struct buffer *buffer = buffer_of(buffers, &count, device_of((struct str){ line.data, place }));
		if (buffer)
			buffer->bytes = bytes;
	}
	for (uint32_t i = 0; i < count; i++)
		sum += buffers[i].bytes;
	return sum;
}

/* "common_params_print_info: build 11669 (Debian) with GNU 16.2.0 for ..." */
struct str told_build(struct str log)
{
	static const char names[] = "print_info: build ", until[] = " with ";
	enum { BUILD_MOST = 64 };
	const char *at = log.length ? memmem(log.data, log.length, names, sizeof(names) - 1) : NULL;
	struct str none = { "", 0 };

	if (!at)
		return none;
	at += sizeof("print_info: ") - 1;
	struct str rest, line = str_cut((struct str){ at, log.length - (size_t)(at - log.data) }, '\n', &rest);
	const char *end = memmem(line.data, line.length, until, sizeof(until) - 1);
	line.length = end ? (size_t)(end - line.data) : line.length;
	for (size_t i = 0; i < line.length; i++)
		if (line.data[i] < ' ' || line.data[i] > '~')
			return none;
	return line.length <= BUILD_MOST ? line : none;
}
