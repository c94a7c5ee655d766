/* Nobody waits without end: each scenario stood still, or went round in circles, once. */
#include "rig.h"

static void open_cotenant(struct rig *rig, int64_t gib)
{
	rig_open(rig, gib);
	rig->machine.policy = POLICY_COTENANT;
	rig->machine.margin_permille = -1;
	rig_machine(rig);
}

/* A model that lives by what was measured: loaded, served one, idle at `gib` for some samples. */
static void live(struct rig *rig, uint32_t model, double gib, double foreign)
{
	for (int i = 0; i < 3; i++) {
		rig_measure(rig, model, gib, true, false);
		rig_sample(rig, gib + foreign);
		rig_wait(rig, 1);
	}
}

/* A sample that counts a third twice must not bar a model from the machine for good. */
static void one_wrong_sample_does_not_bar_a_model(void **state)
{
	struct rig rig;

	(void)state;
	open_cotenant(&rig, 64);
	rig_add(&rig, 0, 38);
	rig_add(&rig, 1, 30);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	live(&rig, 0, 38, 8);
	rig_measure(&rig, 0, 57, true, false); /* it lies */
	rig_sample(&rig, 46);
	rig_wait(&rig, 1);
	live(&rig, 0, 38, 8);
	rig_expect(&rig, "spawn a, dispatch 1 a");

	rig_ask(&rig, 1);
	rig_expect(&rig, "stop a");
	rig_gone(&rig, 0);
	rig_load(&rig, 1);
	rig_finish(&rig, 2);
	live(&rig, 1, 30, 8);
	rig_expect(&rig, "spawn b, dispatch 2 b");
	rig_ask(&rig, 0);
	rig_expect(&rig, "stop b");
	rig_gone(&rig, 1);
	rig_expect(&rig, "spawn a");
	rig_load(&rig, 0);
	rig_expect(&rig, "dispatch 3 a");
	rig_close(&rig);
}

/* ... nor may it, where it was the first of all. */
static void a_wrong_first_sample_is_corrected_by_the_next(void **state)
{
	struct rig rig;

	(void)state;
	open_cotenant(&rig, 64);
	rig_add(&rig, 0, 38);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	rig_measure(&rig, 0, 57, true, false);
	rig_sample(&rig, 46);
	live(&rig, 0, 38, 8);
	rig_expect(&rig, "spawn a, dispatch 1 a");
	rig_exit(&rig, 0, false);
	rig_measure(&rig, 0, 0, true, true);
	rig_sample(&rig, 8);
	rig_wait(&rig, 30);
	rig_ask(&rig, 0);
	rig_expect(&rig, "spawn a");
	rig_close(&rig);
}

/* What a load seemed to take for a moment is not claimed by each load from then on. */
static void a_wrong_sample_of_a_load_raises_no_later_claim(void **state)
{
	struct rig rig;

	(void)state;
	open_cotenant(&rig, 64);
	rig_add(&rig, 0, 30);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_spawned(&rig, 0);
	rig_measure(&rig, 0, 20, true, false);
	rig_sample(&rig, 28);
	rig_measure(&rig, 0, 50, true, false); /* it lies */
	rig_sample(&rig, 38);
	rig_measure(&rig, 0, 30, true, false);
	rig_sample(&rig, 38);
	rig_ready(&rig, 0);
	rig_finish(&rig, 1);
	live(&rig, 0, 30, 8);
	assert_true(rig_view(&rig, 0).load_peak_bytes < 34 * GIB);
	rig_close(&rig);
}

/* The same of what running requests seemed to take. */
static void a_wrong_sample_of_work_raises_no_later_claim(void **state)
{
	struct rig rig;

	(void)state;
	open_cotenant(&rig, 64);
	rig_add(&rig, 0, 30);
	rig_sample(&rig, 8);
	rig_ask(&rig, 0);
	rig_load(&rig, 0);
	rig_finish(&rig, 1);
	live(&rig, 0, 30, 8);
	rig_ask(&rig, 0);
	live(&rig, 0, 30.5, 8);
	rig_measure(&rig, 0, 50, true, false); /* it lies */
	rig_sample(&rig, 38);
	live(&rig, 0, 30.5, 8);
	rig_finish(&rig, 2);
	live(&rig, 0, 30, 8);
	rig_ask(&rig, 0);
	assert_true(rig_view(&rig, 0).claim_bytes < 34 * GIB);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_wrong_sample_does_not_bar_a_model),
		cmocka_unit_test(a_wrong_first_sample_is_corrected_by_the_next),
		cmocka_unit_test(a_wrong_sample_of_a_load_raises_no_later_claim),
		cmocka_unit_test(a_wrong_sample_of_work_raises_no_later_claim),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
