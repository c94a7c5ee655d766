/*
 * A chunked body that we accept is the same body to llhttp, in pieces as whole;
 * and what we encode we decode.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "http/body.h"
#include "reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_what_we_encode(struct str bytes)
{
	struct body_decoder decoder;
	struct buf encoded = BUF_INIT, decoded = BUF_INIT;
	struct str data;

	for (size_t at = 0, step = 1; at < bytes.length; at += step, step = step * 2 + 1) {
		size_t left = bytes.length - at;
		chunk_append(&encoded, (struct str){ bytes.data + at, left < step ? left : step });
	}
	buf_append_str(&encoded, CHUNK_END);
	body_decoder_init(&decoder, BODY_CHUNKED, 0);
	struct str in = buf_str(&encoded);
	enum body_step outcome;
	while ((outcome = body_decode(&decoder, &in, &data)) == BODY_DATA)
		buf_append_str(&decoded, data);
	assert(outcome == BODY_END && in.length == 0);
	assert(str_equal(buf_str(&decoded), bytes));
	buf_release(&encoded);
	buf_release(&decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str bytes = { (const char *)data, size };
	struct reading whole, drips, threes, theirs;
	struct buf stream = BUF_INIT;

	buf_append_str(&stream,
	               STR("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
	buf_append_str(&stream, bytes);
	reading_ours(&whole, buf_str(&stream), HEAD_REQUEST_TCP, SIZE_MAX);
	reading_ours(&drips, buf_str(&stream), HEAD_REQUEST_TCP, 1);
	reading_ours(&threes, buf_str(&stream), HEAD_REQUEST_TCP, 3);
	reading_llhttp(&theirs, buf_str(&stream), HEAD_REQUEST_TCP);
	assert(whole.fault == HEAD_OK);
	assert(reading_equal(&whole, &drips) && reading_equal(&whole, &threes));
	/* Of trailers, which we drop, llhttp refuses some by their names. */
	bool has_trailers = size > 0 && memchr(data, ':', size);
	if (whole.is_complete && (!has_trailers || theirs.fault == HEAD_OK))
		assert(reading_equal(&whole, &theirs));
	reading_release(&whole);
	reading_release(&drips);
	reading_release(&threes);
	reading_release(&theirs);
	buf_release(&stream);
	decode_what_we_encode(bytes);
	return 0;
}
