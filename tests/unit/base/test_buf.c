#include "../cmocka_all.h"

#include <string.h>

#include "base/buf.h"

static void bytes_come_out_in_order(void **state)
{
	struct buf buf = BUF_INIT;
	char out[10000];
	size_t taken = 0;
	(void)state;

	for (int i = 0; i < 10000; i++) {
		buf_append_char(&buf, (char)(i % 251));
		if (i % 3 == 0) {
			out[taken++] = buf_str(&buf).data[0];
			buf_consume(&buf, 1);
		}
	}
	while (buf_length(&buf)) {
		out[taken++] = buf_str(&buf).data[0];
		buf_consume(&buf, 1);
	}
	assert_int_equal(taken, 10000);
	for (int i = 0; i < 10000; i++)
		assert_int_equal((unsigned char)out[i], i % 251);
	assert_int_equal(buf.start, 0);
	buf_release(&buf);
	assert_null(buf.data);
}

static void a_stream_that_keeps_pace_does_not_grow(void **state)
{
	struct buf buf = BUF_INIT;
	char chunk[100];
	(void)state;

	memset(chunk, 'x', sizeof(chunk));
	for (int i = 0; i < 1000; i++) {
		buf_append(&buf, chunk, sizeof(chunk));
		buf_consume(&buf, sizeof(chunk));
	}
	assert_true(buf.capacity <= 256);
	buf_release(&buf);
}

static void text_is_printed_and_terminated(void **state)
{
	struct buf buf = BUF_INIT;
	(void)state;

	assert_string_equal(buf_cstr(&buf), "");
	buf_printf(&buf, "%d-%s", 42, "abc");
	assert_string_equal(buf_cstr(&buf), "42-abc");
	assert_int_equal(buf_length(&buf), 6);
	buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_out_in_order),
		cmocka_unit_test(a_stream_that_keeps_pace_does_not_grow),
		cmocka_unit_test(text_is_printed_and_terminated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
