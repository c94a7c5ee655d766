#include "../cmocka_all.h"

#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "http/body_scan.h"

static struct body_scan scan;

static bool scan_whole(struct str body)
{
	body_scan_init(&scan);
	return body_scan_feed(&scan, body) && body_scan_end(&scan);
}

static bool scan_by_byte(struct str body)
{
	body_scan_init(&scan);
	for (size_t i = 0; i < body.length; i++)
		if (!body_scan_feed(&scan, (struct str){ body.data + i, 1 }))
			return false;
	return body_scan_end(&scan);
}

static void a_picture_s_size_is_text_or_two_numbers(void **state)
{
	static const struct {
		const char *body;
		int64_t width, height;
	} rows[] = {
		{ "{\"size\":\"512x768\"}", 512, 768 },
		{ "{\"width\":64,\"height\":128}", 64, 128 },
		{ "{\"size\":\"1000000000x1000000000\"}", 1000000000, 1000000000 },
		{ "{\"size\":\"99999999999999999999x1\"}", INT32_MAX, 1 },
		{ "{\"width\":99999999999}", INT32_MAX, 0 },
		{ "{\"size\":\"auto\",\"width\":-1,\"height\":1e9}", 0, 0 },
		{ "{\"size\":\"x\",\"width\":\"64\",\"height\":null}", 0, 0 },
		{ "{\"size\":[512,512]}", 0, 0 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(scan_by_byte(str_from(rows[i].body)));
		assert_true(scan.facts.width == rows[i].width && scan.facts.height == rows[i].height);
	}
}

static void facts_of_a_chat_are_found(void **state)
{
	struct str body =
	        STR("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}],\n"
	            " \"max_tokens\": 64, \"model\" : \"org\\/na\\u006de\", \"stream\":true}");
	(void)state;

	for (int by_byte = 0; by_byte < 2; by_byte++) {
		assert_true(by_byte ? scan_by_byte(body) : scan_whole(body));
		assert_true(scan.facts.has_model);
		assert_string_equal(scan.facts.model, "org/name");
		struct str span = { body.data + scan.facts.model_at, scan.facts.model_length };
		assert_true(str_is(span, "\"org\\/na\\u006de\""));
		assert_true(scan.facts.has_stream && scan.facts.stream);
		assert_true(scan.facts.reply_tokens == 64);
		assert_true(scan.facts.prompt_bytes ==
		            strlen("[{\"role\": \"user\", \"content\": \"hi\"}]"));
		assert_int_equal(scan.facts.keep_alive, KEEP_ALIVE_ABSENT);
		assert_true(scan.offset == body.length);
	}
}

static void what_a_prompt_is_made_of(void **state)
{
	static const struct {
		const char *body;
		int64_t tokens, prompts, longest, beside;
		bool countable;
	} rows[] = {
		{ "{\"prompt\":\"abc\"}", -1, 1, 5, 0, true },
		{ "{\"prompt\":[1, 22,333]}", 3, 1, 11, 0, true },
		{ "{\"prompt\":[\"ab\",7,\"c\"]}", -1, 1, 12, 2, true },         /* one, of both */
		{ "{\"prompt\":[\"ab\", \"cdef\"]}", -1, 2, 6, 2, true },        /* two */
		{ "{\"prompt\":[[1,2],[3,4,5] ]}", 5, 2, 7, 0, false },
		{ "{\"prompt\":[[1,\"a\"],\"b\"]}", -1, 2, 7, 2, false },
		{ "{\"prompt\":{\"prompt_string\":\"x\",\"multimodal_data\":[\"y\"]}}", -1, 1, 45, 2, false },
		{ "{\"prompt\":[]}", -1, 1, 2, 0, true },
		{ "{\"prompt\":null}", -1, 1, 4, 4, false },
		{ "{\"input_suffix\":\"b\",\"input_prefix\":\"a\",\"prompt\":\"\",\"input_extra\":[{\"text\":\"x\"}]}", -1, 1, 22,
		  14, true },
		{ "{\"messages\":[{\"content\":[1,2]}]}", -1, 1, 19, 19, false },
		{ "{\"prompt\":[1,2],\"suffix\":\"abcd\"}", 8, 1, 11, 6, true },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct body_facts *facts = &scan.facts;
		assert_true(i % 2 ? scan_by_byte(str_from(rows[i].body)) : scan_whole(str_from(rows[i].body)));
		assert_int_equal(body_facts_tokens(facts), rows[i].tokens);
		assert_int_equal(body_facts_prompts(facts), rows[i].prompts);
		assert_int_equal(body_facts_longest_bytes(facts), rows[i].longest);
		assert_int_equal(body_facts_countable(facts), rows[i].countable);
		if (facts->texts || !rows[i].countable)
			assert_int_equal(body_facts_beside(facts), rows[i].beside);
	}
	assert_true(scan_whole(STR("{\"input_suffix\":\"b\",\"prompt\" : [ 1 ] }")));
	assert_int_equal(scan.facts.texts, 2);
	assert_true(scan.facts.text[0].at == 16 && scan.facts.text[0].length == 3 && !scan.facts.text[0].is_list);
	assert_true(scan.facts.text[1].at == 31 && scan.facts.text[1].length == 5 && scan.facts.text[1].is_list);
}

static void only_the_top_level_counts(void **state)
{
	(void)state;

	assert_true(scan_whole(STR("{\"x\":{\"model\":\"a\",\"stream\":true,\"max_tokens\":1},"
	                           "\"y\":[{\"model\":\"b\"}]}")));
	assert_false(scan.facts.has_model);
	assert_false(scan.facts.has_stream);
	assert_true(scan.facts.reply_tokens == -1);
}

static void the_largest_reply_counts(void **state)
{
	(void)state;

	assert_true(scan_whole(STR("{\"max_tokens\":5,\"max_completion_tokens\":9,\"num_predict\":"
	                           "7,\"n_predict\":-1}")));
	assert_true(scan.facts.reply_tokens == 9);
	assert_true(scan_whole(STR("{\"options\":{\"x\":[1],\"num_predict\":7}}")));
	assert_true(scan.facts.reply_tokens == 7);
	assert_true(scan_whole(STR("{\"max_tokens\":99999999999999999999}")));
	assert_true(scan.facts.reply_tokens == INT32_MAX);
	assert_true(
	        scan_whole(STR("{\"max_tokens\":1.5,\"n_predict\":null,\"num_predict\":\"3\"}")));
	assert_true(scan.facts.reply_tokens == -1);
}

static void keep_alive_of_zero_is_a_wish_to_unload(void **state)
{
	static const struct {
		const char *body;
		enum keep_alive_wish wish;
	} cases[] = {
		{ "{\"keep_alive\":0}", KEEP_ALIVE_ZERO },
		{ "{\"keep_alive\":\"0\"}", KEEP_ALIVE_ZERO },
		{ "{\"keep_alive\":\"0m0s\"}", KEEP_ALIVE_ZERO },
		{ "{\"keep_alive\":-1}", KEEP_ALIVE_SET },
		{ "{\"keep_alive\":\"5m\"}", KEEP_ALIVE_SET },
		{ "{\"keep_alive\":\"\"}", KEEP_ALIVE_SET },
		{ "{\"keep_alive\":null}", KEEP_ALIVE_ABSENT },
		{ "{\"keep_alive\":[0]}", KEEP_ALIVE_SET },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(scan_whole(str_from(cases[i].body)));
		assert_int_equal(scan.facts.keep_alive, cases[i].wish);
	}
}

static void expect_fault(const char *body, const char *expected)
{
	char text[BODY_SCAN_TEXT];

	for (int by_byte = 0; by_byte < 2; by_byte++) {
		assert_false(by_byte ? scan_by_byte(str_from(body)) : scan_whole(str_from(body)));
		assert_string_equal(body_scan_explain(&scan, text), expected);
	}
}

static void a_fault_says_what_and_where(void **state)
{
	(void)state;

	expect_fault("{\"a\" 1}", "expected ':' at line 1, column 6 (byte 5)");
	expect_fault("{\n  \"a\": 1\n  \"b\": 2}",
	             "expected ',' or '}' at line 3, column 3 (byte 13)");
	expect_fault("[]", "expected an object at line 1, column 1 (byte 0)");
	expect_fault("", "expected an object at line 1, column 1 (byte 0)");
	expect_fault("{\"a\":", "the body ends too early at line 1, column 6 (byte 5)");
	expect_fault("{} {}", "something follows the object at line 1, column 4 (byte 3)");
	expect_fault("{\"a\":\"\xc0\xaf\"}", "not UTF-8 at line 1, column 7 (byte 6)");
	expect_fault("{\"a\":\"\xed\xa0\x80\"}", "not UTF-8 at line 1, column 8 (byte 7)");
	expect_fault("{\"a\":\"\\ud800x\"}",
	             "half of a surrogate pair at line 1, column 13 (byte 12)");
	expect_fault("{\"a\":tru}", "expected true, false or null at line 1, column 9 (byte 8)");
	expect_fault("{\"a\":01}", "expected ',' or '}' at line 1, column 7 (byte 6)");
	expect_fault("{\"a\":1.}", "expected a digit at line 1, column 8 (byte 7)");
	expect_fault("{\"a\":[1,]}", "expected a value at line 1, column 9 (byte 8)");
	expect_fault("{\"a\":\"\n\"}", "a control byte in a string at line 1, column 7 (byte 6)");
}

static void a_byte_order_mark_is_overlooked(void **state)
{
	(void)state;

	assert_true(scan_whole(STR("\xEF\xBB\xBF{\"model\":\"a\"}")));
	assert_true(scan_by_byte(STR("\xEF\xBB\xBF {\"model\":\"a\"}")));
	assert_string_equal(scan.facts.model, "a");
	assert_int_equal(scan.facts.model_at, 13);
	expect_fault("\xEF\xBB{}", "expected an object at line 1, column 3 (byte 2)");
	expect_fault("\xEF\xBB\xBF", "expected an object at line 1, column 4 (byte 3)");
	expect_fault(" \xEF\xBB\xBF{}", "expected an object at line 1, column 2 (byte 1)");
}

static void a_name_that_two_readers_may_read_differently_is_refused(void **state)
{
	(void)state;

	expect_fault("{\"model\":\"a\",\"mod\\u0065l\":\"b\"}",
	             "this key comes twice at line 1, column 25 (byte 24)");
	expect_fault("{\"model\":7}", "\"model\" must be a string at line 1, column 11 (byte 10)");
	expect_fault("{\"model\":\"a\\u0000b\"}",
	             "a NUL in the model's name at line 1, column 19 (byte 18)");
	assert_true(scan_whole(STR("{\"x\":1,\"x\":2,\"model\":null}")));
	assert_false(scan.facts.has_model);
}

static bool scan_name_of(size_t length)
{
	struct buf body = BUF_INIT;

	buf_append_str(&body, STR("{\"model\":\""));
	for (size_t i = 0; i < length; i++)
		buf_append_char(&body, 'm');
	buf_append_str(&body, STR("\"}"));
	bool is_good = scan_whole(buf_str(&body)) && strlen(scan.facts.model) == length;
	buf_release(&body);
	return is_good;
}

static bool scan_depth_of(size_t depth)
{
	struct buf body = BUF_INIT;

	buf_append_str(&body, STR("{\"a\":"));
	for (size_t i = 1; i < depth; i++)
		buf_append_char(&body, '[');
	for (size_t i = 1; i < depth; i++)
		buf_append_char(&body, ']');
	buf_append_char(&body, '}');
	bool is_good = depth > 1 && scan_whole(buf_str(&body));
	buf_release(&body);
	return is_good;
}

static void limits_are_exact(void **state)
{
	(void)state;

	assert_true(scan_name_of(BODY_MODEL_MAX));
	assert_false(scan_name_of(BODY_MODEL_MAX + 1));
	assert_true(scan_depth_of(BODY_SCAN_DEPTH_MAX));
	assert_false(scan_depth_of(BODY_SCAN_DEPTH_MAX + 1));
}

static void strings_are_skipped_at_every_alignment(void **state)
{
	char body[64];
	(void)state;

	for (size_t lead = 0; lead < 17; lead++)
		for (size_t tail = 0; tail < 17; tail++) {
			int length = snprintf(body, sizeof(body), "{\"a\":\"%.*s\\n%.*s\xc3\xa4\"}",
			                      (int)lead, "xxxxxxxxxxxxxxxxx", (int)tail,
			                      "yyyyyyyyyyyyyyyyy");
			assert_true(scan_whole((struct str){ body, (size_t)length }));
			body[6 + lead] = '\x1f';
			assert_false(scan_whole((struct str){ body, (size_t)length }));
		}
}

static void a_large_body_in_small_pieces_takes_time_by_its_size(void **state)
{
	static char piece[1024];
	(void)state;

	memset(piece, 'A', sizeof(piece));
	body_scan_init(&scan);
	assert_true(body_scan_feed(&scan, STR("{\"messages\":\"")));
	clock_t begun = clock();
	for (int i = 0; i < 16 * 1024; i++)
		assert_true(body_scan_feed(&scan, (struct str){ piece, sizeof(piece) }));
	/* 16 MiB: about 10 ms; quadratic would be hours, and a sanitizer is slow. */
	assert_true(clock() - begun < 5 * CLOCKS_PER_SEC);
	assert_true(body_scan_feed(&scan, STR("\",\"model\":\"m\"}")));
	assert_true(body_scan_end(&scan));
	assert_true(scan.facts.prompt_bytes == 16 * 1024 * 1024 + 2);
}

static uint64_t conversation_of(const char *body)
{
	assert_true(scan_by_byte(str_from(body)));
	uint64_t by_byte = scan.facts.conversation;
	assert_true(scan_whole(str_from(body)));
	assert_true(scan.facts.conversation == by_byte);
	return by_byte;
}

#define SYSTEM "{\"role\":\"system\",\"content\":\"Be brief.\"},"
#define USER(text) "{\"content\":\"" text "\",\"role\":\"user\"}"
#define SAID ",{\"role\":\"assistant\",\"content\":\"Yes.\"}," USER("And then?")

static void a_conversation_is_known_by_how_it_begins(void **state)
{
	uint64_t first = conversation_of("{\"messages\":[" SYSTEM USER("Hello") "]}");
	(void)state;

	assert_true(first != 0);
	assert_true(conversation_of("{\"model\":\"m\", \"messages\" : [" SYSTEM USER("H\\u0065llo") SAID "]}") == first);
	assert_true(conversation_of("{\"messages\":[" SYSTEM USER("Hallo") SAID "]}") != first);
	assert_true(conversation_of("{\"messages\":[" USER("Hello") SAID "]}") != first);
	/* The system's text beside the messages counts, wherever it stands. */
	uint64_t apart = conversation_of("{\"system\":\"Be brief.\",\"messages\":[" USER("Hello") "]}");
	assert_true(conversation_of("{\"messages\":[" USER("Hello") SAID "],\"system\":\"Be brief.\"}") == apart);
	assert_true(conversation_of("{\"messages\":[" USER("Hello") "],\"system\":\"Be long.\"}") != apart);
	/* Parts of a message, and a text alone. */
	uint64_t parts = conversation_of("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]}");
	assert_true(conversation_of("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}" SAID "]}") == parts);
	assert_true(conversation_of("{\"prompt\":\"Once\"}") != conversation_of("{\"prompt\":\"Twice\"}"));
	assert_true(conversation_of("{\"model\":\"m\",\"tools\":[\"x\"],\"messages\":[]}") == 0);
	assert_true(conversation_of("{\"messages\":[{\"role\":{\"role\":\"user\"},\"role\":7,\"content\":\"a\"}]}") != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_of_a_chat_are_found),
		cmocka_unit_test(what_a_prompt_is_made_of),
		cmocka_unit_test(only_the_top_level_counts),
		cmocka_unit_test(the_largest_reply_counts),
		cmocka_unit_test(keep_alive_of_zero_is_a_wish_to_unload),
		cmocka_unit_test(a_fault_says_what_and_where),
		cmocka_unit_test(a_byte_order_mark_is_overlooked),
		cmocka_unit_test(a_name_that_two_readers_may_read_differently_is_refused),
		cmocka_unit_test(limits_are_exact),
		cmocka_unit_test(strings_are_skipped_at_every_alignment),
		cmocka_unit_test(a_picture_s_size_is_text_or_two_numbers),
		cmocka_unit_test(a_conversation_is_known_by_how_it_begins),
		cmocka_unit_test(a_large_body_in_small_pieces_takes_time_by_its_size),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
