/* The contract of a step: total, bounded, the same whatever the caller's room for actions. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

/* A busy little history with many actions in single steps. */
static uint64_t play(uint32_t capacity)
{
	struct rig rig;

	rig_open(&rig, 20);
	rig.capacity = capacity;
	for (uint32_t model = 0; model < 4; model++) {
		rig_spec(&rig, model, 6 + model)->slots = 3;
		rig_model(&rig, model);
	}
	for (uint32_t i = 0; i < 60; i++)
		rig_ask(&rig, i % 4);
	rig_load(&rig, 0);
	rig_load(&rig, 1);
	rig_exit(&rig, 0, false);
	rig_wait(&rig, 40);
	rig.spec[2].present = 0;
	rig_model(&rig, 2);
	rig_shutdown(&rig);
	uint64_t hash = rig.hash;
	assert_true(rig.actions > 150);
	rig_close(&rig);
	return hash;
}

static void the_callers_room_does_not_change_what_is_done(void **state)
{
	(void)state;
	uint64_t whole = play(1000);
	assert_true(play(1) == whole);
	assert_true(play(7) == whole);
}

static void a_fresh_block_is_touched_at_its_head_alone(void **state)
{
	struct arbiter_limits limits = { .models = 1024, .requests = 16384, .leases = 1024 };
	size_t bytes = arbiter_bytes(&limits);
	unsigned char *block = calloc(1, bytes);
	(void)state;

	assert_true(bytes > 0);
	arbiter_init(block, &limits);
	size_t touched = 0;
	for (size_t i = 0; i < bytes; i++)
		if (block[i])
			touched = i;
	assert_true(touched < 65536);
	free(block);
}

static void absurd_limits_have_no_size(void **state)
{
	(void)state;
	assert_int_equal(arbiter_bytes(&(struct arbiter_limits){ .models = 0, .requests = 1 }), 0);
	assert_int_equal(arbiter_bytes(&(struct arbiter_limits){ .models = 1, .requests = 0 }), 0);
	assert_int_equal(arbiter_bytes(&(struct arbiter_limits){ .models = 1,
	                                                         .requests = (1 << 20) + 1 }), 0);
	assert_true(arbiter_bytes(&(struct arbiter_limits){ .models = 1, .requests = 1 }) > 0);
}

static void impossible_events_change_nothing(void **state)
{
	struct rig rig;
	struct event events[16];
	uint32_t n = 0;
	(void)state;

	rig_open(&rig, 10);
	rig_add(&rig, 0, 6);
	rig_ask(&rig, 0);
	memset(events, 0, sizeof(events));
	events[n++] = (struct event){ .type = EVENT_TYPE_COUNT };
	events[n++] = (struct event){ .type = EVENT_LEASE_ASKED };
	events[n++] = (struct event){ .type = EVENT_MODEL, .model = { .model = 8 } };
	events[n] = (struct event){ .type = EVENT_MODEL, .model = { .spec = rig.spec[0] } };
	events[n++].model.spec.base.bytes[3][USE_GPU] = -1;
	events[n] = (struct event){ .type = EVENT_MODEL, .model = { .spec = rig.spec[0] } };
	events[n++].model.spec.slots = 0;
	events[n] = (struct event){ .type = EVENT_MODEL, .model = { .spec = rig.spec[0] } };
	memset(events[n++].model.spec.name, 'x', MODEL_NAME_BYTES);
	events[n] = (struct event){ .type = EVENT_MACHINE, .machine = rig.machine };
	events[n++].machine.pools = POOLS_MAX + 1;
	events[n] = (struct event){ .type = EVENT_MACHINE, .machine = rig.machine };
	events[n++].machine.pool[0].size_bytes = INT64_MAX;
	events[n++] = (struct event){ .type = EVENT_PRESSURE, .pressure = { .level = 3 } };
	events[n++] = (struct event){ .type = EVENT_PIN, .command = { .model = 1 } };
	events[n++] = (struct event){ .type = EVENT_REQUEST_ARRIVED,
		                      .arrived = { .request = rig.request[0] } };
	events[n++] = (struct event){ .type = EVENT_REQUEST_ARRIVED,
		                      .arrived = { .request = { 2048, 1 } } };
	events[n++] = (struct event){ .type = EVENT_REQUEST_ARRIVED,
		                      .arrived = { .request = { 5, 0 } } };
	events[n] = (struct event){ .type = EVENT_SAMPLE };
	events[n++].sample.unreclaimable_bytes[0] = INT64_MAX;

	rig_expect(&rig, "spawn a");
	uint64_t held = rig.hash;
	for (uint32_t i = 0; i < n; i++)
		rig_step(&rig, &events[i]);
	assert_int_equal(arbiter_counters(rig.arbiter)->invalid_events, n);
	assert_true(rig.hash == held);

	struct event late = { .type = EVENT_TICK, .at_us = INT64_MAX };
	struct action item;
	struct actions out = { .items = &item, .capacity = 1 };
	assert_int_equal(arbiter_step(rig.arbiter, &late, &out), STEP_DONE);
	assert_int_equal(arbiter_counters(rig.arbiter)->invalid_events, n + 1);
	rig_close(&rig);
}

static void time_that_runs_backwards_stands_still(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_spec(&rig, 0, 6)->unload_after_us = 60 * SEC;
	rig_model(&rig, 0);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig.now -= 500 * SEC;
	rig_finish(&rig, 1);
	assert_true(rig_view(&rig, 0).last_used_at_us == 1000 * SEC);
	rig_close(&rig);
}

static void every_arrival_is_answered(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 10);
	rig_ask(&rig, 3);
	rig_ask(&rig, 4000000);
	rig_expect(&rig, "reject 1 unknown_model, reject 2 unknown_model");
	assert_int_equal(arbiter_requests_live(rig.arbiter), 0);
	rig_close(&rig);
}

static void every_name_is_there(void **state)
{
	(void)state;
	for (int i = 0; i < MODEL_STATE_COUNT; i++)
		assert_non_null(model_state_name((enum model_state)i));
	for (int i = 0; i < DECISION_KIND_COUNT; i++)
		assert_non_null(decision_kind_name((enum decision_kind)i));
	for (int i = 0; i < REASON_COUNT; i++)
		assert_non_null(reason_name((enum reason)i));
	for (int i = 0; i < FITS_COUNT; i++)
		assert_non_null(fits_name((enum fits)i));
	for (int i = 0; i < FAIL_COUNT; i++)
		assert_non_null(fail_name((enum fail)i));
	for (int i = 0; i < PRIORITY_COUNT; i++)
		assert_non_null(priority_name((enum priority)i));
	for (int i = 0; i < POLICY_COUNT; i++)
		assert_non_null(policy_name((enum policy)i));
	assert_string_equal(fail_name(FAIL_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_callers_room_does_not_change_what_is_done),
		cmocka_unit_test(a_fresh_block_is_touched_at_its_head_alone),
		cmocka_unit_test(absurd_limits_have_no_size),
		cmocka_unit_test(impossible_events_change_nothing),
		cmocka_unit_test(time_that_runs_backwards_stands_still),
		cmocka_unit_test(every_arrival_is_answered),
		cmocka_unit_test(every_name_is_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
