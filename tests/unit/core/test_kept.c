/* An engine whose KV follows its conversations: a dispatch is an admission. */
#include "rig.h"

#include <stdlib.h>
#include <string.h>

enum { A, B };

static struct model_spec *lazy(struct rig *rig, uint32_t model, int64_t gib, int64_t full_gib, uint32_t slots)
{
	struct model_spec *spec = rig_spec(rig, model, gib);

	spec->flags |= MODEL_LAZY;
	spec->slots = slots;
	spec->per_request.bytes[0][USE_HOST] = full_gib * GIB;
	rig_model(rig, model);
	return spec;
}

static uint32_t ask(struct rig *rig, uint32_t model, int64_t need_gib)
{
	struct request_spec spec = { .kind = REQUEST_INFER, .need.bytes[0][USE_HOST] = need_gib * GIB };

	return rig_ask_as(rig, model, spec);
}

static void held(struct rig *rig, uint32_t model, bool settled, uint32_t slots, const int64_t *gib)
{
	struct event event = { .type = EVENT_TOKENS_HELD };

	event.held.instance = rig_view(rig, model).instance;
	event.held.settled = settled;
	event.held.slots = slots;
	for (uint32_t i = 0; i < slots; i++) {
		event.held.slot_bytes[i] = gib[i] * GIB;
		event.held.tokens += gib[i] * 1000;
	}
	rig_step(rig, &event);
}

static int64_t claim_gib(struct rig *rig, uint32_t model)
{
	return rig_view(rig, model).claim_bytes / GIB;
}

static void open_learning(struct rig *rig, int64_t gib)
{
	rig_open(rig, gib);
	rig->machine.policy = POLICY_COTENANT;
	rig->machine.margin_permille = -1;
	rig_machine(rig);
}

static void load(struct rig *rig, uint32_t model)
{
	struct request_spec spec = { .kind = REQUEST_LOAD };

	rig_ask_as(rig, model, spec);
	rig_load(rig, model);
	rig_expect(rig, model == A ? "spawn a, done 1" : "spawn b, done 1");
}

static void test_load_claims_what_waits_and_no_more(void **state)
{
	struct rig rig;
	(void)state;

	open_learning(&rig, 100);
	lazy(&rig, A, 10, 40, 1);
	ask(&rig, A, 2);
	rig_expect(&rig, "spawn a");
	assert_true(claim_gib(&rig, A) < 16); /* base, what one takes, and a spread; not the whole context */
	rig_close(&rig);
}

static void test_growth_is_claimed_before_dispatch(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	lazy(&rig, A, 10, 8, 2);
	load(&rig, A);
	assert_int_equal(claim_gib(&rig, A), 10);
	uint32_t first = ask(&rig, A, 6);
	rig_expect(&rig, "dispatch 2 a");
	assert_int_equal(claim_gib(&rig, A), 16);
	/* The second does not fit beside the first: it waits, though a slot is free. */
	ask(&rig, A, 6);
	rig_expect(&rig, "");
	rig_finish(&rig, first);
	rig_expect(&rig, ""); /* what it left behind is not known yet */
	assert_int_equal(claim_gib(&rig, A), 16);
	held(&rig, A, true, 2, (int64_t[]){ 1, 0 });
	rig_expect(&rig, "dispatch 3 a");
	assert_int_equal(claim_gib(&rig, A), 17); /* the other slot may be taken */
	rig_close(&rig);
}

static void test_conversation_that_goes_on_is_counted_once(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	lazy(&rig, A, 10, 8, 1);
	load(&rig, A);
	uint32_t turn = ask(&rig, A, 3);
	rig_finish(&rig, turn);
	held(&rig, A, true, 1, (int64_t[]){ 2 });
	assert_int_equal(claim_gib(&rig, A), 12);
	ask(&rig, A, 5);
	assert_int_equal(claim_gib(&rig, A), 15);
	rig_close(&rig);
}

static void test_reading_that_is_late_settles_nothing(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	lazy(&rig, A, 10, 8, 2);
	load(&rig, A);
	uint32_t first = ask(&rig, A, 3), second = ask(&rig, A, 4);
	rig_finish(&rig, first);
	rig_finish(&rig, second);
	held(&rig, A, false, 2, (int64_t[]){ 1, 0 });
	assert_true(claim_gib(&rig, A) >= 17);
	held(&rig, A, true, 2, (int64_t[]){ 1, 2 });
	assert_int_equal(claim_gib(&rig, A), 13);
	rig_close(&rig);
}

static void test_never_more_than_all_slots_full(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	lazy(&rig, A, 10, 4, 2);
	load(&rig, A);
	uint32_t first = ask(&rig, A, 4);
	rig_finish(&rig, first);
	held(&rig, A, true, 2, (int64_t[]){ 4, 4 });
	ask(&rig, A, 4);
	ask(&rig, A, 4);
	assert_int_equal(claim_gib(&rig, A), 18);
	rig_close(&rig);
}

static void test_idle_model_goes_for_growth(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 24);
	rig_add(&rig, B, 10);
	lazy(&rig, A, 10, 16, 1);
	load(&rig, B);
	struct request_spec spec = { .kind = REQUEST_LOAD };
	rig_ask_as(&rig, A, spec);
	rig_load(&rig, A);
	rig_expect(&rig, "spawn a, done 2");
	ask(&rig, A, 8);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, B);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

static void test_more_than_there_is_never_runs(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 20);
	lazy(&rig, A, 10, 16, 1);
	load(&rig, A);
	ask(&rig, A, 12);
	rig_expect(&rig, "reject 2 never_fits"); /* who was loaded by hand stays for others */
	assert_int_equal(rig_view(&rig, A).state, MODEL_IDLE);
	rig_close(&rig);
}

static void test_base_is_learned_without_what_is_held(void **state)
{
	struct rig rig;
	(void)state;

	open_learning(&rig, 100);
	lazy(&rig, A, 10, 16, 1);
	uint32_t turn = ask(&rig, A, 8);
	rig_spawned(&rig, A);
	rig_ready(&rig, A);
	rig_finish(&rig, turn);
	held(&rig, A, true, 1, (int64_t[]){ 6 });
	for (int i = 0; i < 40; i++) {
		rig_measure(&rig, A, 16, true, false);
		rig_sample(&rig, 16);
	}
	held(&rig, A, true, 1, (int64_t[]){ 0 });
	assert_in_range(claim_gib(&rig, A), 9, 10);
	rig_close(&rig);
}

static void erased(struct rig *rig, uint32_t model, bool failed)
{
	struct event event = { .type = EVENT_CONVERSATION_ERASED };

	event.erased.instance = rig_view(rig, model).instance;
	event.erased.failed = failed;
	rig_step(rig, &event);
}

static void test_conversations_go_before_models_under_pressure(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 40);
	rig_add(&rig, B, 10);
	lazy(&rig, A, 10, 16, 1);
	load(&rig, B);
	struct request_spec spec = { .kind = REQUEST_LOAD };
	rig_ask_as(&rig, A, spec);
	rig_load(&rig, A);
	held(&rig, A, true, 1, (int64_t[]){ 6 });
	rig_expect(&rig, "spawn a, done 2");
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "discard a");
	/* Nothing is sent to it meanwhile, and nobody else goes. */
	ask(&rig, A, 1);
	rig_expect(&rig, "");
	erased(&rig, A, false);
	assert_int_equal(rig_view(&rig, A).kept_bytes, 0);
	rig_close(&rig);
}

static void test_conversations_make_room_for_a_load(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	lazy(&rig, A, 10, 16, 1);
	rig_add(&rig, B, 10);
	load(&rig, A);
	held(&rig, A, true, 1, (int64_t[]){ 12 });
	rig_measure(&rig, A, 22, true, false);
	rig_sample(&rig, 22);
	rig_ask(&rig, B);
	rig_expect(&rig, "discard a");
	erased(&rig, A, false);
	rig_expect(&rig, "spawn b"); /* before any sample */
	assert_int_equal(claim_gib(&rig, A), 10);
	rig_close(&rig);
}

static void test_one_that_cannot_be_cleared_goes_whole(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	lazy(&rig, A, 10, 16, 1);
	rig_add(&rig, B, 10);
	load(&rig, A);
	held(&rig, A, true, 1, (int64_t[]){ 12 });
	rig_ask(&rig, B);
	rig_expect(&rig, "discard a");
	erased(&rig, A, true);
	rig_expect(&rig, "stop a");
	rig_close(&rig);
}

static void test_impossible_readings_change_nothing(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 100);
	lazy(&rig, A, 10, 16, 1);
	load(&rig, A);
	struct event event = { .type = EVENT_TOKENS_HELD };
	event.held.instance = rig_view(&rig, A).instance;
	event.held.slots = HELD_SLOTS_MAX + 1;
	rig_step(&rig, &event);
	event.held.slots = 1;
	event.held.slot_bytes[0] = -1;
	rig_step(&rig, &event);
	event.held.slot_bytes[0] = INT64_MAX;
	rig_step(&rig, &event);
	assert_int_equal(arbiter_counters(rig.arbiter)->invalid_events, 3);
	assert_int_equal(rig_view(&rig, A).kept_bytes, 0);
	rig_close(&rig);
}

static enum fits planned(struct rig *rig, uint32_t model)
{
	void *scratch = calloc(1, arbiter_bytes(&rig->limits));
	struct plan plan = { 0 };

	assert_true(arbiter_plan(rig->arbiter, model, scratch, &plan));
	free(scratch);
	return plan.fits;
}

/* It fits by the least that it may take, and not as it turns out to be. */
static void open_too_large(struct rig *rig, enum policy policy)
{
	rig_open(rig, 40);
	rig->machine.policy = policy;
	rig->machine.limit_bytes = 22 * GIB;
	rig_machine(rig);
	rig_sample(rig, 0);
	lazy(rig, A, 20, 40, 1)->lower.bytes[0][USE_HOST] = 14 * GIB;
	rig_model(rig, A);
}

static void tries_once_and_goes(enum policy policy)
{
	struct rig rig;

	open_too_large(&rig, policy);
	ask(&rig, A, 3);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_expect(&rig, ""); /* an estimate alone does not refuse: it is measured first */
	rig_measure(&rig, A, 20, true, false);
	rig_sample(&rig, 20);
	rig_expect(&rig, "reject 1 never_fits, stop a");
	assert_int_equal(rig.reject.reason, REASON_LIMIT);
	assert_true(rig.reject.retry_after_us == 0);
	assert_true(rig.reject.decision.need_bytes == 23 * GIB);
	assert_true(rig.reject.decision.room_bytes == 22 * GIB);
	rig_gone(&rig, A);
	assert_int_equal(planned(&rig, A), FITS_NEVER);
	ask(&rig, A, 3); /* it is not loaded again to find out the same */
	rig_expect(&rig, "reject 2 never_fits");
	ask(&rig, A, 1);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, A);
	rig_measure(&rig, A, 20, true, false);
	rig_sample(&rig, 20);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

static void test_what_has_room_for_no_conversation_is_told_so_and_goes(void **state)
{
	(void)state;
	tries_once_and_goes(POLICY_COTENANT);
	tries_once_and_goes(POLICY_LRU);
}

static void test_a_conversation_too_large_leaves_the_others_their_model(void **state)
{
	struct rig rig;
	(void)state;

	open_too_large(&rig, POLICY_COTENANT);
	uint32_t first = ask(&rig, A, 1);
	rig_load(&rig, A);
	rig_measure(&rig, A, 20, true, false);
	rig_sample(&rig, 20);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_finish(&rig, first);
	held(&rig, A, true, 1, (int64_t[]){ 0 });
	ask(&rig, A, 9); /* more than there is even by the least that the model may take */
	rig_expect(&rig, "reject 2 never_fits");
	assert_true(rig.reject.decision.need_bytes == 23 * GIB);
	assert_int_equal(rig_view(&rig, A).state, MODEL_IDLE);
	assert_int_equal(planned(&rig, A), FITS_NOW);
	rig_close(&rig);
}

static void test_who_was_refused_for_the_limit_may_come_when_it_is_raised(void **state)
{
	struct rig rig;
	(void)state;

	open_too_large(&rig, POLICY_COTENANT);
	ask(&rig, A, 3);
	rig_load(&rig, A);
	rig_measure(&rig, A, 20, true, false);
	rig_sample(&rig, 20);
	rig_gone(&rig, A);
	rig_expect(&rig, "spawn a, reject 1 never_fits, stop a");
	rig.machine.limit_bytes = 24 * GIB;
	rig_machine(&rig);
	ask(&rig, A, 3);
	rig_load(&rig, A);
	rig_measure(&rig, A, 20, true, false);
	rig_sample(&rig, 20);
	rig_expect(&rig, "spawn a, dispatch 2 a");
	rig_close(&rig);
}

/* Its own idle conversation is nothing that would help one that is too large without it. */
static void no_conversation_goes_in_vain(enum policy policy)
{
	struct rig rig;

	rig_open(&rig, 20);
	rig.machine.policy = policy;
	rig_machine(&rig);
	lazy(&rig, A, 10, 40, 1);
	load(&rig, A);
	rig_measure(&rig, A, 10, true, false);
	rig_sample(&rig, 10);
	uint32_t turn = ask(&rig, A, 6);
	rig_finish(&rig, turn);
	held(&rig, A, true, 1, (int64_t[]){ 6 });
	rig_measure(&rig, A, 16, true, false);
	rig_sample(&rig, 16);
	rig_expect(&rig, "dispatch 2 a");
	ask(&rig, A, 12);
	rig_expect(&rig, "reject 3 never_fits");
	rig_close(&rig);
}

static void test_no_conversation_goes_in_vain(void **state)
{
	(void)state;
	no_conversation_goes_in_vain(POLICY_COTENANT);
	no_conversation_goes_in_vain(POLICY_LRU);
}

static enum fits fits(struct rig *rig, uint32_t model, int64_t need_gib)
{
	struct amount need = { .bytes[0][USE_HOST] = need_gib * GIB };

	return arbiter_fits_request(rig->arbiter, model, &need);
}

static void test_what_a_request_would_find_is_foreseen(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	lazy(&rig, A, 10, 40, 1);
	rig_add(&rig, B, 8);
	assert_int_equal(fits(&rig, A, 20), FITS_NOW); /* with its load */
	assert_int_equal(fits(&rig, A, 21), FITS_NEVER);
	load(&rig, A);
	rig_ask_as(&rig, B, (struct request_spec){ .kind = REQUEST_LOAD });
	rig_load(&rig, B);
	rig_expect(&rig, "spawn b, done 2");
	assert_int_equal(fits(&rig, A, 12), FITS_NOW);
	assert_int_equal(fits(&rig, A, 13), FITS_AFTER_EVICTION);
	assert_int_equal(fits(&rig, A, 21), FITS_NEVER);
	uint32_t work = rig_ask(&rig, B);
	assert_int_equal(fits(&rig, A, 13), FITS_NOT_NOW);
	rig_finish(&rig, work);
	uint32_t turn = ask(&rig, A, 5);
	rig_finish(&rig, turn);
	held(&rig, A, true, 1, (int64_t[]){ 4 });
	assert_int_equal(fits(&rig, A, 12), FITS_NOW); /* it may go on with what it holds */
	turn = ask(&rig, A, 5);
	assert_int_equal(fits(&rig, A, 20), FITS_AFTER_EVICTION); /* its own request will have ended */
	assert_int_equal(fits(&rig, A, 21), FITS_NEVER);
	rig_finish(&rig, turn);
	held(&rig, A, true, 1, (int64_t[]){ 4 });
	assert_int_equal(fits(&rig, A, 20), FITS_AFTER_EVICTION);
	rig_close(&rig);
}

/* Its own idle conversations may go for one that needs more room than they leave. */
static void test_own_conversations_go_in_what_is_foreseen(void **state)
{
	struct rig rig;
	(void)state;

	rig_open(&rig, 30);
	lazy(&rig, A, 10, 40, 2);
	load(&rig, A);
	uint32_t turn = ask(&rig, A, 8);
	rig_finish(&rig, turn);
	held(&rig, A, true, 2, (int64_t[]){ 8, 0 });
	assert_int_equal(fits(&rig, A, 12), FITS_NOW);
	assert_int_equal(fits(&rig, A, 13), FITS_AFTER_EVICTION);
	assert_int_equal(fits(&rig, A, 20), FITS_AFTER_EVICTION);
	assert_int_equal(fits(&rig, A, 21), FITS_NEVER);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load_claims_what_waits_and_no_more),
		cmocka_unit_test(test_growth_is_claimed_before_dispatch),
		cmocka_unit_test(test_conversation_that_goes_on_is_counted_once),
		cmocka_unit_test(test_reading_that_is_late_settles_nothing),
		cmocka_unit_test(test_never_more_than_all_slots_full),
		cmocka_unit_test(test_idle_model_goes_for_growth),
		cmocka_unit_test(test_more_than_there_is_never_runs),
		cmocka_unit_test(test_base_is_learned_without_what_is_held),
		cmocka_unit_test(test_conversations_go_before_models_under_pressure),
		cmocka_unit_test(test_conversations_make_room_for_a_load),
		cmocka_unit_test(test_one_that_cannot_be_cleared_goes_whole),
		cmocka_unit_test(test_impossible_readings_change_nothing),
		cmocka_unit_test(test_what_has_room_for_no_conversation_is_told_so_and_goes),
		cmocka_unit_test(test_a_conversation_too_large_leaves_the_others_their_model),
		cmocka_unit_test(test_who_was_refused_for_the_limit_may_come_when_it_is_raised),
		cmocka_unit_test(test_no_conversation_goes_in_vain),
		cmocka_unit_test(test_what_a_request_would_find_is_foreseen),
		cmocka_unit_test(test_own_conversations_go_in_what_is_foreseen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
