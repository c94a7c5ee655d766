/* The default policy: turns, learned footprints, plans that own their victims. */
#include "rig.h"

static void ask_for(struct rig *rig, uint32_t key, uint64_t conversation)
{
	struct request_spec spec = { .key = key, .conversation = conversation,
		                     .priority = PRIORITY_NORMAL, .expected_us = 5 * SEC };

	rig_ask_as(rig, 0, spec);
}

static void keys_take_turns(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 4);
	for (uint32_t i = 0; i < 30; i++)
		ask_for(&rig, 1, 0);
	ask_for(&rig, 2, 0); /* 31 */
	ask_for(&rig, 2, 0); /* 32 */
	rig_expect(&rig, "spawn a");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 1 a");
	rig_finish(&rig, 1);
	rig_expect(&rig, "dispatch 31 a");
	rig_finish(&rig, 31);
	rig_expect(&rig, "dispatch 2 a");
	rig_finish(&rig, 2);
	rig_expect(&rig, "dispatch 32 a");
	rig_close(&rig);
}

static void conversations_of_a_key_take_turns(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 4);
	for (uint32_t i = 0; i < 3; i++)
		ask_for(&rig, 1, 77);
	ask_for(&rig, 1, 88); /* 4 */
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_finish(&rig, 1);
	rig_expect(&rig, "dispatch 4 a");
	rig_finish(&rig, 4);
	rig_expect(&rig, "dispatch 2 a");
	rig_close(&rig);
}

/* By the estimates they do not fit together; what was measured of one tells of both. */
static void what_was_measured_lets_more_in(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 12);
	rig_add(&rig, 1, 12);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 6, true, false);
	rig_sample(&rig, 6);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

/* What a run once took beyond its estimate is kept free for the next. */
static void what_a_run_took_is_claimed_by_the_next(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 40);
	rig_add(&rig, 0, 10);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 10, true, false);
	rig_sample(&rig, 10);
	rig_ask(&rig, 0);
	rig_measure(&rig, 0, 13, true, false); /* one alone may be wrong */
	rig_sample(&rig, 13);
	rig_measure(&rig, 0, 11, true, false);
	rig_sample(&rig, 13);
	rig_measure(&rig, 0, 13, true, false);
	rig_sample(&rig, 13);
	rig_finish(&rig, 2);
	rig_measure(&rig, 0, 10, true, false);
	rig_sample(&rig, 10);
	assert_true(rig_view(&rig, 0).claim_bytes <= 10 * GIB);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes > 12 * GIB);
	rig_close(&rig);
}

static void wait_for_a_drain(struct rig *rig)
{
	for (int i = 0; i < 600 && rig_view(rig, 0).state != MODEL_DRAINING; i++)
		rig_wait(rig, 1);
	assert_int_equal(rig_view(rig, 0).state, MODEL_DRAINING);
}

static void a_plan_owns_its_victims(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 12)->slots = 2;
	rig_model(&rig, 0);
	rig_add(&rig, 1, 12);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 1);
	rig_expect(&rig, "");
	wait_for_a_drain(&rig);
	rig_ask(&rig, 0); /* a slot is free, but it was promised away */
	rig_expect(&rig, "");
	rig_finish(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

/* So many clients ask A, which answers each half second, again and again; seconds until it starts nothing new, for B. */
static double until_a_drains(struct rig *rig, uint32_t clients)
{
	uint32_t asked[8];
	double begin = (double)rig->now / SEC, waited = 0;

	for (uint32_t i = 0; i < clients; i++)
		asked[i] = rig_ask(rig, 0);
	rig_ask(rig, 1);
	for (uint32_t turn = 0; waited < 900; turn = (turn + 1) % clients) {
		rig_wait(rig, 0.5);
		waited = (double)rig->now / SEC - begin;
		if (rig_view(rig, 0).state == MODEL_DRAINING)
			break;
		rig_finish(rig, asked[turn]);
		asked[turn] = rig_ask(rig, 0);
	}
	return waited;
}

static void load_in(struct rig *rig, uint32_t model, double seconds)
{
	uint32_t first = rig_ask(rig, model);

	rig_spawned(rig, model);
	rig_wait(rig, seconds);
	rig_ready(rig, model);
	rig_wait(rig, 0.5);
	rig_finish(rig, first);
}

/* Nobody told how long A loads: its first load did. So short a one is soon worth doing again. */
static void a_first_load_tells_what_loads_cost(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 12)->slots = 2;
	rig_model(&rig, 0);
	rig_add(&rig, 1, 12);
	load_in(&rig, 0, 0.1);
	assert_true(until_a_drains(&rig, 2) <= 60);
	rig_close(&rig);
}

/* A never has done all that is asked of it, so B's turn comes by time alone. */
static double until_the_turn_of_b(double load_s)
{
	struct rig rig;

	rig_open_learning(&rig, 20);
	rig_add(&rig, 0, 12);
	rig_add(&rig, 1, 12);
	load_in(&rig, 1, load_s);
	uint32_t first = rig_ask(&rig, 0);
	rig_gone(&rig, 1);
	rig_load(&rig, 0);
	rig_finish(&rig, first);
	rig_wait(&rig, 40);
	double waited = until_a_drains(&rig, 6);
	rig_close(&rig);
	return waited;
}

static void who_loads_quickly_has_its_turn_sooner(void **state)
{
	double quick = until_the_turn_of_b(0.5), slow = until_the_turn_of_b(20);

	(void)state;
	assert_true(quick > 80 && quick <= 90);
	assert_true(slow > 410 && slow <= 430);
}

/* Who asked for the room leaves: the victim serves again. */
static void a_plan_ends_with_its_queue(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 12)->slots = 2;
	rig_model(&rig, 0);
	rig_add(&rig, 1, 12);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	uint32_t waits = rig_ask(&rig, 1);
	wait_for_a_drain(&rig);
	rig_leave(&rig, waits);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_ask(&rig, 0);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

/* The one that is asked for all the time stays, though the other was used later. */
static void the_least_missed_goes(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	for (uint32_t model = 0; model < 3; model++)
		rig_add(&rig, model, 8);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t request = rig_ask(&rig, 0);
		if (i == 0)
			rig_load(&rig, 0);
		rig_finish(&rig, request);
		rig_wait(&rig, 10);
	}
	uint32_t once = rig_ask(&rig, 1);
	rig_load(&rig, 1);
	rig_finish(&rig, once);
	rig_wait(&rig, 2);
	rig.words_length = 0;
	rig.words[0] = 0;
	rig_ask(&rig, 2);
	rig_expect(&rig, "stop b");
	rig_close(&rig);
}

/* Nobody goes for what nobody asked for; when the big one has gone, all are back, side by side. */
static void the_preloaded_come_back_when_a_big_job_is_gone(void **state)
{
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 20);
	for (uint32_t model = 0; model < 2; model++) {
		rig_spec(&rig, model, 8)->flags |= MODEL_PRELOAD;
		rig_model(&rig, model);
		rig_load(&rig, model);
	}
	rig_spec(&rig, 2, 17)->unload_after_us = 60 * SEC;
	rig_model(&rig, 2);
	rig_expect(&rig, "spawn a, spawn b");
	uint32_t job = rig_ask(&rig, 2);
	rig_expect(&rig, "stop a, stop b");
	rig_gone(&rig, 0);
	rig_gone(&rig, 1);
	rig_load(&rig, 2);
	rig_wait(&rig, 100);
	rig_finish(&rig, job);
	rig_wait(&rig, 50);
	rig_expect(&rig, "spawn c, dispatch 1 c");
	rig_wait(&rig, 20);
	rig_expect(&rig, "stop c");
	rig_gone(&rig, 2);
	rig_expect(&rig, "spawn a, spawn b");
	rig_close(&rig);
}

static void say_cached(struct rig *rig, uint32_t model, int64_t gib)
{
	struct event event = { .type = EVENT_FILE_RESIDENCY };

	event.residency.model = model;
	event.residency.cached_bytes = gib * GIB;
	rig_step(rig, &event);
}

/* First what costs nobody anything, last what somebody is waiting for, and pins after all. */
static void pressure_takes_in_order_of_what_is_lost(void **state)
{
	enum { PIN, BATCH, PERSON, IDLE, LOADS, WARM };
	struct rig rig;

	(void)state;
	rig_open_learning(&rig, 60);
	rig_spec(&rig, PIN, 4)->flags |= MODEL_PINNED;
	rig_spec(&rig, BATCH, 4)->priority = PRIORITY_BATCH;
	rig_spec(&rig, PERSON, 4)->priority = PRIORITY_INTERACTIVE;
	rig_spec(&rig, IDLE, 4);
	rig_spec(&rig, LOADS, 4);
	rig_spec(&rig, WARM, 4)->file_bytes = 4 * GIB;
	for (uint32_t model = 0; model <= WARM; model++) {
		rig.spec[model].bandwidth_permille = 100; /* so that all may run at once */
		rig_model(&rig, model);
	}
	for (uint32_t model = 0; model <= IDLE; model++) {
		uint32_t request = rig_ask(&rig, model);
		rig_load(&rig, model);
		if (model == IDLE)
			rig_finish(&rig, request);
	}
	say_cached(&rig, WARM, 4);
	rig_sample(&rig, 16);
	rig.words_length = 0;
	rig.words[0] = 0;
	rig_pressure(&rig, PRESSURE_WARN);
	rig_expect(&rig, "stop d");
	rig_sample(&rig, 16);
	rig_expect(&rig, "cool f"); /* with the next sample */
	rig_gone(&rig, IDLE);
	rig_ask(&rig, LOADS);
	rig_expect(&rig, "cool f"); /* it is not told yet that it was */
	rig_pressure(&rig, PRESSURE_NONE);
	rig_expect(&rig, "spawn e");
	rig_pressure(&rig, PRESSURE_CRIT);
	rig_expect(&rig, "abort e");
	say_cached(&rig, WARM, 0);
	rig_gone(&rig, LOADS);
	rig_expect(&rig, "kill b, cancel 2 emergency");
	rig_leave(&rig, 2);
	rig_gone(&rig, BATCH);
	rig_expect(&rig, "kill c, cancel 3 emergency");
	rig_leave(&rig, 3);
	rig_gone(&rig, PERSON);
	rig_expect(&rig, "kill a, cancel 1 emergency");
	rig_close(&rig);
}

/* Its conversation would take longer to read again than the other takes to load. */
static void a_long_warm_conversation_is_no_cheap_victim(void **state)
{
	struct rig rig;
	struct request_spec talk = { .conversation = 7, .priority = PRIORITY_NORMAL };

	(void)state;
	rig_open_learning(&rig, 20);
	for (uint32_t model = 0; model < 3; model++)
		rig_add(&rig, model, 8);
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t model = 0; model < 2; model++) {
			uint32_t request = rig_ask_as(&rig, model, talk);
			if (i == 0)
				rig_load(&rig, model);
			rig_answer(&rig, request, model == 0 ? 30000 : 300, 1000, 100, 50);
			rig_wait(&rig, 10);
		}
	}
	assert_true(rig_view(&rig, 0).cached_tokens == 30100);
	rig.words_length = 0;
	rig.words[0] = 0;
	rig.decisions = true;
	rig_ask(&rig, 2);
	rig_expect(&rig, "[evict b room for c], stop b");
	assert_true(rig_view(&rig, 1).asked == 4);
	rig_close(&rig);
}

static void open_earlier(struct rig *rig, enum policy policy)
{
	rig_open(rig, 20);
	rig->machine.policy = policy;
	rig_machine(rig);
	for (uint32_t model = 0; model < 4; model++)
		rig_add(rig, model, 5);
}

static void load_one(struct rig *rig, uint32_t model, double used_gib)
{
	uint32_t request = rig_ask(rig, model);

	rig_load(rig, model);
	rig_finish(rig, request);
	rig_measure(rig, model, 5, true, false);
	rig_sample(rig, used_gib);
}

/* Three of 5 are 15 of 20, more than 70 %: the fourth waits for the longest unused to go, though it would fit. */
static void threshold_loads_below_its_mark(void **state)
{
	struct rig rig;

	(void)state;
	open_earlier(&rig, POLICY_THRESHOLD);
	for (uint32_t model = 0; model < 3; model++) {
		load_one(&rig, model, 5 + 5 * model);
		rig_wait(&rig, 1);
	}
	rig_expect(&rig, "spawn a, dispatch 1 a, spawn b, dispatch 2 b, spawn c, dispatch 3 c");
	rig_ask(&rig, 3);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn d");
	rig_close(&rig);
}

static void one_at_a_time_keeps_one(void **state)
{
	struct rig rig;

	(void)state;
	open_earlier(&rig, POLICY_ONE_AT_A_TIME);
	load_one(&rig, 0, 5);
	uint32_t busy = rig_ask(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a");
	rig_finish(&rig, busy);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_expect(&rig, "spawn b");
	rig_close(&rig);
}

/* By benefit over cost the short interactive request goes before the long one that came first. */
static void cost_benefit_ranks_by_run_time_and_size(void **state)
{
	struct rig rig;

	(void)state;
	open_earlier(&rig, POLICY_COST_BENEFIT);
	load_one(&rig, 0, 5);
	uint32_t busy = rig_ask(&rig, 0);
	rig_ask_as(&rig, 0, (struct request_spec){ .priority = PRIORITY_BATCH, .expected_us = 300 * SEC });
	rig_ask_as(&rig, 0, (struct request_spec){ .priority = PRIORITY_INTERACTIVE, .expected_us = 2 * SEC });
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a");
	rig_finish(&rig, busy);
	rig_expect(&rig, "dispatch 4 a");
	rig_close(&rig);
}

/* The share in use rises by 2 % a second: by its trend it is over 90 % before it is there. */
static void hysteresis_looks_at_the_trend(void **state)
{
	struct rig rig;

	(void)state;
	open_earlier(&rig, POLICY_HYSTERESIS);
	load_one(&rig, 0, 5);
	rig_finish(&rig, rig_ask(&rig, 0));
	for (int i = 0; i < 8; i++) {
		rig_wait(&rig, 1);
		rig_measure(&rig, 0, 5, true, false);
		rig_sample(&rig, 12 + 0.4 * i); /* 74 % at the end, and others' */
	}
	rig_expect(&rig, "spawn a, dispatch 1 a, dispatch 2 a, stop a");
	rig_close(&rig);
}

static void open_set(struct rig *rig, enum policy policy)
{
	rig_open_learning(rig, 20);
	rig->machine.policy = policy;
	rig_machine(rig);
	for (uint32_t model = 0; model < 3; model++) {
		rig_spec(rig, model, 6)->set = model < 2 ? 7 : 0;
		rig_model(rig, model);
	}
	rig_spec(rig, 3, 10);
	rig_model(rig, 3);
	rig->decisions = true;
}

/* Who asks for one gets all; they go together, and only when all of them may. */
static void a_set_comes_and_goes_as_one(void **state)
{
	struct rig rig;

	(void)state;
	open_set(&rig, POLICY_LRU);
	uint32_t first = rig_ask(&rig, 0);
	rig_expect(&rig, "[load a request], spawn a, [load b set for a], spawn b");
	rig_load(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, first);
	uint32_t second = rig_ask(&rig, 1);
	rig_expect(&rig, "[ready a none], dispatch 1 a, [ready b none], dispatch 2 b");
	rig_ask(&rig, 3); /* a is idle, but b is not */
	rig_expect(&rig, "");
	rig_wait(&rig, 2);
	rig_finish(&rig, second);
	rig_expect(&rig, "[evict a least_recent for d], stop a, [unload b set for a], stop b");
	rig_gone(&rig, 0);
	rig_gone(&rig, 1);
	rig_expect(&rig, "[released a room], [load d request], spawn d, [released b room]");
	rig_close(&rig);
}

/* Room for one is not enough, and what is missing comes back when there is room. */
static void a_set_is_let_in_by_its_sum(void **state)
{
	struct rig rig;

	(void)state;
	open_set(&rig, POLICY_COTENANT);
	uint32_t other = rig_ask(&rig, 3);
	rig_load(&rig, 3);
	rig_expect(&rig, "[load d request], spawn d, [ready d none], dispatch 1 d");
	rig_ask(&rig, 0); /* 6 would fit beside 10, 12 do not */
	rig_expect(&rig, "");
	rig_finish(&rig, other);
	rig_expect(&rig, "[evict d room for a], stop d");
	rig_gone(&rig, 3);
	rig_expect(&rig, "[released d room], [load a request], spawn a, [load b set for a], spawn b");
	rig_load(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	rig_expect(&rig, "[ready a none], dispatch 2 a, [ready b none]");
	rig_exit(&rig, 1, false);
	rig_gone(&rig, 1);
	rig_expect(&rig, "[died b none], [released b none], [load b set], spawn b");
	rig_close(&rig);
}

static void run_together(struct rig *rig, double speed)
{
	uint32_t one = rig_ask(rig, 0), two = rig_ask(rig, 1);

	rig_wait(rig, 10);
	rig_answer(rig, one, 0, 1, 100, speed);
	rig_answer(rig, two, 0, 1, 100, speed);
}

/* Two models loaded, each of which answered alone at 50 tokens a second. */
static void open_two(struct rig *rig)
{
	rig_open_learning(rig, 40);
	for (uint32_t model = 0; model < 2; model++) {
		rig_add(rig, model, 8);
		uint32_t request = rig_ask(rig, model);
		rig_load(rig, model);
		rig_wait(rig, 2);
		rig_answer(rig, request, 0, 1, 100, 50);
		assert_true(rig_view(rig, model).speed_alone == 50);
	}
}

/* Two together are slower than one after the other: then one after the other. */
static void how_many_run_at_once_follows_their_speed(void **state)
{
	struct rig rig;
	struct pool_view pool;

	(void)state;
	open_two(&rig);
	for (uint32_t i = 0; i < 5; i++)
		run_together(&rig, 20);
	arbiter_pool(rig.arbiter, 0, &pool);
	assert_true(pool.active_most == 2); /* not known well enough */
	for (uint32_t i = 0; i < 5; i++)
		run_together(&rig, 20);
	arbiter_pool(rig.arbiter, 0, &pool);
	assert_true(pool.active_most == 1 && pool.speed_shared[0] > 0.39 && pool.speed_shared[0] < 0.41);
	rig.words_length = 0;
	rig.words[0] = 0;
	uint32_t first = rig_ask(&rig, 0);
	rig_ask(&rig, 1);
	rig_expect(&rig, "dispatch 23 a");
	rig_finish(&rig, first);
	rig_expect(&rig, "dispatch 24 b");
	rig_close(&rig);
}

static void how_models_slow_one_another_is_kept_over_a_restart(void **state)
{
	struct learned_row row[8];
	struct pool_view pool;
	struct rig rig;

	(void)state;
	open_two(&rig);
	for (uint32_t i = 0; i < 10; i++)
		run_together(&rig, 20);
	uint32_t rows = arbiter_export(rig.arbiter, row, 8);
	assert_true(rows > 0 && row[0].file_key == LEARNED_PACE && row[0].build_key == 0);
	assert_int_equal(arbiter_export(rig.arbiter, row + 1, 7), 0);
	rig_close(&rig);

	rig_open_learning(&rig, 40);
	arbiter_pool(rig.arbiter, 0, &pool);
	assert_true(pool.active_most == 2);
	struct event event = { .type = EVENT_LEARNED, .learned = row[0] };
	rig_step(&rig, &event);
	arbiter_pool(rig.arbiter, 0, &pool);
	assert_true(pool.active_most == 1 && pool.speed_shared[0] > 0.39 && pool.speed_shared[0] < 0.41);
	event.learned.build_key = POOLS_MAX;
	rig_step(&rig, &event);
	event.learned.build_key = 0;
	event.learned.share_ppb[0] = -1;
	rig_step(&rig, &event);
	assert_int_equal(arbiter_counters(rig.arbiter)->invalid_events, 2);
	rig_close(&rig);
}

/* Let in beside a pinned one by the least that it may take: it is watched, and not tried for ever. */
static void a_tight_load_is_watched(void **state)
{
	struct rig rig;
	(void)state;

	rig_open_learning(&rig, 20);
	rig_spec(&rig, 0, 12)->flags |= MODEL_PINNED;
	rig_model(&rig, 0);
	rig_spec(&rig, 1, 12)->lower.bytes[0][USE_HOST] = 6 * GIB;
	rig_model(&rig, 1);
	uint32_t first = rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, first);
	rig_measure(&rig, 0, 12, true, false);
	rig_sample(&rig, 12);
	rig.decisions = true;
	rig_ask(&rig, 1);
	rig_expect(&rig, "spawn a, dispatch 1 a, [load b alone], spawn b");
	rig_measure(&rig, 1, 4, true, false);
	rig_sample(&rig, 16); /* by the estimate 24 of 20 will be in use; but it may take less */
	rig_expect(&rig, "");
	rig_measure(&rig, 1, 7.8, true, false);
	rig_sample(&rig, 19.8);
	rig_expect(&rig, "[evict b pressure], abort b");
	assert_int_equal(rig_view(&rig, 1).failures, 1);
	rig_gone(&rig, 1);
	rig_wait(&rig, 0.5);
	rig_expect(&rig, "[released b pressure]"); /* and not at once again */
	assert_int_equal(rig_view(&rig, 0).state, MODEL_IDLE);
	rig_wait(&rig, 2);
	rig_expect(&rig, "[load b alone], spawn b");
	rig_load(&rig, 1);
	rig_measure(&rig, 1, 5, true, false);
	rig_sample(&rig, 17);
	rig_expect(&rig, "[ready b none], dispatch 2 b");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_take_turns),
		cmocka_unit_test(conversations_of_a_key_take_turns),
		cmocka_unit_test(what_was_measured_lets_more_in),
		cmocka_unit_test(what_a_run_took_is_claimed_by_the_next),
		cmocka_unit_test(a_plan_owns_its_victims),
		cmocka_unit_test(a_first_load_tells_what_loads_cost),
		cmocka_unit_test(who_loads_quickly_has_its_turn_sooner),
		cmocka_unit_test(a_plan_ends_with_its_queue),
		cmocka_unit_test(the_least_missed_goes),
		cmocka_unit_test(the_preloaded_come_back_when_a_big_job_is_gone),
		cmocka_unit_test(pressure_takes_in_order_of_what_is_lost),
		cmocka_unit_test(a_long_warm_conversation_is_no_cheap_victim),
		cmocka_unit_test(threshold_loads_below_its_mark),
		cmocka_unit_test(one_at_a_time_keeps_one),
		cmocka_unit_test(cost_benefit_ranks_by_run_time_and_size),
		cmocka_unit_test(hysteresis_looks_at_the_trend),
		cmocka_unit_test(a_set_comes_and_goes_as_one),
		cmocka_unit_test(a_set_is_let_in_by_its_sum),
		cmocka_unit_test(how_many_run_at_once_follows_their_speed),
		cmocka_unit_test(how_models_slow_one_another_is_kept_over_a_restart),
		cmocka_unit_test(a_tight_load_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
