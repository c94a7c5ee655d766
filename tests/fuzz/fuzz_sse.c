/*
 * The stream reader comes to the same however a stream is cut, and what we write
 * into streams is whole events whatever text goes in.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "http/api_shape.h"
#include "http/json_text.h"
#include "http/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_in_pieces(enum stream_form form, struct str bytes)
{
	struct stream_reader whole, drips;

	stream_reader_init(&whole, form);
	stream_reader_init(&drips, form);
	stream_reader_feed(&whole, bytes);
	for (size_t i = 0; i < bytes.length; i++)
		stream_reader_feed(&drips, (struct str){ bytes.data + i, 1 });
	assert(whole.tokens_in == drips.tokens_in && whole.tokens_out == drips.tokens_out);
	assert(whole.tokens_in >= 0 && whole.tokens_out >= 0);
	assert(stream_reader_between_events(&whole) == stream_reader_between_events(&drips));
}

/* No line of what we wrote can be taken for a field that we did not mean. */
static void check_lines(struct str written)
{
	while (written.length > 0) {
		struct str line = str_cut(written, '\n', &written);
		assert(!memchr(line.data, '\r', line.length));
		assert(line.length == 0 || str_starts(line, ": ") || str_starts(line, "data: ") ||
		       str_starts(line, "event: "));
	}
}

static void write_events(enum stream_form form, struct str text)
{
	struct api_error error = { .status = 503, .code = "no_room", .message = text };
	struct stream_reader reader;
	struct buf out = BUF_INIT;

	stream_keep_alive(&out, form, text, text);
	api_error_event(&out, API_OPENAI, form, true, &error);
	stream_reader_init(&reader, form);
	stream_reader_feed(&reader, buf_str(&out));
	assert(stream_reader_between_events(&reader));
	if (form == STREAM_SSE || form == STREAM_ANTHROPIC)
		check_lines(buf_str(&out));
	buf_release(&out);
}

static void quote(struct str text)
{
	struct buf out = BUF_INIT;
	json_error_t error;

	json_append_string(&out, text);
	json_t *tree = json_loadb(buf_cstr(&out), buf_length(&out),
	                          JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
	assert(json_is_string(tree));
	json_decref(tree);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };

	for (int form = STREAM_NONE; form <= STREAM_NDJSON; form++) {
		read_in_pieces((enum stream_form)form, bytes);
		if (form != STREAM_NONE)
			write_events((enum stream_form)form, bytes);
	}
	quote(bytes);
	return 0;
}
