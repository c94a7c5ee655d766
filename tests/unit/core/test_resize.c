/* The same model with another context: started anew, with its claim, and nobody cut for it. */
#include "rig.h"

#include <stdio.h>

enum { A, B };

static uint32_t context_of(struct rig *rig, uint32_t model)
{
	return rig_view(rig, model).context_tokens;
}

static void resize(struct rig *rig, uint32_t model, int64_t gib, uint32_t context, uint32_t flags)
{
	struct event event = { .type = EVENT_MODEL };
	struct model_spec *spec = rig_spec(rig, model, gib);

	spec->context_tokens = context;
	event.model.model = model;
	event.model.spec = *spec;
	event.model.spec.flags |= MODEL_RESIZE | flags;
	rig_step(rig, &event);
}

static void add(struct rig *rig, uint32_t model, int64_t gib, uint32_t context)
{
	struct model_spec *spec = rig_spec(rig, model, gib);

	spec->context_tokens = context;
	spec->slots = 2;
	rig_model(rig, model);
}

static void serve(struct rig *rig, uint32_t model)
{
	uint32_t request = rig_once(rig, model);
	char words[64];

	rig_measure(rig, model, (double)rig_view(rig, model).base_bytes / (double)GIB, true, false);
	rig_sample(rig, 0);
	snprintf(words, sizeof(words), "spawn %c, dispatch %u %c", 'a' + (int)model, request, 'a' + (int)model);
	rig_expect(rig, words);
}

/* a takes 4 of 20 GiB with a context of 1000, has served request 1 and is idle. */
static void open_with_one(struct rig *rig)
{
	rig_open(rig, 20);
	add(rig, A, 4, 1000);
	serve(rig, A);
}

static void test_it_comes_back_larger_and_the_room_is_its_own_meanwhile(void **state)
{
	struct rig rig;
	(void)state;

	open_with_one(&rig);
	rig_add(&rig, B, 10);
	resize(&rig, A, 12, 8000, 0);
	rig_expect(&rig, "stop a");
	assert_int_equal(rig_view(&rig, A).state, MODEL_RESIZING);
	assert_int_equal(rig_view(&rig, A).claim_bytes, 12 * GIB); /* the larger of both, from the decision on */
	uint32_t other = rig_ask(&rig, B);
	uint32_t mine = rig_ask(&rig, A);
	rig_expect(&rig, "");
	rig_gone(&rig, A);
	rig_expect(&rig, "spawn a"); /* b came first, and would fit into what a gave back */
	rig_load(&rig, A);
	assert_int_equal(context_of(&rig, A), 8000);
	assert_int_equal(rig_view(&rig, A).growths, 1);
	(void)other;
	rig_finish(&rig, mine);
	rig_close(&rig);
}

static void test_what_runs_is_not_cut_for_it(void **state)
{
	struct rig rig;
	(void)state;

	open_with_one(&rig);
	rig.spec[A].drain_timeout_us = 5 * SEC;
	rig_model(&rig, A);
	uint32_t long_one = rig_ask(&rig, A);
	rig_expect(&rig, "dispatch 2 a");
	resize(&rig, A, 6, 2000, 0);
	rig_ask(&rig, A);
	rig_wait(&rig, 600);
	rig_expect(&rig, ""); /* it takes nothing new, and waits */
	rig_finish(&rig, long_one);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, A);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_expect(&rig, "dispatch 3 a");
	assert_true(rig_view(&rig, A).growths_us >= 600 * SEC);
	rig_close(&rig);
}

static void test_one_that_still_loads_begins_anew(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	add(&rig, A, 4, 1000);
	rig_ask(&rig, A);
	rig_spawned(&rig, A);
	rig_expect(&rig, "spawn a");
	resize(&rig, A, 6, 2000, 0);
	rig_expect(&rig, "abort a");
	rig_gone(&rig, A);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_expect(&rig, "dispatch 1 a");
	assert_int_equal(rig_view(&rig, A).failures, 0);
	rig_close(&rig);
}

static void test_a_smaller_one_waits_for_the_next_load(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	add(&rig, A, 6, 2000);
	serve(&rig, A);
	resize(&rig, A, 4, 1000, 0);
	rig_expect(&rig, "");
	assert_int_equal(context_of(&rig, A), 2000);
	rig_close(&rig);
}

static void test_others_go_for_it_where_it_must_be(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	add(&rig, A, 4, 1000);
	rig_add(&rig, B, 10);
	serve(&rig, B);
	serve(&rig, A);
	resize(&rig, A, 14, 8000, 0);
	rig_expect(&rig, "stop a");
	rig_ask(&rig, A);
	rig_gone(&rig, A);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, B);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

/* The reading that shows one gone may be older than that for how much is left: the next one tells who else has to go. */
static void test_nobody_else_goes_before_what_came_back_was_judged(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	add(&rig, A, 4, 1000);
	rig_add(&rig, B, 4);
	serve(&rig, B);
	serve(&rig, A);
	resize(&rig, A, 12, 8000, MODEL_GROWN);
	rig_gone(&rig, A);
	rig_load(&rig, A);
	rig_expect(&rig, "stop a, spawn a");
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "stop a");
	resize(&rig, A, 4, 1000, 0);
	rig_gone(&rig, A);
	rig_expect(&rig, "");
	rig_sample(&rig, 4); /* it is still short */
	rig_expect(&rig, "stop b");
	rig_close(&rig);
}

static void test_under_pressure_grown_ones_go_first_and_come_back_small(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	add(&rig, A, 4, 1000);
	rig_add(&rig, B, 4);
	serve(&rig, B);
	serve(&rig, A);
	resize(&rig, A, 12, 8000, MODEL_GROWN);
	rig_gone(&rig, A);
	rig_load(&rig, A);
	rig_expect(&rig, "stop a, spawn a");
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "stop a"); /* b was used before it, and would go first else */
	resize(&rig, A, 4, 1000, 0);
	rig_pressure(&rig, PRESSURE_NONE);
	rig_gone(&rig, A);
	rig_wait(&rig, 120);
	rig_expect(&rig, "spawn a"); /* though nobody asks for it */
	rig_load(&rig, A);
	assert_int_equal(context_of(&rig, A), 1000);
	assert_int_equal(rig_view(&rig, A).growths, 1); /* that was none */
	rig_close(&rig);
}

static void test_an_unload_ends_the_wait_for_it(void **state)
{
	struct rig rig;
	(void)state;

	open_with_one(&rig);
	resize(&rig, A, 6, 2000, 0);
	rig_expect(&rig, "stop a");
	rig_ask_as(&rig, A, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, A);
	rig_expect(&rig, "done 2");
	assert_int_equal(rig_view(&rig, A).state, MODEL_UNLOADED);
	rig_close(&rig);
}

static void test_nobody_left_to_wait_for_it_ends_the_wait(void **state)
{
	struct rig rig;
	(void)state;

	open_with_one(&rig);
	uint32_t running = rig_ask(&rig, A);
	rig_expect(&rig, "dispatch 2 a");
	rig_ask_as(&rig, A, (struct request_spec){ .kind = REQUEST_UNLOAD });
	uint32_t waiting = rig_ask(&rig, A); /* it would be loaded again for this one */
	resize(&rig, A, 6, 2000, 0);
	assert_int_equal(rig_view(&rig, A).state, MODEL_RESIZING);
	rig_leave(&rig, waiting);
	rig_finish(&rig, running);
	rig_gone(&rig, A);
	rig_expect(&rig, "stop a, done 3");
	assert_int_equal(rig_view(&rig, A).state, MODEL_UNLOADED);
	rig_wait(&rig, 3600);
	serve(&rig, A);
	assert_int_equal(rig_view(&rig, A).growths, 0); /* nor did an hour of it count as one */
	rig_close(&rig);
}

static enum fits fits(struct rig *rig, uint32_t model, int64_t gib)
{
	struct model_spec spec = rig->spec[model];

	spec.base.bytes[0][USE_HOST] = spec.peak.bytes[0][USE_HOST] = gib * GIB;
	return arbiter_fits(rig->arbiter, model, &spec);
}

static void test_what_would_fit_in_its_place(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	add(&rig, A, 4, 1000);
	rig_add(&rig, B, 10);
	serve(&rig, B);
	serve(&rig, A);
	assert_int_equal(fits(&rig, A, 9), FITS_NOW);
	assert_int_equal(fits(&rig, A, 15), FITS_AFTER_EVICTION);
	uint32_t request = rig_ask(&rig, B);
	assert_int_equal(fits(&rig, A, 15), FITS_NOT_NOW);
	rig_finish(&rig, request);
	rig_pin(&rig, B, true);
	assert_int_equal(fits(&rig, A, 15), FITS_NEVER);
	assert_int_equal(fits(&rig, A, 30), FITS_NEVER);
	rig.machine.margin_permille = 100;
	rig_machine(&rig);
	assert_int_equal(fits(&rig, A, 8), FITS_NOW);
	assert_int_equal(fits(&rig, A, 9), FITS_TIGHT); /* nobody who could go for it is beside it */
	rig_close(&rig);
}

static uint32_t ask_as(struct rig *rig, uint32_t key, uint64_t conversation, int64_t waited_us)
{
	return rig_ask_as(rig, A, (struct request_spec){ .priority = PRIORITY_NORMAL, .key = key,
		                                         .conversation = conversation, .waited_us = waited_us });
}

/* Nothing came of its first dispatch: neither later ones nor a queue that is full by now are before it. */
static void test_who_needs_the_larger_one_keeps_its_place(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	struct model_spec *spec = rig_spec(&rig, A, 4);
	spec->context_tokens = 1000;
	spec->queue = 3;
	rig_model(&rig, A);
	serve(&rig, A);
	uint32_t first = ask_as(&rig, 1, 11, 0);
	rig_expect(&rig, "dispatch 2 a");
	rig_wait(&rig, 1);
	for (uint64_t i = 0; i < 3; i++)
		ask_as(&rig, 2, 20 + i, 0); /* of another key, and other conversations */
	resize(&rig, A, 6, 2000, 0);
	rig_cancel(&rig, first);
	rig_wait(&rig, 1);
	uint32_t again = ask_as(&rig, 1, 11, 2 * SEC);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, A);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_expect(&rig, "dispatch 6 a");
	rig_finish(&rig, again);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_comes_back_larger_and_the_room_is_its_own_meanwhile),
		cmocka_unit_test(test_what_runs_is_not_cut_for_it),
		cmocka_unit_test(test_one_that_still_loads_begins_anew),
		cmocka_unit_test(test_a_smaller_one_waits_for_the_next_load),
		cmocka_unit_test(test_others_go_for_it_where_it_must_be),
		cmocka_unit_test(test_nobody_else_goes_before_what_came_back_was_judged),
		cmocka_unit_test(test_under_pressure_grown_ones_go_first_and_come_back_small),
		cmocka_unit_test(test_an_unload_ends_the_wait_for_it),
		cmocka_unit_test(test_nobody_left_to_wait_for_it_ends_the_wait),
		cmocka_unit_test(test_what_would_fit_in_its_place),
		cmocka_unit_test(test_who_needs_the_larger_one_keeps_its_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
