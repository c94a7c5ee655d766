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
	enum keep_alive_wish keep_alive;
	int64_t width, height; /* of a picture, as "size" or two numbers say, at most INT32_MAX; 0 = not said */
	/*
	 * Of the values of messages, prompt, input, system, tools, content, query,
	 * documents, suffix, input_prefix, input_suffix, input_extra and instructions:
	 * a token is at least a byte, so this bounds them from above.
	 */
	uint64_t prompt_bytes;
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

/* Note a value. NULL, or what is wrong with it. */
const char *body_facts_note(struct body_facts *facts, enum body_key key,
                            const struct body_value *value);

#endif
