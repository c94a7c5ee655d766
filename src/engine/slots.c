#include "engine/slots.h"

#include <string.h>

#include "lazy/lazy.h"

/* A cursor over JSON text that is known to come from our own child, and may be wrong all the same. */
struct walk {
	const char *at, *end;
	int depth;
};

/* To the next text, bracket or value at any depth; true where it is a key ("name":), then `key` is it. */
static bool next_key(struct walk *walk, struct str *key)
{
	while (walk->at < walk->end) {
		char c = *walk->at++;
		if (c == '{' || c == '[')
			walk->depth++;
		else if (c == '}' || c == ']')
			walk->depth--;
		if (c != '"')
			continue;
		const char *start = walk->at;
		while (walk->at < walk->end && *walk->at != '"')
			walk->at += *walk->at == '\\' ? 2 : 1;
		if (walk->at >= walk->end)
			return false;
		*key = (struct str){ start, (size_t)(walk->at++ - start) };
		while (walk->at < walk->end && (*walk->at == ' ' || *walk->at == '\n'))
			walk->at++;
		if (walk->at < walk->end && *walk->at == ':') {
			walk->at++;
			while (walk->at < walk->end && *walk->at == ' ')
				walk->at++;
			return true;
		}
	}
	return false;
}

/* Digits at the cursor; -1: no such number, or beyond all sense. */
static int64_t number_here(const struct walk *walk)
{
	size_t digits = 0, left = (size_t)(walk->end - walk->at);
	uint64_t value;

	while (digits < left && digits < 19 && walk->at[digits] >= '0' && walk->at[digits] <= '9')
		digits++;
	if (!digits || !str_to_u64((struct str){ walk->at, digits }, &value) || value > INT64_MAX / 4)
		return -1;
	return (int64_t)value;
}

static bool true_here(const struct walk *walk)
{
	return walk->end - walk->at >= 4 && memcmp(walk->at, "true", 4) == 0;
}

bool slots_parse(struct str body, struct slots_told *out)
{
	struct walk walk = { body.data, body.data + body.length, 0 };
	struct slot_told *slot = NULL;
	struct str key;

	out->count = 0;
	while (next_key(&walk, &key)) {
		if (walk.depth != 2)
			continue;
		int64_t number = number_here(&walk);
		if (str_is(key, "id")) {
			if (number < 0 || number > UINT16_MAX || out->count == SLOTS_TOLD_MAX)
				return false;
			slot = &out->slot[out->count++];
			*slot = (struct slot_told){ .id = (uint32_t)number, .task = -1 };
		} else if (!slot) {
			return false;
		} else if (str_is(key, "is_processing")) {
			slot->busy = true_here(&walk);
		} else if (str_is(key, "id_task")) {
			slot->task = number;
		} else if (str_is(key, "n_prompt_tokens")) {
			slot->tokens = number < 0 ? 0 : number;
		}
	}
	return out->count > 0;
}

int64_t json_number(struct str object, const char *name)
{
	struct walk walk = { object.data, object.data + object.length, 0 };
	struct str key;

	while (next_key(&walk, &key))
		if (walk.depth == 1 && str_is(key, name))
			return number_here(&walk);
	return -1;
}

static bool text_here(const struct walk *walk, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(walk->end - walk->at) >= length + 2 && walk->at[0] == '"' &&
	       memcmp(walk->at + 1, text, length) == 0 && walk->at[length + 1] == '"';
}

int64_t exceeded_tokens(struct str body)
{
	struct walk walk = { body.data, body.data + body.length, 0 };
	int64_t tokens = -1;
	bool exceeds = false;
	struct str key;

	while (next_key(&walk, &key)) {
		if (walk.depth == 2 && str_is(key, "type"))
			exceeds = text_here(&walk, "exceed_context_size_error");
		if (walk.depth == 2 && str_is(key, "n_prompt_tokens"))
			tokens = number_here(&walk);
	}
	return exceeds ? tokens : -1;
}

struct str props_context(struct str body)
{
	struct walk walk = { body.data, body.data + body.length, 0 };
	bool inside = false;
	struct str key;

	while (next_key(&walk, &key)) {
		if (walk.depth == 1)
			inside = str_is(key, "default_generation_settings");
		if (walk.depth != 2 || !inside || !str_is(key, "n_ctx"))
			continue;
		const char *end = walk.at;
		while (end < walk.end && *end >= '0' && *end <= '9')
			end++;
		return (struct str){ walk.at, (size_t)(end - walk.at) };
	}
	return (struct str){ body.data, 0 };
}

bool lazy_parse(struct str body, struct lazy_told *out)
{
	struct walk walk = { body.data, body.data + body.length, 0 };
	struct str key;

	*out = (struct lazy_told){ false, json_number(body, "reserved_bytes"), json_number(body, "resident_bytes") };
	while (next_key(&walk, &key))
		if (walk.depth == 1 && str_is(key, "reached"))
			out->reached = true_here(&walk);
	return out->reserved_bytes >= 0 && out->resident_bytes >= 0;
}

bool lazy_took_effect(const struct lazy_told *told, int64_t expected_bytes)
{
	int64_t left_out = 3 * LAZY_LEAST_BYTES;

	return told->reached && told->reserved_bytes + left_out >= expected_bytes / 10 * 9;
}
