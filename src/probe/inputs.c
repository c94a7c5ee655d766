#include "probe/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/lines.h"

static struct input *row_of(struct inputs *inputs, const char *name)
{
	for (uint32_t i = 0; i < inputs->count; i++)
		if (strcmp(inputs->list[i].name, name) == 0)
			return &inputs->list[i];
	return NULL;
}

/* A new row; in a full table that of one that is well. */
static struct input *new_row(struct inputs *inputs)
{
	if (inputs->count < INPUTS_MAX)
		return &inputs->list[inputs->count++];
	for (uint32_t i = 0; i < INPUTS_MAX; i++)
		if (!input_is_degraded(&inputs->list[i]))
			return &inputs->list[i];
	return NULL;
}

void inputs_note(struct inputs *inputs, const char *name, enum input_state state, bool needed, const char *effect)
{
	size_t length = strlen(name);

	if (!inputs)
		return;
	if (length >= INPUT_NAME_BYTES)
		name += length - INPUT_NAME_BYTES + 1;
	struct input *input = row_of(inputs, name);
	if (input && (input->state > state || (input->state == state && input->needed)))
		return;
	if (!input)
		input = new_row(inputs);
	if (!input)
		return;
	*input = (struct input){ .state = state, .needed = needed, .effect = effect };
	str_copy(input->name, sizeof input->name, str_from(name));
}

void inputs_add(struct inputs *inputs, const struct inputs *from)
{
	for (uint32_t i = 0; i < from->count; i++) {
		const struct input *input = &from->list[i];
		inputs_note(inputs, input->name, input->state, input->needed, input->effect);
	}
}

bool inputs_have_news(struct inputs *told, const struct input *input)
{
	struct input *row = row_of(told, input->name);
	bool was = row && input_is_degraded(row), is = input_is_degraded(input);

	if (was == is)
		return false;
	if (!row)
		row = new_row(told);
	if (row)
		*row = *input;
	return row != NULL;
}

bool input_is_degraded(const struct input *input)
{
	return input->state > INPUT_MISSING || (input->state == INPUT_MISSING && input->needed);
}

uint32_t inputs_degraded(const struct inputs *inputs)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < inputs->count; i++)
		count += input_is_degraded(&inputs->list[i]);
	return count;
}

const char *input_state_name(enum input_state state)
{
	static const char *const names[] = { "ok", "missing", "unreadable", "nonsense", "blocked" };

	return names[state];
}

void input_describe(const struct input *input, char *out, size_t out_bytes)
{
	static const char *const texts[] = { "can be read", "is missing", "cannot be read", "makes no sense",
		                              "gives no answer" };

	snprintf(out, out_bytes, "%s %s: %s", input->name, texts[input->state], input->effect);
	for (char *c = out; *c; c++)
		*c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
}

enum input_state input_state_of(int code, size_t bytes, bool made_sense)
{
	if (code == -ENOENT || code == -ENOTDIR)
		return INPUT_MISSING;
	if (code < 0 || bytes == 0)
		return INPUT_UNREADABLE;
	return made_sense ? INPUT_OK : INPUT_NONSENSE;
}

static bool hexadecimal(struct str text, int64_t *value)
{
	enum { DIGITS_MOST = 12 };
	int64_t number = 0;

	if (text.length == 0 || text.length > DIGITS_MOST)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
		if (digit < 0)
			return false;
		number = number * 16 + digit;
	}
	*value = number;
	return true;
}

enum input_state input_number(const char *root, const char *name, const char *none, int64_t *value)
{
	char bytes[64];
	int64_t number;
	int length = lines_read_once(root, name, bytes, sizeof bytes);
	enum input_state state = input_state_of(length, length > 0 ? (size_t)length : 0, true);
	struct str rest, text = str_trim(str_cut(str_from(bytes), '\n', &rest));

	if (state != INPUT_OK)
		return state;
	if (none && str_is(text, none))
		number = INT64_MAX;
	else if (str_starts(text, "0x")) {
		if (!hexadecimal((struct str){ text.data + 2, text.length - 2 }, &number))
			return INPUT_NONSENSE;
	} else if (!lines_number(text, &number, &rest) || str_trim(rest).length > 0)
		return INPUT_NONSENSE;
	*value = number;
	return INPUT_OK;
}
