#ifndef HTTP_BODY_FACTS_H
#define HTTP_BODY_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/*
 * body_facts - what the gateway needs to know of a JSON request body.
 *
 * Which keys matter, and what their values mean. The scanner finds them; here
 * they are understood. The model comes with its place in the bytes, so that its
 * name can be replaced and all else go through untouched.
 */

enum {
	BODY_MODEL_MAX = 256, /* bytes of a model's name after its escapes */
	BODY_KEY_MAX = 24,    /* no key that matters is longer */
};

enum keep_alive_wish {
	KEEP_ALIVE_ABSENT,
	KEEP_ALIVE_ZERO, /* Ollama's way to say: unload it now */
	KEEP_ALIVE_SET,
};

/* A string or a list of the top level. */
struct body_text {
	uint64_t at, length; /* in the body, with its quotes or brackets */
	bool is_list;
};

/* Where a body says how long its answer may be, in the order in which it stands there. */
enum { BODY_REPLIES_MAX = 5 };

struct body_replies {
	uint64_t object_at; /* the '{' of the body */
	uint32_t count;
	bool has_max_tokens; /* one is that very key, which every path of an engine takes */
	struct {
		uint64_t at, length; /* of the value */
		int64_t tokens;      /* as `reply_tokens` */
	} value[BODY_REPLIES_MAX]; /* of the top level's keys */
};

/* What "prompt" is made of: one text, tokens, both in turn, or a list of such prompts. */
struct body_prompt {
	uint64_t items, longest_bytes; /* of the list itself: how many, and the longest of them */
	uint64_t numbers, strings;     /* at any depth */
	bool has_tokens;               /* numbers stand in the list itself: all of it is one prompt */
	bool has_lists, has_objects;
	uint64_t item_at;              /* private: where the item begins that is being read */
};

enum { BODY_TEXTS_MAX = 3 };

struct body_facts {
	bool has_model;
	char model[BODY_MODEL_MAX + 1]; /* unescaped, terminated; holds no NUL */
	uint64_t model_at;              /* offset of its opening quote in the body */
	uint64_t model_length;          /* with both quotes, as it stands in the body */
	bool has_stream, stream;
	/*
	 * The largest of max_tokens, max_completion_tokens, max_output_tokens,
	 * n_predict, num_predict and options.num_predict, at most INT32_MAX; -1
	 * where none was said or none bounds (negative, not an integer).
	 */
	int64_t reply_tokens;
	struct body_replies replies;
	enum keep_alive_wish keep_alive;
	int64_t width, height; /* of a picture, as "size" or two numbers say, at most INT32_MAX; 0 = not said */
	/*
	 * Of the values of messages, prompt, input, system, tools, content, query,
	 * documents, suffix, input_prefix, input_suffix, input_extra and instructions:
	 * a token is at least a byte, so this bounds them from above.
	 */
	uint64_t prompt_bytes;
	struct body_prompt prompt;
	struct body_text text[BODY_TEXTS_MAX]; /* prompt, input_prefix and input_suffix, as they came */
	uint32_t texts;
	uint64_t conversation; /* hash of how it begins (opening.h); 0 = nothing to tell it by */
};

/* The keys that matter; names in body_facts.c. */
enum body_key {
	BODY_KEY_OTHER,
	BODY_KEY_MODEL,
	BODY_KEY_STREAM,
	BODY_KEY_KEEP_ALIVE,
	BODY_KEY_OPTIONS,
	BODY_KEY_OPTIONS_NUM_PREDICT,
	BODY_KEY_SIZE,
	BODY_KEY_WIDTH,
	BODY_KEY_HEIGHT,
	BODY_KEY_FIRST_REPLY,
	BODY_KEY_LAST_REPLY = BODY_KEY_FIRST_REPLY + 4,
	BODY_KEY_FIRST_PROMPT,
	BODY_KEY_MESSAGES = BODY_KEY_FIRST_PROMPT,
	BODY_KEY_PROMPT,
	BODY_KEY_INPUT,
	BODY_KEY_SYSTEM,
	BODY_KEY_INPUT_PREFIX = BODY_KEY_FIRST_PROMPT + 9,
	BODY_KEY_INPUT_SUFFIX,
	BODY_KEY_INSTRUCTIONS = BODY_KEY_FIRST_PROMPT + 12,
	BODY_KEY_LAST_PROMPT = BODY_KEY_INSTRUCTIONS,
	BODY_KEY_ROLE, /* of a message */
	BODY_KEY_COUNT,
};

enum body_value_kind {
	BODY_VALUE_STRING,
	BODY_VALUE_NUMBER,
	BODY_VALUE_TRUE,
	BODY_VALUE_FALSE,
	BODY_VALUE_NULL,
	BODY_VALUE_CONTAINER,
};

struct body_value {
	enum body_value_kind kind;
	struct str text;     /* of a string its content, of a number its digits */
	bool too_long;       /* then text is not all of it */
	uint64_t at, length; /* in the body; with the quotes of a string */
};

void body_facts_init(struct body_facts *facts);

/* A key after its escapes, of the top level or of its "options". */
enum body_key body_key_find(struct str name, bool in_options);

/* What it is called in the body; NULL for BODY_KEY_OTHER. */
const char *body_key_name(enum body_key key);

/* A value that begins with `c` begins in "prompt", `depth` deep (0: it is the prompt itself); ... and such a one ended. */
void body_facts_prompt_item(struct body_facts *facts, uint32_t depth, char c, uint64_t at);
void body_facts_prompt_item_ended(struct body_facts *facts, uint32_t depth, uint64_t end);

/* How many prompts it is that are answered each for itself, and a bound by bytes for the tokens of one of them. */
uint64_t body_facts_prompts(const struct body_facts *facts);
uint64_t body_facts_longest_bytes(const struct body_facts *facts);
/* The tokens, where the prompt is nothing but tokens; -1 = who counts them is to read it. */
int64_t body_facts_tokens(const struct body_facts *facts);
/* Whether the texts, lists unfolded into one, may be given to who counts tokens of texts and tokens in turn. */
bool body_facts_countable(const struct body_facts *facts);
/* ... and how many tokens there may be beside what is counted then. */
int64_t body_facts_beside(const struct body_facts *facts);

/* Note a value. NULL, or what is wrong with it. */
const char *body_facts_note(struct body_facts *facts, enum body_key key,
                            const struct body_value *value);

#endif
