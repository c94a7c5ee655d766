/*
 * Between the data a chunked body is read byte by byte, by a table of states
 * that each know what may come; data itself is handed out in slices.
 */
#include "http/body.h"

#include <assert.h>

#include "http/token.h"

enum {
	SIZE_DIGITS_MAX = 15,      /* below 2^60: no sum of ours overflows */
	EXTENSION_BYTES_MAX = 256, /* of one chunk */
	TRAILER_BYTES_MAX = 8 * 1024,
};

enum state {
	STATE_DATA, /* with BODY_LENGTH and BODY_UNTIL_CLOSE the only one */
	STATE_SIZE,
	STATE_EXTENSION_NAME,
	STATE_EXTENSION_VALUE,
	STATE_SIZE_LF,
	STATE_DATA_CR,
	STATE_DATA_LF,
	STATE_TRAILER_NAME,
	STATE_TRAILER_VALUE,
	STATE_TRAILER_LF,
	STATE_LAST_LF,
	STATE_DONE,
	STATE_BROKEN,
};

enum body_kind body_kind_of_request(const struct message *request)
{
	if (request->upgrade)
		return BODY_NONE; /* the tunnel begins with the 101, not before */
	if (request->chunked)
		return BODY_CHUNKED;
	return request->content_length > 0 ? BODY_LENGTH : BODY_NONE;
}

enum body_kind body_kind_of_response(const struct message *response, enum method asked)
{
	if (response->status == 101)
		return BODY_TUNNEL;
	if (response->status < 200 || response->status == 204 || response->status == 304 ||
	    asked == METHOD_HEAD)
		return BODY_NONE;
	if (response->chunked)
		return BODY_CHUNKED;
	if (response->content_length < 0)
		return BODY_UNTIL_CLOSE;
	return response->content_length > 0 ? BODY_LENGTH : BODY_NONE;
}

void body_decoder_init(struct body_decoder *decoder, enum body_kind kind, int64_t length)
{
	*decoder = (struct body_decoder){ .kind = kind, .state = STATE_DATA };
	if (kind == BODY_CHUNKED)
		decoder->state = STATE_SIZE;
	if (kind == BODY_LENGTH) {
		assert(length >= 0);
		decoder->left = (uint64_t)length;
	}
	if (kind == BODY_NONE || (kind == BODY_LENGTH && length == 0))
		decoder->state = STATE_DONE;
}

static int broken(struct body_decoder *decoder, const char *fault)
{
	decoder->fault = fault;
	return STATE_BROKEN;
}

static int size_line_end(struct body_decoder *decoder)
{
	decoder->part = 0;
	decoder->overhead = 0;
	return decoder->left > 0 ? STATE_DATA : STATE_TRAILER_NAME;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static int take_size(struct body_decoder *decoder, char c)
{
	int digit = hex_value(c);

	if (digit >= 0) {
		if (++decoder->part > SIZE_DIGITS_MAX)
			return broken(decoder, "an absurd chunk size");
		decoder->left = decoder->left * 16 + (uint64_t)digit;
		return STATE_SIZE;
	}
	if (decoder->part == 0 || (c != '\r' && c != ';'))
		return broken(decoder, "a chunk size that is not hexadecimal");
	decoder->part = 0;
	return c == '\r' ? STATE_SIZE_LF : STATE_EXTENSION_NAME;
}

static int take_extension(struct body_decoder *decoder, char c)
{
	if (++decoder->overhead > EXTENSION_BYTES_MAX)
		return broken(decoder, "a chunk extension that is too long");
	if (is_token_byte(c)) {
		decoder->part++;
		return decoder->state;
	}
	if (decoder->part == 0)
		return broken(decoder, "a chunk extension without a name or value");
	decoder->part = 0;
	if (c == '\r')
		return STATE_SIZE_LF;
	/* Nothing behind a value: llhttp 8 misreads it, and nobody sends it. */
	if (c == ';' && decoder->state == STATE_EXTENSION_NAME)
		return STATE_EXTENSION_NAME;
	if (c == '=' && decoder->state == STATE_EXTENSION_NAME)
		return STATE_EXTENSION_VALUE;
	return broken(decoder, "a malformed chunk extension");
}

static int take_trailer(struct body_decoder *decoder, char c)
{
	if (++decoder->overhead > TRAILER_BYTES_MAX)
		return broken(decoder, "trailers that are too long");
	if (decoder->state == STATE_TRAILER_VALUE) {
		if (c == '\r')
			return STATE_TRAILER_LF;
		bool is_control = ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
		return is_control ? broken(decoder, "a control byte in a trailer")
		                  : STATE_TRAILER_VALUE;
	}
	if (is_token_byte(c)) {
		decoder->part++;
		return STATE_TRAILER_NAME;
	}
	if (c == '\r' && decoder->part == 0)
		return STATE_LAST_LF;
	if (c != ':' || decoder->part == 0)
		return broken(decoder, "a malformed trailer");
	decoder->part = 0;
	return STATE_TRAILER_VALUE;
}

static int take(struct body_decoder *decoder, char c)
{
	switch ((enum state)decoder->state) {
	case STATE_SIZE:
		return take_size(decoder, c);
	case STATE_EXTENSION_NAME:
	case STATE_EXTENSION_VALUE:
		return take_extension(decoder, c);
	case STATE_TRAILER_NAME:
	case STATE_TRAILER_VALUE:
		return take_trailer(decoder, c);
	case STATE_SIZE_LF:
		return c == '\n' ? size_line_end(decoder)
		                 : broken(decoder, "a CR without LF behind a chunk size");
	case STATE_DATA_CR:
		return c == '\r' ? STATE_DATA_LF : broken(decoder, "a chunk longer than its size");
	case STATE_DATA_LF:
		return c == '\n' ? STATE_SIZE : broken(decoder, "a CR without LF behind a chunk");
	case STATE_TRAILER_LF:
		return c == '\n' ? STATE_TRAILER_NAME
		                 : broken(decoder, "a CR without LF behind a trailer");
	case STATE_LAST_LF:
		return c == '\n' ? STATE_DONE
		                 : broken(decoder, "a CR without LF behind the last chunk");
	case STATE_DATA:
	case STATE_DONE:
	case STATE_BROKEN:
		break;
	}
	assert(!"no single byte is taken in this state");
	return STATE_BROKEN;
}

static void take_data(struct body_decoder *decoder, struct str *in, struct str *data)
{
	bool is_bounded = decoder->kind == BODY_LENGTH || decoder->kind == BODY_CHUNKED;
	size_t length = in->length;

	if (is_bounded && length > decoder->left)
		length = (size_t)decoder->left;
	*data = (struct str){ in->data, length };
	*in = (struct str){ in->data + length, in->length - length };
	if (!is_bounded)
		return;
	decoder->left -= length;
	if (decoder->left == 0)
		decoder->state = decoder->kind == BODY_LENGTH ? STATE_DONE : STATE_DATA_CR;
}

enum body_step body_decode(struct body_decoder *decoder, struct str *in, struct str *data)
{
	for (;;) {
		if (decoder->state == STATE_DONE)
			return BODY_END;
		if (decoder->state == STATE_BROKEN)
			return BODY_BROKEN;
		if (in->length == 0)
			return BODY_MORE;
		if (decoder->state == STATE_DATA) {
			take_data(decoder, in, data);
			return BODY_DATA;
		}
		decoder->state = take(decoder, in->data[0]);
		in->data++;
		in->length--;
	}
}

bool body_decoder_may_close(const struct body_decoder *decoder)
{
	return decoder->state == STATE_DONE || decoder->kind == BODY_UNTIL_CLOSE ||
	       decoder->kind == BODY_TUNNEL;
}

const char *body_decoder_fault(const struct body_decoder *decoder)
{
	assert(decoder->state == STATE_BROKEN);
	return decoder->fault;
}

size_t chunk_head(char out[CHUNK_HEAD_MAX], uint64_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	size_t length = 1;

	/* By hand: printf would be a fifth of what a chunk costs. */
	for (uint64_t rest = bytes >> 4; rest; rest >>= 4)
		length++;
	for (size_t i = length; i-- > 0; bytes >>= 4)
		out[i] = digits[bytes & 15];
	out[length++] = '\r';
	out[length++] = '\n';
	return length;
}

void chunk_append(struct buf *out, struct str data)
{
	char head[CHUNK_HEAD_MAX];

	if (data.length == 0)
		return; /* a chunk of size 0 would end the body */
	buf_append(out, head, chunk_head(head, data.length));
	buf_append_str(out, data);
	buf_append_str(out, CHUNK_TAIL);
}
