/* What the tokens of a conversation take in a cache that follows use. */
#include "../cmocka_all.h"

#include <string.h>

#include "engine/kv_shape.h"
#include "models.h"

enum { TOKEN = 1024, LAYERS = 4, CONTEXT = 4096, PAGES = 2 * LAYERS * 4096 };

static void shape(const char *settings, int64_t window, int64_t checkpoints, struct kv_shape *out)
{
	struct estimate e = { .layers = LAYERS, .kv_bytes_per_token = TOKEN };
	char yaml[300];

	snprintf(yaml, sizeof(yaml), "models: {a: {engine: llama-server, file: /m/a.gguf, slots: 2, %s}}\n", settings);
	struct conf *conf = conf_from(yaml);
	e.host.kv_bytes = 2 * ((int64_t)CONTEXT * TOKEN + window);
	e.per_request_bytes = e.host.kv_bytes / 2 + checkpoints;
	kv_shape_of(&conf->models[0], &e, CONTEXT, out);
	conf_free(conf);
}

static void tokens_cost_by_the_token(void **state)
{
	struct kv_shape s;
	(void)state;

	shape("weight: 1", 0, 0, &s);
	assert_int_equal(kv_shape_bytes(&s, 0), 0);
	assert_int_equal(kv_shape_bytes(&s, -5), 0);
	assert_int_equal(kv_shape_bytes(&s, 1), TOKEN + PAGES); /* and every layer's begun page */
	assert_int_equal(kv_shape_bytes(&s, 100) - kv_shape_bytes(&s, 99), TOKEN);
	assert_int_equal(s.beside_bytes, 0);
}

static void never_more_than_the_whole_slot(void **state)
{
	struct kv_shape s;
	int64_t before = 0;
	(void)state;

	shape("weight: 1", 0, 0, &s);
	for (int64_t tokens = 1; tokens < 3 * CONTEXT; tokens += 37) {
		int64_t bytes = kv_shape_bytes(&s, tokens);
		assert_true(bytes >= before && bytes <= (int64_t)CONTEXT * TOKEN);
		before = bytes;
	}
	assert_int_equal(kv_shape_bytes(&s, CONTEXT), (int64_t)CONTEXT * TOKEN);
	assert_int_equal(kv_shape_bytes(&s, INT64_MAX), (int64_t)CONTEXT * TOKEN);
}

static void windows_and_checkpoints_come_with_the_first_token(void **state)
{
	struct kv_shape plain, s;
	(void)state;

	shape("weight: 1", 0, 0, &plain);
	shape("weight: 1", 5 << 20, 3 << 20, &s);
	assert_int_equal(kv_shape_bytes(&s, 1), kv_shape_bytes(&plain, 1) + (8 << 20));
	assert_int_equal(s.beside_bytes, 3 << 20);
	assert_int_equal(s.full_bytes, plain.full_bytes + (8 << 20));
}

/* V lies transposed: a page of a row is 2,048 tokens. */
static void without_flash_attention_it_comes_in_steps(void **state)
{
	struct kv_shape s;
	(void)state;

	shape("args: \"-fa off\"", 0, 0, &s);
	assert_int_equal(s.step_tokens, 2048);
	assert_int_equal(kv_shape_bytes(&s, 1), 2048 * TOKEN + PAGES);
	assert_int_equal(kv_shape_bytes(&s, 2048), kv_shape_bytes(&s, 1));
	assert_int_equal(kv_shape_bytes(&s, 2049), (int64_t)CONTEXT * TOKEN);
}

/* A model that keeps nothing by the token (recurrent) takes what its first takes. */
static void no_cache_by_the_token(void **state)
{
	struct kv_shape s = { .first_bytes = 70, .full_bytes = 50, .step_tokens = 1 };
	(void)state;

	assert_int_equal(kv_shape_bytes(&s, 1), 50);
	assert_int_equal(kv_shape_bytes(&s, 1000000), 50);
	memset(&s, 0, sizeof(s));
	s.step_tokens = 1;
	assert_int_equal(kv_shape_bytes(&s, 7), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_cost_by_the_token),
		cmocka_unit_test(never_more_than_the_whole_slot),
		cmocka_unit_test(windows_and_checkpoints_come_with_the_first_token),
		cmocka_unit_test(without_flash_attention_it_comes_in_steps),
		cmocka_unit_test(no_cache_by_the_token),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
