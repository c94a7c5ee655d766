/* The contexts that a model may be started with, and which of them a request gets. */
#include "../cmocka_all.h"

#include "app/elastic.h"

static struct elastic four_steps(void)
{
	return (struct elastic){ .count = 4,
		                 .step = { { .context = 4096 }, { .context = 8192 }, { .context = 16384 },
		                           { .context = 32768 } } };
}

static enum fits as_told(void *ctx, uint32_t step)
{
	return ((const enum fits *)ctx)[step];
}

static void each_step_at_least_doubles_and_the_floor_is_one(void **state)
{
	struct conf_model model = { .context_min = 3000 };
	int64_t contexts[ELASTIC_MOST];
	(void)state;

	assert_int_equal(elastic_contexts(&model, 20000, contexts), 3);
	assert_int_equal(contexts[0], 3000);
	assert_int_equal(contexts[1], 10000);
	assert_int_equal(contexts[2], 20000);
	assert_int_equal(elastic_contexts(&model, 3000, contexts), 0); /* there is nothing to choose */
	uint32_t count = elastic_contexts(&model, INT64_C(1) << 40, contexts);
	assert_int_equal(count, ELASTIC_MOST);
	for (uint32_t i = 1; i < count; i++)
		assert_true(contexts[i] >= 2 * contexts[i - 1]);
}

static uint32_t grown_for(const struct elastic *elastic, int64_t prompt, int64_t reply, enum fits *fits)
{
	return elastic_step_to_grow(elastic, &(struct elastic_need){ prompt + reply, prompt }, as_told, fits);
}

static void a_growth_takes_what_is_needed_and_what_is_free_beyond(void **state)
{
	enum fits fits[] = { FITS_NOW, FITS_NOW, FITS_NOW, FITS_AFTER_EVICTION };
	struct elastic elastic = four_steps();
	(void)state;

	assert_int_equal(elastic_step_for(&elastic, 5000), 1);
	assert_int_equal(grown_for(&elastic, 4000, 1000, fits), 2);
	assert_int_equal(grown_for(&elastic, 19000, 1000, fits), 3); /* it needs that: others go */
	fits[3] = FITS_NEVER;
	assert_int_equal(grown_for(&elastic, 19000, 1000, fits), 0); /* it stays as it is: no context holds it */
}

/* The step that would hold prompt and answer can never be had: the prompt is served all the same, and its answer ends there. */
static void a_long_answer_does_not_refuse_a_prompt_that_fits(void **state)
{
	enum fits fits[] = { FITS_NOW, FITS_NOW, FITS_AFTER_EVICTION, FITS_NEVER };
	struct elastic elastic = four_steps();
	(void)state;

	assert_int_equal(grown_for(&elastic, 5000, 16000, fits), 2);
	assert_int_equal(grown_for(&elastic, 100, INT32_MAX, fits), 2);
	assert_int_equal(grown_for(&elastic, 16384, 1, fits), 0); /* no room is left for any answer */
	fits[2] = FITS_NEVER;
	assert_int_equal(grown_for(&elastic, 8000, 16000, fits), 1);
	elastic.now = 1; /* it has what can be had */
	assert_int_equal(grown_for(&elastic, 5000, 16000, fits), 1);
	elastic.now = 2; /* chosen before others were pinned: what is there is not made smaller */
	assert_int_equal(grown_for(&elastic, 5000, 16000, fits), 2);
}

/* A conversation that grows is never interrupted twice, unless memory forbids what it may come to. */
static void where_room_is_plenty_a_growth_goes_to_the_end(void **state)
{
	enum fits fits[] = { FITS_NOW, FITS_NOW, FITS_NOW, FITS_NOW };
	struct elastic elastic = four_steps();
	(void)state;

	assert_int_equal(grown_for(&elastic, 4000, 1000, fits), 3);
	fits[3] = FITS_AFTER_EVICTION; /* for nobody else anything would be left */
	assert_int_equal(grown_for(&elastic, 4000, 100, fits), 2);
}

/* However much could be free: a conversation of 5,000 tokens needs no million that others would have to go for. */
static void a_growth_looks_a_few_times_as_far_as_its_request(void **state)
{
	struct conf_model model = { .context_min = 0 };
	enum fits fits[ELASTIC_MOST] = { FITS_NOW };
	int64_t contexts[ELASTIC_MOST];
	struct elastic elastic = { .count = elastic_contexts(&model, 1 << 20, contexts) };
	uint32_t growths = 0;
	(void)state;

	_Static_assert(FITS_NOW == 0, "all of them find room");
	for (uint32_t i = 0; i < elastic.count; i++)
		elastic.step[i].context = contexts[i];
	fits[elastic.count - 1] = FITS_AFTER_EVICTION; /* but for the last */
	assert_int_equal(contexts[0], ELASTIC_FLOOR);
	assert_int_equal(contexts[grown_for(&elastic, 4000, 1000, fits)], 32768);
	/* It goes on turn by turn: interrupted twice until it has 64 times the first context, and a few times to the end. */
	for (int64_t tokens = 1000; tokens < 1 << 20; tokens += 1000) {
		if (elastic_step_for(&elastic, tokens) <= elastic.now)
			continue;
		uint32_t was = elastic.now;
		elastic.now = grown_for(&elastic, tokens, 0, fits);
		assert_true(contexts[elastic.now] >= 2 * contexts[was]);
		growths++;
		assert_true(growths <= 2 || tokens > 64 * ELASTIC_FLOOR / 2);
	}
	assert_int_equal(growths, 4);
}

static void what_is_not_loaded_is_never_made_too_large_for_the_machine(void **state)
{
	enum fits fits[] = { FITS_NOW, FITS_AFTER_EVICTION, FITS_NOT_NOW, FITS_NEVER };
	struct elastic elastic = four_steps();
	(void)state;

	assert_int_equal(elastic_step_to_load(&elastic, 1, as_told, fits), 1);
	assert_int_equal(elastic_step_to_load(&elastic, 3, as_told, fits), 2);
	elastic.now = 3; /* chosen before others were pinned */
	assert_int_equal(elastic_step_to_load(&elastic, 0, as_told, fits), 2);
	elastic.now = 1; /* chosen for somebody who waits as well */
	assert_int_equal(elastic_step_to_load(&elastic, 0, as_told, fits), 1);
	for (uint32_t i = 0; i < 4; i++)
		fits[i] = FITS_NEVER;
	assert_int_equal(elastic_step_to_load(&elastic, 2, as_told, fits), 0);
}

/* Also how sure it was, and what of it lies beside the model: what an engine said of one context holds for no other. */
static void an_estimate_comes_back_as_it_was_for_its_context(void **state)
{
	const struct estimate formula = { .confidence = 0.4, .base_bytes = 100, .steady_bytes = 110, .peak_bytes = 120,
		                          .host = { .kv_bytes = 30, .total_bytes = 100 },
		                          .host_beside = { .kv_bytes = 10, .total_bytes = 40 },
		                          .device_beside = { .total_bytes = 7 } };
	struct estimate e = formula;
	struct elastic_step step;
	(void)state;

	elastic_keep(&step, 4096, &e);
	e.confidence = 0.95;
	e.host.kv_bytes = e.base_bytes = e.host_beside.kv_bytes = 999;
	e.device_beside = (struct footprint){ 0 };
	elastic_use(&step, &e);
	assert_true(e.confidence == formula.confidence);
	assert_int_equal(e.base_bytes, 100);
	assert_memory_equal(&e.host, &formula.host, sizeof(e.host));
	assert_memory_equal(&e.host_beside, &formula.host_beside, sizeof(e.host_beside));
	assert_memory_equal(&e.device_beside, &formula.device_beside, sizeof(e.device_beside));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_step_at_least_doubles_and_the_floor_is_one),
		cmocka_unit_test(a_growth_takes_what_is_needed_and_what_is_free_beyond),
		cmocka_unit_test(an_estimate_comes_back_as_it_was_for_its_context),
		cmocka_unit_test(a_long_answer_does_not_refuse_a_prompt_that_fits),
		cmocka_unit_test(where_room_is_plenty_a_growth_goes_to_the_end),
		cmocka_unit_test(a_growth_looks_a_few_times_as_far_as_its_request),
		cmocka_unit_test(what_is_not_loaded_is_never_made_too_large_for_the_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
