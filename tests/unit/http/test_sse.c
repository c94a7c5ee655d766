#include "../cmocka_all.h"

#include "http/sse.h"

static struct stream_reader reader;

static void feed(enum stream_form form, const char *text)
{
	stream_reader_init(&reader, form);
	stream_reader_feed(&reader, str_from(text));
}

static bool between(enum stream_form form, const char *text)
{
	feed(form, text);
	return stream_reader_between_events(&reader);
}

static void events_end_with_an_empty_line(void **state)
{
	(void)state;

	assert_true(between(STREAM_SSE, ""));
	assert_false(between(STREAM_SSE, "data: a"));
	assert_false(between(STREAM_SSE, "data: a\n"));
	assert_true(between(STREAM_SSE, "data: a\n\n"));
	assert_false(between(STREAM_SSE, "data: a\r\n"));
	assert_false(between(STREAM_SSE, "data: a\r\n\r"));
	assert_true(between(STREAM_SSE, "data: a\r\n\r\n"));
	assert_true(between(STREAM_SSE, "data: a\r\r"));
	assert_false(between(STREAM_SSE, "data: a\n\ndata: b\n"));
	assert_true(between(STREAM_NDJSON_CHAT, "{}\n"));
	assert_false(between(STREAM_NDJSON_CHAT, "{}\n{"));
	assert_false(between(STREAM_NONE, "{}\n\n"));
}

static void the_last_counts_are_kept(void **state)
{
	(void)state;

	feed(STREAM_SSE,
	     "data: {\"usage\":{\"prompt_tokens\": 12,\"completion_tokens\":3}}\n\n"
	     "data: "
	     "{\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":34,\"total_tokens\":46}}\n\n");
	assert_true(reader.tokens_in == 12 && reader.tokens_out == 34);
	feed(STREAM_ANTHROPIC,
	     "event: message_start\ndata: {\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}\n\n"
	     "event: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n");
	assert_true(reader.tokens_in == 25 && reader.tokens_out == 15);
	feed(STREAM_NDJSON_CHAT, "{\"done\":true,\"prompt_eval_count\":7,\"eval_count\":9}\n");
	assert_true(reader.tokens_in == 7 && reader.tokens_out == 9);
	feed(STREAM_NONE, "{\"tokens_evaluated\":5,\"tokens_predicted\":6}");
	assert_true(reader.tokens_in == 5 && reader.tokens_out == 6);
	feed(STREAM_NONE, "{\"timings\":{\"cache_n\":3,\"prompt_n\":40,\"prompt_ms\":123.4567,\"prompt_per_second\":1.5,"
	                  "\"predicted_ms\":2000.5}}");
	assert_true(reader.prefill_tokens == 40 && reader.prefill_us == 123456 && reader.decode_us == 2000500);
	feed(STREAM_NONE, "{\"prompt_tokens\":7.9,\"prompt_ms\":12,\"predicted_ms\":0.25}");
	assert_true(reader.tokens_in == 7 && reader.prefill_us == 12000 && reader.decode_us == 250);
}

/* Lines are passed over by what all keys have in common: none of them is overlooked. */
static void each_key_counts_in_a_whole_event(void **state)
{
	static const char *const keys[] = { "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens",
		                            "prompt_eval_count", "eval_count", "tokens_evaluated", "tokens_predicted",
		                            "prompt_n", "cache_n", "predicted_n", "prompt_ms", "predicted_ms" };
	char event[128];
	(void)state;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct stream_reader *r = &reader;
		snprintf(event, sizeof(event), "data: {\"finish_reason\":null,\"%s\":7}\n\n", keys[i]);
		feed(STREAM_SSE, event);
		int64_t counted = r->tokens_in + r->tokens_out + r->prefill_tokens + r->cached_tokens +
		                  r->decode_tokens + r->prefill_us / 1000 + r->decode_us / 1000;
		assert_int_equal(counted, 7);
	}
}

static void what_a_model_wrote_is_not_counted(void **state)
{
	(void)state;

	feed(STREAM_SSE, "data: {\"content\":\"\\\"prompt_tokens\\\": 99, \"}\n\n"
	                 "data: {\"content\":\"prompt_tokens\",\"n\":5}\n\n"
	                 "data: {\"\\nprompt_tokens\":8}\n\n"
	                 "data: {\"prompt_tokens\":\"7\"}\n\n");
	assert_true(reader.tokens_in == 0);
}

static void a_stray_quote_does_not_blind_the_reader(void **state)
{
	(void)state;

	feed(STREAM_SSE, ": a 5\" disk, of which this comment is rather long\n\n"
	                 "data: {\"completion_tokens\":5}\n\n");
	assert_true(reader.tokens_out == 5);
}

static void signs_of_life_have_the_form_of_the_stream(void **state)
{
	static const struct {
		enum stream_form form;
		const char *expected;
	} cases[] = {
		{ STREAM_NONE, "" },
		{ STREAM_SSE, ": loading chat,  40 %\n\n" },
		{ STREAM_ANTHROPIC,
		  ": loading chat,  40 %\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n" },
		{ STREAM_NDJSON_CHAT,
		  "{\"model\":\"a\\\"b\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},"
		  "\"done\":false}\n" },
		{ STREAM_NDJSON_GENERATE,
		  "{\"model\":\"a\\\"b\",\"response\":\"\",\"done\":false}\n" },
		{ STREAM_NDJSON, "{\"status\":\"loading chat,\\n 40 %\"}\n" },
	};
	struct buf out = BUF_INIT;
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stream_keep_alive(&out, cases[i].form, STR("a\"b"), STR("loading chat,\n 40 %"));
		assert_string_equal(buf_cstr(&out), cases[i].expected);
		buf_release(&out);
	}
}

static void each_line_of_an_event_is_data(void **state)
{
	struct buf out = BUF_INIT;
	(void)state;

	sse_event(&out, STR("state"), STR("a\nb\rc\n"));
	assert_string_equal(buf_cstr(&out), "event: state\ndata: a\ndata: b c\ndata: \n\n");
	buf_release(&out);
	sse_event(&out, STR(""), STR("x"));
	assert_string_equal(buf_cstr(&out), "data: x\n\n");
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_end_with_an_empty_line),
		cmocka_unit_test(the_last_counts_are_kept),
		cmocka_unit_test(each_key_counts_in_a_whole_event),
		cmocka_unit_test(what_a_model_wrote_is_not_counted),
		cmocka_unit_test(a_stray_quote_does_not_blind_the_reader),
		cmocka_unit_test(signs_of_life_have_the_form_of_the_stream),
		cmocka_unit_test(each_line_of_an_event_is_data),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
