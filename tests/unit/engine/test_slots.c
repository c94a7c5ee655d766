/* What an engine tells of its slots and the preload library of its pages; also where it is wrong. */
#include "../cmocka_all.h"

#include <string.h>

#include "engine/slots.h"
#include "lazy/lazy.h"

#define MIB (INT64_C(1) << 20)

static bool parse(const char *text, struct slots_told *out)
{
	memset(out, 0xa5, sizeof(*out));
	return slots_parse(str_from(text), out);
}

static void slots_are_read(void **state)
{
	struct slots_told told;
	(void)state;

	assert_true(parse("[{\"id\":0,\"id_task\":7,\"n_ctx\":4096,\"is_processing\":false,\"n_prompt_tokens\":120},\n"
	                  " {\"id\": 1, \"id_task\": -1, \"is_processing\": true, \"n_prompt_tokens\": 0}]", &told));
	assert_int_equal(told.count, 2);
	assert_int_equal(told.slot[0].id, 0);
	assert_int_equal(told.slot[0].task, 7);
	assert_int_equal(told.slot[0].tokens, 120);
	assert_false(told.slot[0].busy);
	assert_int_equal(told.slot[1].task, -1);
	assert_true(told.slot[1].busy);
	assert_int_equal(told.slot[1].tokens, 0);
}

/* A prompt that looks like numbers of the slot is a text inside, and deeper objects have their own. */
static void a_prompt_cannot_pass_for_a_number(void **state)
{
	struct slots_told told;
	(void)state;

	assert_true(parse("[{\"id\":3,\"prompt\":\"\\\"n_prompt_tokens\\\":999, \\\"id\\\":5}\",\"n_prompt_tokens\":4,"
	                  "\"params\":{\"n_prompt_tokens\":77,\"id\":9},\"next\":[{\"is_processing\":true}]}]", &told));
	assert_int_equal(told.count, 1);
	assert_int_equal(told.slot[0].id, 3);
	assert_int_equal(told.slot[0].tokens, 4);
	assert_false(told.slot[0].busy);
}

static void what_is_no_list_of_slots_is_refused(void **state)
{
	static const char *const bodies[] = {
		"", "[]", "{}", "null", "[{}]", "{\"error\":{\"code\":501}}", "[{\"n_prompt_tokens\":4,\"id\":0}]",
		"[{\"id\":-1}]", "[{\"id\":70000}]", "[{\"id\":\"0\"}]", "[{\"id", "[{\"id\"", "[{\"id\":",
		"[{\"id\":99999999999999999999}]", "[\"\\", "[{\"x\\",
	};
	struct slots_told told;
	(void)state;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
		if (parse(bodies[i], &told))
			fail_msg("taken: %s", bodies[i]);
}

static void numbers_beyond_sense_count_as_none(void **state)
{
	struct slots_told told;
	(void)state;

	assert_true(parse("[{\"id\":0,\"n_prompt_tokens\":9223372036854775807}]", &told));
	assert_int_equal(told.slot[0].tokens, 0);
	assert_true(parse("[{\"id\":0,\"n_prompt_tokens\":-5,\"id_task\":1e9}]", &told));
	assert_int_equal(told.slot[0].tokens, 0);
	assert_int_equal(told.slot[0].task, 1);
}

static void more_slots_than_there_is_room_for(void **state)
{
	char body[SLOTS_TOLD_MAX * 16 + 64] = "[";
	struct slots_told told;
	(void)state;

	for (int i = 0; i < SLOTS_TOLD_MAX; i++)
		snprintf(body + strlen(body), sizeof(body) - strlen(body), "%s{\"id\":%d}", i ? "," : "", i);
	size_t length = strlen(body);
	snprintf(body + length, sizeof(body) - length, "]");
	assert_true(parse(body, &told));
	assert_int_equal(told.count, SLOTS_TOLD_MAX);
	snprintf(body + length, sizeof(body) - length, ",{\"id\":9}]");
	assert_false(parse(body, &told));
}

/* Cut anywhere: an answer, never a read beyond it. */
static void a_body_cut_anywhere(void **state)
{
	static const char body[] = "[{\"id\":0,\"prompt\":\"a\\\"b\",\"id_task\":7,\"is_processing\":true,\"n_prompt_tokens\":12}]";
	struct slots_told told;
	(void)state;

	for (size_t length = 0; length < sizeof(body); length++) {
		char *cut = test_malloc(length ? length : 1); /* exact, so that a sanitizer sees */
		memcpy(cut, body, length);
		slots_parse((struct str){ cut, length }, &told);
		test_free(cut);
	}
}

static void the_library_s_word(void **state)
{
	struct lazy_told told;
	(void)state;

	assert_true(lazy_parse(STR("{\"library\": \"cotenant-lazy\", \"reached\": true, \"buffers\": 2, "
	                           "\"reserved_bytes\": 4294967296, \"resident_bytes\": 8192}"), &told));
	assert_true(told.reached);
	assert_int_equal(told.reserved_bytes, INT64_C(4294967296));
	assert_int_equal(told.resident_bytes, 8192);
	assert_true(lazy_parse(STR("{\"reached\": false, \"reserved_bytes\": 0, \"resident_bytes\": 0}"), &told));
	assert_false(told.reached);
	assert_false(lazy_parse(STR("{\"reached\": true, \"reserved_bytes\": 5}"), &told));
	assert_false(lazy_parse(STR(""), &told));
	assert_int_equal(json_number(STR("{\"a\":{\"b\":3},\"b\":4}"), "b"), 4);
	assert_int_equal(json_number(STR("{\"a\":{\"b\":3}}"), "b"), -1);
}

static void a_refusal_for_its_length_is_known(void **state)
{
	const char *text = "{\"error\":{\"code\":400,\"message\":\"too long\",\"type\":\"exceed_context_size_error\","
			   "\"n_prompt_tokens\":2007,\"n_ctx\":256}}";
	(void)state;

	assert_int_equal(exceeded_tokens(str_from(text)), 2007);
	for (size_t cut = 0; cut + 2 < strlen(text); cut++)
		assert_in_range(exceeded_tokens((struct str){ text, cut }) + 1, 0, 2008);
	assert_int_equal(exceeded_tokens(STR("{\"error\":{\"type\":\"invalid_request_error\",\"n_prompt_tokens\":7}}")), -1);
	/* Said by a client and quoted: no word of the engine's. */
	assert_int_equal(exceeded_tokens(STR("{\"error\":{\"message\":\"\\\"type\\\":\\\"exceed_context_size_error\\\"\","
	                                     "\"n_prompt_tokens\":7}}")), -1);
	assert_int_equal(exceeded_tokens(STR("")), -1);
}

static void the_context_is_found_in_what_props_tells(void **state)
{
	struct str body = STR("{\"default_generation_settings\":{\"params\":{\"n_ctx\":1},\"n_ctx\":512},\"n_ctx\":2,"
	                      "\"chat_template\":\"\\\"n_ctx\\\":3\"}");
	struct str digits = props_context(body);
	(void)state;

	assert_true(str_is(digits, "512"));
	for (size_t cut = 0; cut < body.length; cut++)
		assert_true(props_context((struct str){ body.data, cut }).length <= 3);
	assert_int_equal(props_context(STR("{\"other\":{\"n_ctx\":4}}")).length, 0);
	assert_int_equal(props_context(STR("")).length, 0);
}

static void small_caches_are_no_failure_of_the_library(void **state)
{
	struct lazy_told told = { .reached = true };
	(void)state;

	assert_true(lazy_took_effect(&told, 512 << 10)); /* a short context: left to the engine */
	assert_true(lazy_took_effect(&told, 0));
	assert_false(lazy_took_effect(&told, 64 * MIB));
	told.reserved_bytes = 64 * MIB;
	assert_true(lazy_took_effect(&told, 64 * MIB));
	assert_true(lazy_took_effect(&told, 66 * MIB)); /* the windows' small buffer beside it */
	assert_false(lazy_took_effect(&told, 128 * MIB));
	told.reached = false;
	assert_false(lazy_took_effect(&told, 512 << 10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_read),
		cmocka_unit_test(a_prompt_cannot_pass_for_a_number),
		cmocka_unit_test(what_is_no_list_of_slots_is_refused),
		cmocka_unit_test(numbers_beyond_sense_count_as_none),
		cmocka_unit_test(more_slots_than_there_is_room_for),
		cmocka_unit_test(a_body_cut_anywhere),
		cmocka_unit_test(the_library_s_word),
		cmocka_unit_test(a_refusal_for_its_length_is_known),
		cmocka_unit_test(the_context_is_found_in_what_props_tells),
		cmocka_unit_test(small_caches_are_no_failure_of_the_library),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
