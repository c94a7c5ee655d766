/*
 * The reader looks for keys that name token counts, with a small automaton from
 * quote to quote. Text that a model wrote cannot fool it: inside a JSON string a
 * quote is escaped, so `"prompt_tokens":` with its two bare quotes is only ever
 * a key.
 */
#include "http/sse.h"

#include <assert.h>
#include <string.h>

#include "http/json_text.h"

const char *stream_content_type(enum stream_form form)
{
	switch (form) {
	case STREAM_SSE:
	case STREAM_ANTHROPIC:
		return "text/event-stream";
	case STREAM_NDJSON_CHAT:
	case STREAM_NDJSON_GENERATE:
	case STREAM_NDJSON:
		return "application/x-ndjson";
	case STREAM_NONE:
		break;
	}
	return "application/json";
}

/* One line whatever the text holds. */
static void append_line(struct buf *out, struct str text)
{
	char *at = buf_reserve(out, text.length + 1);

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		at[i] = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
	}
	at[text.length] = '\n';
	buf_commit(out, text.length + 1);
}

void sse_comment(struct buf *out, struct str text)
{
	buf_append_str(out, STR(": "));
	append_line(out, text);
	buf_append_char(out, '\n');
}

void sse_event(struct buf *out, struct str name, struct str data)
{
	if (name.length > 0) {
		buf_append_str(out, STR("event: "));
		append_line(out, name);
	}
	do {
		buf_append_str(out, STR("data: "));
		append_line(out, str_cut(data, '\n', &data));
	} while (data.data);
	buf_append_char(out, '\n');
}

static void ndjson_empty_delta(struct buf *out, struct str model, const char *delta)
{
	buf_append_str(out, STR("{\"model\":"));
	json_append_string(out, model);
	buf_printf(out, ",%s,\"done\":false}\n", delta);
}

void stream_keep_alive(struct buf *out, enum stream_form form, struct str model, struct str text)
{
	switch (form) {
	case STREAM_NONE:
		break;
	case STREAM_SSE:
		sse_comment(out, text);
		break;
	case STREAM_ANTHROPIC:
		sse_comment(out, text);
		sse_event(out, STR("ping"), STR("{\"type\": \"ping\"}"));
		break;
	case STREAM_NDJSON_CHAT:
		ndjson_empty_delta(out, model,
		                   "\"message\":{\"role\":\"assistant\",\"content\":\"\"}");
		break;
	case STREAM_NDJSON_GENERATE:
		ndjson_empty_delta(out, model, "\"response\":\"\"");
		break;
	case STREAM_NDJSON:
		buf_append_str(out, STR("{\"status\":"));
		json_append_string(out, text);
		buf_append_str(out, STR("}\n"));
		break;
	}
}

/* Where the automaton is. */
enum {
	SEEK_QUOTE,
	IN_STRING,
	IN_STRING_ESCAPE,
	BEHIND_STRING, /* of a key we know: a colon? */
	BEHIND_COLON,
	IN_NUMBER,
};

enum { TOKENS_IN = 1, TOKENS_OUT };

static const struct {
	const char *name;
	uint8_t counts;
} count_keys[] = {
	{ "prompt_tokens", TOKENS_IN }, /* OpenAI usage */
	{ "completion_tokens", TOKENS_OUT },
	{ "input_tokens", TOKENS_IN }, /* Anthropic, OpenAI responses */
	{ "output_tokens", TOKENS_OUT },
	{ "prompt_eval_count", TOKENS_IN }, /* Ollama */
	{ "eval_count", TOKENS_OUT },
	{ "tokens_evaluated", TOKENS_IN }, /* llama-server's own */
	{ "tokens_predicted", TOKENS_OUT },
};

void stream_reader_init(struct stream_reader *reader, enum stream_form form)
{
	*reader = (struct stream_reader){ .form = form, .state = SEEK_QUOTE };
}

static uint8_t count_key(struct str name)
{
	for (size_t i = 0; i < sizeof(count_keys) / sizeof(count_keys[0]); i++)
		if (str_is(name, count_keys[i].name))
			return count_keys[i].counts;
	return 0;
}

static void number_ended(struct stream_reader *reader)
{
	if (reader->key == TOKENS_IN)
		reader->tokens_in = reader->number;
	else
		reader->tokens_out = reader->number;
	reader->state = SEEK_QUOTE;
}

static void string_ended(struct stream_reader *reader)
{
	bool fits = reader->length <= sizeof(reader->text);

	reader->key = fits ? count_key((struct str){ reader->text, reader->length }) : 0;
	reader->state = reader->key ? BEHIND_STRING : SEEK_QUOTE;
}

static void take_text(struct stream_reader *reader, char c)
{
	if (reader->length < sizeof(reader->text))
		reader->text[reader->length++] = c;
	else
		reader->length = sizeof(reader->text) + 1; /* too long for any key */
}

static void step(struct stream_reader *reader, char c)
{
	bool is_digit = c >= '0' && c <= '9';

	if (reader->state == IN_NUMBER) {
		if (is_digit && reader->number < INT64_C(1) << 48) {
			reader->number = reader->number * 10 + (c - '0');
			return;
		}
		number_ended(reader);
	}
	if (c == '\n') {
		/* No JSON string spans lines: whatever this was, it is over. */
		reader->state = SEEK_QUOTE;
		return;
	}
	if (reader->state == IN_STRING_ESCAPE) {
		reader->state = IN_STRING;
		return;
	}
	if (reader->state == IN_STRING) {
		if (c == '\\') {
			reader->length = sizeof(reader->text) + 1; /* our keys hold no escape */
			reader->state = IN_STRING_ESCAPE;
		} else if (c == '"') {
			string_ended(reader);
		} else if (reader->length <= sizeof(reader->text)) {
			take_text(reader, c);
		}
		return;
	}
	if (c == '"') {
		reader->length = 0;
		reader->state = IN_STRING;
	} else if (c == ':' && reader->state == BEHIND_STRING) {
		reader->state = BEHIND_COLON;
	} else if (is_digit && reader->state == BEHIND_COLON) {
		reader->number = c - '0';
		reader->state = IN_NUMBER;
	} else if (c != ' ') {
		reader->state = SEEK_QUOTE;
	}
}

static void keep_last(struct stream_reader *reader, struct str bytes)
{
	for (size_t i = bytes.length > 3 ? bytes.length - 3 : 0; i < bytes.length; i++) {
		reader->last[0] = reader->last[1];
		reader->last[1] = reader->last[2];
		reader->last[2] = bytes.data[i];
	}
	reader->started = true;
}

/* Bytes from `at` that change nothing: up to the next quote, or inside a long string. */
static size_t skip(const struct stream_reader *reader, const char *at, size_t count)
{
	size_t i = 0;

	if (reader->state == SEEK_QUOTE) {
		const char *quote = memchr(at, '"', count);
		return quote ? (size_t)(quote - at) : count;
	}
	if (reader->state == IN_STRING && reader->length > sizeof(reader->text))
		while (i < count && at[i] != '"' && at[i] != '\\' && at[i] != '\n')
			i++;
	return i;
}

void stream_reader_feed(struct stream_reader *reader, struct str bytes)
{
	if (bytes.length == 0)
		return;
	keep_last(reader, bytes);
	for (size_t i = 0; i < bytes.length; i++) {
		i += skip(reader, bytes.data + i, bytes.length - i);
		if (i < bytes.length)
			step(reader, bytes.data[i]);
	}
}

bool stream_reader_between_events(const struct stream_reader *reader)
{
	const char *last = reader->last;

	if (!reader->started)
		return true;
	switch (reader->form) {
	case STREAM_NONE:
		return false;
	case STREAM_NDJSON:
	case STREAM_NDJSON_CHAT:
	case STREAM_NDJSON_GENERATE:
		return last[2] == '\n';
	case STREAM_SSE:
	case STREAM_ANTHROPIC:
		break;
	}
	/* An empty line; a line may end in LF, CRLF or CR. */
	bool is_lf = last[2] == '\n' && (last[1] == '\n' || (last[1] == '\r' && last[0] == '\n'));
	return is_lf || (last[2] == '\r' && last[1] == '\r');
}
