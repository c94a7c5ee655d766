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
	IN_FRACTION,
};

enum { TOKENS_IN = 1, TOKENS_OUT, PREFILL_TOKENS, CACHED_TOKENS, DECODE_TOKENS, PREFILL_MS, DECODE_MS };

#define KEY(literal) { "" literal, sizeof(literal) - 1 }
static const struct {
	struct str name;
	uint8_t counts;
} count_keys[] = {
	{ KEY("prompt_tokens"), TOKENS_IN }, /* OpenAI usage */
	{ KEY("completion_tokens"), TOKENS_OUT },
	{ KEY("input_tokens"), TOKENS_IN }, /* Anthropic, OpenAI responses */
	{ KEY("output_tokens"), TOKENS_OUT },
	{ KEY("prompt_eval_count"), TOKENS_IN }, /* Ollama */
	{ KEY("eval_count"), TOKENS_OUT },
	{ KEY("tokens_evaluated"), TOKENS_IN }, /* llama-server's own */
	{ KEY("tokens_predicted"), TOKENS_OUT },
	{ KEY("prompt_n"), PREFILL_TOKENS },
	{ KEY("cache_n"), CACHED_TOKENS },
	{ KEY("predicted_n"), DECODE_TOKENS },
	{ KEY("prompt_ms"), PREFILL_MS },
	{ KEY("predicted_ms"), DECODE_MS },
};
enum { KEY_LEAST = sizeof("cache_n") - 1, KEY_MOST = sizeof("completion_tokens") - 1 };
#undef KEY

void stream_reader_init(struct stream_reader *reader, enum stream_form form)
{
	*reader = (struct stream_reader){ .form = form, .state = SEEK_QUOTE };
}

static uint8_t count_key(struct str name)
{
	if (name.length < KEY_LEAST || name.length > KEY_MOST)
		return 0;
	for (size_t i = 0; i < sizeof(count_keys) / sizeof(count_keys[0]); i++)
		if (str_equal(name, count_keys[i].name))
			return count_keys[i].counts;
	return 0;
}

/* Milliseconds, with what followed the point, as µs. */
static int64_t as_us(const struct stream_reader *reader)
{
	int64_t us = reader->number;

	for (int digits = reader->decimals; digits < 3; digits++)
		us *= 10;
	return us;
}

static void number_ended(struct stream_reader *reader)
{
	reader->state = SEEK_QUOTE;
	switch (reader->key) {
	case TOKENS_IN:
		reader->tokens_in = reader->number;
		break;
	case TOKENS_OUT:
		reader->tokens_out = reader->number;
		break;
	case PREFILL_TOKENS:
		reader->prefill_tokens = reader->number;
		break;
	case CACHED_TOKENS:
		reader->cached_tokens = reader->number;
		break;
	case DECODE_TOKENS:
		reader->decode_tokens = reader->number;
		break;
	case PREFILL_MS:
		reader->prefill_us = as_us(reader);
		break;
	default:
		reader->decode_us = as_us(reader);
	}
}

/* A digit more; false where it is one too many to count. Behind the point only times matter, to the µs. */
static bool take_digit(struct stream_reader *reader, char c)
{
	bool is_time = reader->key >= PREFILL_MS;

	if (reader->state == IN_FRACTION && (!is_time || reader->decimals == 3))
		return true;
	if (reader->number >= INT64_C(1) << 40)
		return false;
	reader->number = reader->number * 10 + (c - '0');
	reader->decimals += reader->state == IN_FRACTION;
	return true;
}

static void string_ended(struct stream_reader *reader, struct str name)
{
	reader->key = count_key(name);
	reader->state = reader->key ? BEHIND_STRING : SEEK_QUOTE;
}

/* Bytes of a string up to the one that ends it, escapes, or breaks off the line. */
static size_t plain_span(struct str bytes)
{
	static const uint8_t stops[256] = { ['"'] = 1, ['\\'] = 1, ['\n'] = 1 };
	size_t i = 0;

	while (i < bytes.length && !stops[(uint8_t)bytes.data[i]])
		i++;
	return i;
}

static void keep_text(struct stream_reader *reader, struct str part)
{
	if (reader->length + part.length > sizeof(reader->text)) {
		reader->length = sizeof(reader->text) + 1; /* too long for any key */
		return;
	}
	memcpy(reader->text + reader->length, part.data, part.length);
	reader->length += (uint8_t)part.length;
}

/*
 * Inside a string: takes it up to its end, or all there is. A name is kept only
 * where a read ended within it.
 */
static size_t take_string(struct stream_reader *reader, struct str bytes)
{
	struct str plain = { bytes.data, plain_span(bytes) };

	if (plain.length == bytes.length) {
		keep_text(reader, plain);
		return plain.length;
	}
	char stop = bytes.data[plain.length];
	if (stop == '\\') {
		reader->length = sizeof(reader->text) + 1; /* our keys hold no escape */
		reader->state = IN_STRING_ESCAPE;
	} else if (stop == '\n') {
		reader->state = SEEK_QUOTE; /* no JSON string spans lines */
	} else if (reader->length == 0) {
		string_ended(reader, plain);
	} else {
		keep_text(reader, plain);
		bool fits = reader->length <= sizeof(reader->text);
		string_ended(reader, fits ? (struct str){ reader->text, reader->length } : STR(""));
	}
	return plain.length + 1;
}

static void step(struct stream_reader *reader, char c)
{
	bool is_digit = c >= '0' && c <= '9';

	if (reader->state == IN_NUMBER || reader->state == IN_FRACTION) {
		if (is_digit && take_digit(reader, c))
			return;
		if (c == '.' && reader->state == IN_NUMBER) {
			reader->state = IN_FRACTION;
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
	if (c == '"') {
		reader->length = 0;
		reader->state = IN_STRING;
	} else if (c == ':' && reader->state == BEHIND_STRING) {
		reader->state = BEHIND_COLON;
	} else if (is_digit && reader->state == BEHIND_COLON) {
		reader->number = c - '0';
		reader->decimals = 0;
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

/* What follows the '_' that each key that counts has one of; false: none of them is there. */
static bool may_count(struct str bytes)
{
	static const char *const behind[] = { "tok", "eva", "cou", "pre", "n\"", "ms\"" };
	const char *end = bytes.data + bytes.length;

	for (const char *at = bytes.data; (at = memchr(at, '_', (size_t)(end - at)));) {
		at++;
		struct str rest = { at, (size_t)(end - at) };
		for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
			if (rest.length && rest.data[0] == behind[i][0] && str_starts(rest, behind[i]))
				return true;
	}
	return false;
}

/* Most reads are whole events that count nothing: no string goes on behind the line's end. */
static bool is_idle_talk(const struct stream_reader *reader, struct str bytes)
{
	return reader->state == SEEK_QUOTE && bytes.data[bytes.length - 1] == '\n' && !may_count(bytes);
}

void stream_reader_feed(struct stream_reader *reader, struct str bytes)
{
	if (bytes.length == 0)
		return;
	keep_last(reader, bytes);
	if (is_idle_talk(reader, bytes))
		return;
	while (bytes.length > 0) {
		size_t taken = 1;
		if (reader->state == IN_STRING) {
			taken = take_string(reader, bytes);
		} else if (reader->state == SEEK_QUOTE) {
			const char *quote = memchr(bytes.data, '"', bytes.length);
			if (!quote)
				return;
			taken = (size_t)(quote - bytes.data) + 1;
			reader->length = 0;
			reader->state = IN_STRING;
		} else {
			step(reader, bytes.data[0]);
		}
		bytes = (struct str){ bytes.data + taken, bytes.length - taken };
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

/* A stream tells its usage only where the client asked for it; llama-server's timings stand there anyway. */
int64_t stream_reader_tokens_in(const struct stream_reader *reader)
{
	return reader->tokens_in ? reader->tokens_in : reader->prefill_tokens + reader->cached_tokens;
}

int64_t stream_reader_tokens_out(const struct stream_reader *reader)
{
	return reader->tokens_out ? reader->tokens_out : reader->decode_tokens;
}
