/* Where the parts meet: sets, pins, servers of somebody else, contexts that grow, memory that runs short. */
#include "rig.h"

enum { A, B, C };

/* a stays: pinned, or not ours. b is of its set and goes after ten seconds. */
static void open_set(struct rig *rig, uint32_t flag)
{
	rig_open(rig, 20);
	rig_spec(rig, A, flag == MODEL_OUTSIDE ? 0 : 4)->flags |= flag;
	rig_spec(rig, B, 4)->unload_after_us = 10 * SEC;
	for (uint32_t model = A; model <= B; model++) {
		rig->spec[model].set = 1;
		rig_model(rig, model);
	}
}

static void goes_and_stays_away_until_the_set_is_used(struct rig *rig)
{
	rig_wait(rig, 15);
	rig_expect(rig, "stop b");
	rig_gone(rig, B);
	rig_wait(rig, 60);
	rig_expect(rig, "");
	rig_finish(rig, rig_ask(rig, A));
	rig_expect(rig, "dispatch 2 a, spawn b");
	rig_close(rig);
}

/* What stays called it back, it was idle again, and so on for ever. */
static void who_went_for_idleness_is_not_called_back(void **state)
{
	static const uint32_t stays[] = { MODEL_PINNED, MODEL_OUTSIDE };
	(void)state;

	for (uint32_t i = 0; i < 2; i++) {
		struct rig rig;
		open_set(&rig, stays[i]);
		uint32_t request = rig_ask(&rig, A);
		rig_load(&rig, A);
		rig_finish(&rig, request);
		rig_load(&rig, B);
		rig_expect(&rig, stays[i] == MODEL_OUTSIDE ? "spawn a, dispatch 1 a, spawn b"
		                                           : "spawn a, spawn b, dispatch 1 a");
		goes_and_stays_away_until_the_set_is_used(&rig);
	}
}

static void who_was_unloaded_by_command_is_not_called_back(void **state)
{
	struct rig rig;
	(void)state;

	open_set(&rig, MODEL_PINNED);
	uint32_t request = rig_ask(&rig, A);
	rig_load(&rig, A);
	rig_load(&rig, B);
	rig_finish(&rig, request);
	rig_ask_as(&rig, B, (struct request_spec){ .kind = REQUEST_UNLOAD });
	rig_gone(&rig, B);
	rig_wait(&rig, 60);
	rig_expect(&rig, "spawn a, spawn b, dispatch 1 a, stop b, done 2");
	rig_close(&rig);
}

static void grow(struct rig *rig, uint32_t model, int64_t gib, uint32_t context)
{
	struct event event = { .type = EVENT_MODEL };
	struct model_spec *spec = rig_spec(rig, model, gib);

	spec->context_tokens = context;
	event.model.model = model;
	event.model.spec = *spec;
	event.model.spec.flags |= MODEL_RESIZE | MODEL_GROWN;
	rig_step(rig, &event);
}

/* The larger context has no room beside a pinned model: who needed it is told so, and then nobody waits for it. */
static void a_growth_that_finds_no_room_comes_to_an_end(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_sample(&rig, 0);
	rig_spec(&rig, B, 10)->flags |= MODEL_PINNED;
	rig_model(&rig, B);
	rig_spec(&rig, A, 4)->context_tokens = 1000;
	rig_model(&rig, A);
	for (uint32_t model = A; model <= B; model++) {
		uint32_t request = rig_ask(&rig, model);
		rig_load(&rig, model);
		rig_finish(&rig, request);
	}
	rig_measure(&rig, A, 4, true, false);
	rig_measure(&rig, B, 10, true, false);
	rig_sample(&rig, 16); /* others have 2 for now, so it is not told at once */
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	grow(&rig, A, 9, 8000);
	rig_ask(&rig, A);
	assert_int_equal(rig_view(&rig, A).state, MODEL_RESIZING);
	rig_gone(&rig, A);
	rig_wait(&rig, 15);
	rig_expect(&rig, "stop a, reject 3 no_room");
	assert_int_equal(rig_view(&rig, A).state, MODEL_UNLOADED);
	rig_sample(&rig, 10); /* as it was there before, it comes back once there is room */
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	assert_int_equal(rig_view(&rig, A).growths, 0);
	rig_close(&rig);
}

/* To find it takes no room. */
static void a_server_of_somebody_else_is_found_however_short_memory_is(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_spec(&rig, A, 0)->flags |= MODEL_OUTSIDE;
	rig_model(&rig, A);
	rig_pressure(&rig, PRESSURE_CRIT);
	rig_ask(&rig, A);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_expect(&rig, "dispatch 1 a");
	rig_close(&rig);
}

/* Back at once, memory would be short again, and so on; a request brings it back at any time. */
static void what_went_for_memory_comes_back_ever_later(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	rig_spec(&rig, A, 4)->flags |= MODEL_PRELOAD;
	rig_model(&rig, A);
	rig_expect(&rig, "spawn a");
	for (int pause = 10; pause < 100; pause *= 2) {
		rig_load(&rig, A);
		rig_pressure(&rig, PRESSURE_WARN);
		rig_expect(&rig, "stop a");
		rig_pressure(&rig, PRESSURE_NONE);
		rig_gone(&rig, A);
		rig_wait(&rig, pause - 1);
		rig_expect(&rig, "");
		rig_wait(&rig, 2); /* the timer alone brings it on */
		rig_expect(&rig, "spawn a");
	}
	rig_load(&rig, A);
	rig_pressure(&rig, PRESSURE_WARN);
	rig_pressure(&rig, PRESSURE_NONE);
	rig_gone(&rig, A);
	rig_expect(&rig, "stop a");
	uint32_t request = rig_ask(&rig, A);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_finish(&rig, request);
	rig_pressure(&rig, PRESSURE_WARN);
	rig_pressure(&rig, PRESSURE_NONE);
	rig_gone(&rig, A);
	rig_expect(&rig, "dispatch 1 a, stop a");
	rig_wait(&rig, 11);
	rig_expect(&rig, "spawn a"); /* it was used: from the beginning */
	rig_close(&rig);
}

/* Each alone among those that stay, both together more than there is: the second waits for the first. */
static void two_pinned_ones_do_not_both_take_what_is_left(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };
	(void)state;

	big.need.bytes[0][USE_HOST] = 5 * GIB;
	rig_open(&rig, 20);
	for (uint32_t model = A; model <= B; model++) {
		rig_spec(&rig, model, 8)->flags |= MODEL_PINNED;
		rig_model(&rig, model);
		uint32_t request = rig_ask(&rig, model);
		rig_load(&rig, model);
		rig_finish(&rig, request);
	}
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b");
	rig_ask_as(&rig, A, big); /* more than there is by its estimate, and nothing comes by waiting */
	rig_ask_as(&rig, B, big);
	rig_expect(&rig, "dispatch 3 a");
	rig_finish(&rig, 3);
	rig_expect(&rig, "dispatch 4 b");
	rig_close(&rig);
}

/* Its engine was started under other settings: the claim follows what is known now. */
static void new_settings_count_at_once(void **state)
{
	struct rig rig;
	struct request_spec big = { .priority = PRIORITY_NORMAL };
	(void)state;

	big.need.bytes[0][USE_HOST] = 3 * GIB;
	rig_open(&rig, 20);
	rig_spec(&rig, A, 8)->per_request.bytes[0][USE_HOST] = 2 * GIB;
	rig_model(&rig, A);
	uint32_t request = rig_ask_as(&rig, A, big);
	rig_load(&rig, A);
	assert_int_equal(rig_view(&rig, A).claim_bytes, 11 * GIB);
	rig.spec[A].flags |= MODEL_LAZY | MODEL_RENEW;
	rig_model(&rig, A); /* all its slots full are 2 GiB */
	assert_int_equal(rig_view(&rig, A).claim_bytes, 10 * GIB);
	rig_finish(&rig, request);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_went_for_idleness_is_not_called_back),
		cmocka_unit_test(who_was_unloaded_by_command_is_not_called_back),
		cmocka_unit_test(a_growth_that_finds_no_room_comes_to_an_end),
		cmocka_unit_test(a_server_of_somebody_else_is_found_however_short_memory_is),
		cmocka_unit_test(what_went_for_memory_comes_back_ever_later),
		cmocka_unit_test(two_pinned_ones_do_not_both_take_what_is_left),
		cmocka_unit_test(new_settings_count_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
