/*
 * The scanner agrees with jansson on what is JSON and on what "model" says, and
 * with itself however the body is cut.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "http/body_scan.h"
#include "http/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool scan(struct body_scan *scan, struct str bytes, size_t step)
{
	body_scan_init(scan);
	for (size_t at = 0; at < bytes.length; at += step) {
		size_t left = bytes.length - at;
		if (!body_scan_feed(scan,
		                    (struct str){ bytes.data + at, left < step ? left : step }))
			return false;
	}
	return body_scan_end(scan);
}

static void same_facts(const struct body_facts *a, const struct body_facts *b)
{
	assert(a->has_model == b->has_model && strcmp(a->model, b->model) == 0);
	assert(a->model_at == b->model_at && a->model_length == b->model_length);
	assert(a->has_stream == b->has_stream && a->stream == b->stream);
	assert(a->reply_tokens == b->reply_tokens && a->keep_alive == b->keep_alive);
	assert(a->prompt_bytes == b->prompt_bytes);
	assert(body_facts_tokens(a) == body_facts_tokens(b) && body_facts_prompts(a) == body_facts_prompts(b));
	assert(body_facts_longest_bytes(a) == body_facts_longest_bytes(b) && body_facts_longest_bytes(a) <= a->prompt_bytes);
	assert(body_facts_beside(a) == body_facts_beside(b) && a->texts == b->texts);
	for (uint32_t i = 0; i < a->texts; i++)
		assert(a->text[i].at == b->text[i].at && a->text[i].length == b->text[i].length);
}

/* Refused by us on purpose though it is JSON. */
static bool is_our_rule(const struct body_scan *scan)
{
	static const char *const rules[] = { "this key comes twice", "\"model\" must be a string",
		                             "the model's name is too long",
		                             "a NUL in the model's name", "nested too deep" };
	char text[BODY_SCAN_TEXT];

	body_scan_explain(scan, text);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (strncmp(text, rules[i], strlen(rules[i])) == 0)
			return true;
	return false;
}

/* Refused by jansson though it is JSON: numbers that C cannot hold, NUL in a key. */
static bool is_their_limit(const json_error_t *error)
{
	enum json_error_code code = json_error_code(error);
	return code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

static void compare(const struct body_scan *scan, bool is_ours, struct str bytes)
{
	json_error_t error;

	/* No JSON holds a NUL, but jansson overlooks one behind a literal or number. */
	if (bytes.length > 0 && memchr(bytes.data, '\0', bytes.length)) {
		assert(!is_ours);
		return;
	}
	/* Nor does jansson know a byte order mark. */
	if (str_starts(bytes, "\xEF\xBB\xBF"))
		bytes = (struct str){ bytes.data + 3, bytes.length - 3 };
	json_t *tree = json_loadb(bytes.data, bytes.length, JSON_ALLOW_NUL, &error);
	bool is_theirs = json_is_object(tree);

	if (is_ours != is_theirs)
		assert(is_ours ? is_their_limit(&error) : is_our_rule(scan));
	if (is_ours && is_theirs) {
		const json_t *model = json_object_get(tree, "model");
		assert(scan->facts.has_model == json_is_string(model));
		if (scan->facts.has_model)
			assert(strcmp(scan->facts.model, json_string_value(model)) == 0);
		const json_t *stream = json_object_get(tree, "stream");
		assert(scan->facts.stream == json_is_true(stream));
	}
	json_decref(tree);
}

/* Put another name in the place we noted; it must be there and the body stay JSON. */
static void splice(const struct body_facts *facts, struct str bytes)
{
	struct buf out = BUF_INIT;
	struct body_scan again;

	buf_append(&out, bytes.data, facts->model_at);
	json_append_string(&out, STR("other/\"name\""));
	size_t behind = facts->model_at + facts->model_length;
	buf_append(&out, bytes.data + behind, bytes.length - behind);
	assert(scan(&again, buf_str(&out), SIZE_MAX / 2));
	assert(strcmp(again.facts.model, "other/\"name\"") == 0);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	struct body_scan whole, drips, sevens;

	bool is_ours = scan(&whole, bytes, SIZE_MAX / 2);
	assert(scan(&drips, bytes, 1) == is_ours);
	assert(scan(&sevens, bytes, 7) == is_ours);
	assert(drips.offset == whole.offset && sevens.offset == whole.offset);
	same_facts(&whole.facts, &drips.facts);
	same_facts(&whole.facts, &sevens.facts);
	if (!is_ours)
		assert(whole.fault == drips.fault && whole.line == drips.line);
	compare(&whole, is_ours, bytes);
	if (is_ours && whole.facts.has_model)
		splice(&whole.facts, bytes);
	return 0;
}
