#ifndef HTTP_SSE_H
#define HTTP_SSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/*
 * sse - streams of events: what we write into them, what we read out of them.
 *
 * A stream that is relayed goes through untouched. The reader only looks at the
 * bytes passing by: whether they stopped between two events (the one place
 * where something of ours may be put), and which token counts were named last.
 */

enum stream_form {
	STREAM_NONE,            /* one body */
	STREAM_SSE,             /* server-sent events */
	STREAM_ANTHROPIC,       /* the same, every event named */
	STREAM_NDJSON_CHAT,     /* Ollama: a JSON object a line, with message.content */
	STREAM_NDJSON_GENERATE, /* Ollama: with response */
	STREAM_NDJSON,          /* Ollama: status lines */
};

const char *stream_content_type(enum stream_form form);

/* ": text\n\n"; line breaks in the text become blanks. */
void sse_comment(struct buf *out, struct str text);
/* An event; `name` may be empty. Each line of `data` gets its own "data: ". */
void sse_event(struct buf *out, struct str name, struct str data);

/*
 * A sign of life in the form of the stream, with a line for people where the
 * form has room for one: a comment (SSE), a comment and a ping (Anthropic), an
 * empty delta (NDJSON; a client parses every line, so the text can't be there).
 * `model` is what the client asked for.
 */
void stream_keep_alive(struct buf *out, enum stream_form form, struct str model, struct str text);

struct stream_reader {
	/* Named last by the engine; 0 where not seen. */
	int64_t tokens_in, tokens_out;
	int64_t prefill_tokens, prefill_us, decode_us; /* llama-server's timings */
	int64_t cached_tokens, decode_tokens;          /* ... of the prompt not computed again; of the answer */
	/* private */
	enum stream_form form;
	char last[3]; /* bytes, the newest at [2] */
	bool started;
	uint8_t state;
	uint8_t key;
	uint8_t length;
	char text[24];
	int64_t number;
	uint8_t decimals; /* digits taken behind the point */
};

void stream_reader_init(struct stream_reader *reader, enum stream_form form);
/* Body bytes as they pass, of any form; a plain JSON answer too, for its counts. */
void stream_reader_feed(struct stream_reader *reader, struct str bytes);
/* What the request took: of its prompt and of its answer, by the usage that was told, else by the timings. */
int64_t stream_reader_tokens_in(const struct stream_reader *reader);
int64_t stream_reader_tokens_out(const struct stream_reader *reader);
/* True before the first byte and behind each whole event; with STREAM_NONE there is none. */
bool stream_reader_between_events(const struct stream_reader *reader);

#endif
