#include "../cmocka_all.h"

#include "gateway/side.h"

#define OWN(text) (char[]){ text }

static struct conf_side rules[] = {
	{ .name = OWN("titles"), .says = { (char *[]){ OWN("concise*title"), OWN("*Title generator") }, 2 },
	  .prompt_max_bytes = 200 },
	{ .name = OWN("small"), .prompt_max_bytes = 100, .max_tokens = 16 },
};
static const struct conf conf = { .sides = rules, .side_count = 2 };

static const char *rule_of(const char *body, uint64_t prompt_bytes, int64_t reply_tokens)
{
	struct side_ask ask = { str_from(body), prompt_bytes, reply_tokens };
	const struct conf_side *side = side_find(&conf, &ask);

	return side ? side->name : "none";
}

static void a_rule_holds_where_all_it_says_is_so(void **state)
{
	(void)state;

	assert_string_equal(rule_of("Generate a CONCISE, 3-5 word title.", 50, -1), "titles");
	assert_string_equal(rule_of("You are a title generator", 50, 4000), "titles");
	assert_string_equal(rule_of("title generator", 200, -1), "titles");
	assert_string_equal(rule_of("title generator", 201, -1), "none");
	assert_string_equal(rule_of("Tell me of the title", 50, -1), "none");
	assert_string_equal(rule_of("Tell me of the title", 50, 16), "small");
	assert_string_equal(rule_of("Tell me of the title", 50, 17), "none");
	assert_string_equal(rule_of("Tell me of the title", 101, 16), "none");
	assert_string_equal(rule_of("concise title", 50, 16), "titles");
	assert_string_equal(rule_of("", 1, -1), "none");
}

static void what_a_star_spans_is_bounded(void **state)
{
	char body[200];
	(void)state;

	for (int gap = 55; gap < 66; gap++) {
		snprintf(body, sizeof(body), "concise concise%*stitle", gap, "");
		assert_string_equal(rule_of(body, 50, -1), gap <= SIDE_GAP_MAX ? "titles" : "none");
	}
	assert_string_equal(rule_of("so concise", 50, -1), "none");
	assert_string_equal(rule_of("a conciseconcise tit concise titl title", 50, -1), "titles");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rule_holds_where_all_it_says_is_so),
		cmocka_unit_test(what_a_star_spans_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
