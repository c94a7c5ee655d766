#include "http/body_facts.h"

#include <string.h>

static const char *const keys[] = {
	[BODY_KEY_MODEL] = "model",
	[BODY_KEY_STREAM] = "stream",
	[BODY_KEY_KEEP_ALIVE] = "keep_alive",
	[BODY_KEY_OPTIONS] = "options",
	[BODY_KEY_SIZE] = "size",
	[BODY_KEY_WIDTH] = "width",
	[BODY_KEY_HEIGHT] = "height",
	[BODY_KEY_FIRST_REPLY] = "max_tokens",
	"max_completion_tokens",
	"max_output_tokens",
	"n_predict",
	"num_predict",
	[BODY_KEY_FIRST_PROMPT] = "messages",
	"prompt",
	"input",
	"system",
	"tools",
	"content",
	"query",
	"documents",
	"suffix",
	"input_prefix",
	"input_suffix",
	"input_extra",
	"instructions",
	[BODY_KEY_ROLE] = "role",
};
_Static_assert(sizeof(keys) / sizeof(keys[0]) == BODY_KEY_COUNT, "each key has its name");

void body_facts_init(struct body_facts *facts)
{
	*facts = (struct body_facts){ .reply_tokens = -1 };
}

const char *body_key_name(enum body_key key)
{
	return key == BODY_KEY_OPTIONS_NUM_PREDICT ? "options.num_predict" : keys[key];
}

enum body_key body_key_find(struct str name, bool in_options)
{
	if (in_options)
		return str_is(name, "num_predict") ? BODY_KEY_OPTIONS_NUM_PREDICT : BODY_KEY_OTHER;
	for (int key = BODY_KEY_MODEL; key <= BODY_KEY_LAST_PROMPT; key++)
		if (keys[key] && str_is(name, keys[key]))
			return (enum body_key)key;
	return BODY_KEY_OTHER;
}

static const char *note_model(struct body_facts *facts, const struct body_value *value)
{
	if (value->kind == BODY_VALUE_NULL)
		return NULL;
	if (value->kind != BODY_VALUE_STRING)
		return "\"model\" must be a string";
	if (value->too_long)
		return "the model's name is too long";
	if (value->text.length > 0 && memchr(value->text.data, '\0', value->text.length))
		return "a NUL in the model's name";
	facts->has_model = true;
	str_copy(facts->model, sizeof(facts->model), value->text);
	facts->model_at = value->at;
	facts->model_length = value->length;
	return NULL;
}

/* Digits alone, else -1; so many that they do not fit mean as much as we can say. */
static int64_t bounded_number(struct str text, bool too_long)
{
	uint64_t number = INT32_MAX;

	for (size_t i = 0; i < text.length; i++)
		if (text.data[i] < '0' || text.data[i] > '9')
			return -1;
	if (text.length == 0)
		return -1;
	if (!too_long)
		str_to_u64(text, &number);
	return number > INT32_MAX ? INT32_MAX : (int64_t)number;
}

static void note_reply_tokens(struct body_facts *facts, enum body_key key, const struct body_value *value)
{
	int64_t tokens = value->kind == BODY_VALUE_NUMBER ? bounded_number(value->text, value->too_long) : -1;
	struct body_replies *replies = &facts->replies;

	if (key != BODY_KEY_OPTIONS_NUM_PREDICT && replies->count < BODY_REPLIES_MAX) {
		replies->has_max_tokens |= key == BODY_KEY_FIRST_REPLY;
		replies->value[replies->count].at = value->at;
		replies->value[replies->count].length = value->length;
		replies->value[replies->count++].tokens = tokens;
	}
	if (tokens > facts->reply_tokens)
		facts->reply_tokens = tokens;
}

static void note_side(int64_t *side, struct str text, bool too_long)
{
	int64_t number = bounded_number(text, too_long);

	if (number > 0)
		*side = number;
}

/* "512x768"; anything else ("auto") says nothing. */
static void note_size(struct body_facts *facts, const struct body_value *value)
{
	struct str height, width = str_cut(value->text, 'x', &height);

	if (value->kind != BODY_VALUE_STRING || value->too_long || !height.data)
		return;
	note_side(&facts->width, width, false);
	note_side(&facts->height, height, false);
}

/* 0, "0", "0s", "0m0s": every digit is a zero. */
static void note_keep_alive(struct body_facts *facts, const struct body_value *value)
{
	bool has_text = value->kind == BODY_VALUE_STRING || value->kind == BODY_VALUE_NUMBER;
	bool has_zero = false;

	if (value->kind == BODY_VALUE_NULL)
		return;
	facts->keep_alive = KEEP_ALIVE_SET;
	if (value->too_long || !has_text)
		return;
	for (size_t i = 0; i < value->text.length; i++) {
		if (value->text.data[i] >= '1' && value->text.data[i] <= '9')
			return;
		has_zero |= value->text.data[i] == '0';
	}
	if (has_zero)
		facts->keep_alive = KEEP_ALIVE_ZERO;
}

/* ---- what a prompt is made of ---- */

void body_facts_prompt_item(struct body_facts *facts, uint32_t depth, char c, uint64_t at)
{
	struct body_prompt *prompt = &facts->prompt;
	bool is_number = c == '-' || (c >= '0' && c <= '9');

	prompt->has_objects |= c == '{';
	if (depth == 0)
		return;
	prompt->has_lists |= c == '[';
	prompt->strings += c == '"';
	prompt->numbers += is_number;
	if (depth > 1)
		return;
	prompt->has_tokens |= is_number;
	prompt->items++;
	prompt->item_at = at;
}

void body_facts_prompt_item_ended(struct body_facts *facts, uint32_t depth, uint64_t end)
{
	struct body_prompt *prompt = &facts->prompt;

	if (depth == 1 && end - prompt->item_at > prompt->longest_bytes)
		prompt->longest_bytes = end - prompt->item_at;
}

static void note_text(struct body_facts *facts, const struct body_value *value)
{
	bool is_list = value->kind == BODY_VALUE_CONTAINER;

	if ((is_list || value->kind == BODY_VALUE_STRING) && facts->texts < BODY_TEXTS_MAX)
		facts->text[facts->texts++] = (struct body_text){ value->at, value->length, is_list };
}

static uint64_t text_bytes(const struct body_facts *facts)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < facts->texts; i++)
		sum += facts->text[i].length;
	return sum;
}

uint64_t body_facts_prompts(const struct body_facts *facts)
{
	const struct body_prompt *prompt = &facts->prompt;

	return prompt->items && !prompt->has_tokens && !prompt->has_objects ? prompt->items : 1;
}

uint64_t body_facts_longest_bytes(const struct body_facts *facts)
{
	if (body_facts_prompts(facts) == 1)
		return facts->prompt_bytes;
	uint64_t beside = facts->prompt_bytes - text_bytes(facts);
	return beside + facts->prompt.longest_bytes;
}

int64_t body_facts_tokens(const struct body_facts *facts)
{
	const struct body_prompt *prompt = &facts->prompt;
	bool is_tokens = prompt->numbers && !prompt->strings && !prompt->has_objects;

	if (!is_tokens || facts->texts != 1)
		return -1;
	return (int64_t)(prompt->numbers + facts->prompt_bytes - text_bytes(facts));
}

bool body_facts_countable(const struct body_facts *facts)
{
	return facts->texts && !facts->prompt.has_lists && !facts->prompt.has_objects;
}

int64_t body_facts_beside(const struct body_facts *facts)
{
	/* Each text may begin with a token of its own; only the first is counted with it. */
	return (int64_t)(facts->prompt_bytes - text_bytes(facts) + facts->prompt.strings);
}

const char *body_facts_note(struct body_facts *facts, enum body_key key,
                            const struct body_value *value)
{
	if (key == BODY_KEY_MODEL)
		return note_model(facts, value);
	if (key == BODY_KEY_STREAM) {
		facts->has_stream =
		        value->kind == BODY_VALUE_TRUE || value->kind == BODY_VALUE_FALSE;
		facts->stream = value->kind == BODY_VALUE_TRUE;
	} else if (key == BODY_KEY_KEEP_ALIVE) {
		note_keep_alive(facts, value);
	} else if (key == BODY_KEY_SIZE) {
		note_size(facts, value);
	} else if (key == BODY_KEY_WIDTH || key == BODY_KEY_HEIGHT) {
		if (value->kind == BODY_VALUE_NUMBER)
			note_side(key == BODY_KEY_WIDTH ? &facts->width : &facts->height, value->text,
			          value->too_long);
	} else if (key == BODY_KEY_OPTIONS_NUM_PREDICT ||
	           (key >= BODY_KEY_FIRST_REPLY && key <= BODY_KEY_LAST_REPLY)) {
		note_reply_tokens(facts, key, value);
	} else if (key >= BODY_KEY_FIRST_PROMPT) {
		facts->prompt_bytes += value->length;
		if (key == BODY_KEY_PROMPT || key == BODY_KEY_INPUT_PREFIX || key == BODY_KEY_INPUT_SUFFIX)
			note_text(facts, value);
	}
	return NULL;
}
