/* How long conversations usually get. */
#include "../cmocka_all.h"

#include "app/lengths.h"

static void nothing_is_known_at_first(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	assert_int_equal(lengths_usual(&lengths), 0);
	lengths_note(&lengths, 7, 0);
	assert_int_equal(lengths_usual(&lengths), 0);
}

static void a_conversation_counts_once_with_its_longest_turn(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	for (int64_t turn = 1; turn <= 40; turn++)
		lengths_note(&lengths, 7, turn * 100);
	lengths_note(&lengths, 7, 300); /* begun anew */
	assert_int_equal(lengths.next, 1);
	assert_int_equal(lengths_usual(&lengths), 4000);
}

static void one_of_twenty_may_be_longer(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	for (uint64_t i = 1; i <= 38; i++)
		lengths_note(&lengths, i, 1000 + (int64_t)i);
	lengths_note(&lengths, 39, 60000);
	lengths_note(&lengths, 40, 50000);
	assert_int_equal(lengths_usual(&lengths), 1038);
	lengths_note(&lengths, 1, 40000);
	assert_int_equal(lengths_usual(&lengths), 40000);
}

static void few_are_all_counted(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	lengths_note(&lengths, 0, 500); /* without a name each is one */
	lengths_note(&lengths, 0, 400);
	assert_int_equal(lengths.next, 2);
	assert_int_equal(lengths_usual(&lengths), 500);
}

static void what_was_long_ago_is_forgotten(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	for (uint64_t i = 1; i <= 10; i++)
		lengths_note(&lengths, i, 90000);
	for (uint64_t i = 11; i <= 10 + LENGTHS_KEPT; i++)
		lengths_note(&lengths, i, 2000);
	assert_int_equal(lengths_usual(&lengths), 2000);
}

static void how_dense_prompts_are_is_known_of_enough_of_them(void **state)
{
	struct lengths lengths = { 0 };
	(void)state;

	lengths_note_prompt(&lengths, 1, 4000, 1000); /* of what conversation? */
	for (uint64_t i = 1; i < LENGTHS_SURE; i++) {
		lengths_note(&lengths, i, 1000);
		lengths_note_prompt(&lengths, i, 4000, 1000);
		lengths_note_prompt(&lengths, i, LENGTHS_PROMPT_LEAST - 1, 1000); /* mostly a template */
		lengths_note_prompt(&lengths, i, 5000, 1000);
	}
	assert_int_equal(lengths_dense_milli(&lengths), 0);
	lengths_note(&lengths, 0, 1000);
	lengths_note_prompt(&lengths, 0, 1500, 1000);
	assert_int_equal(lengths_dense_milli(&lengths), 1500); /* one of eight is not one of twenty */
	for (uint64_t i = LENGTHS_SURE; i < 30; i++) {
		lengths_note(&lengths, i, 1000);
		lengths_note_prompt(&lengths, i, 3000, 1000);
	}
	assert_int_equal(lengths_dense_milli(&lengths), 3000);
	assert_int_equal(lengths_usual(&lengths), 1000);
}

static void note_dropped(void *ctx, const struct lengths *row)
{
	*(uint64_t *)ctx = *(uint64_t *)ctx * 10 + row->model;
}

static void at_the_limit_the_oldest_makes_room(void **state)
{
	uint64_t dropped = 0;
	struct lengths_table table = { .dropped = note_dropped, .ctx = &dropped };
	(void)state;

	for (uint64_t i = 1; i <= LENGTHS_MOST; i++)
		lengths_of(&table, i, 7)->noted_at_ms = (int64_t)i;
	lengths_of(&table, 1, 7)->noted_at_ms = 5000; /* again */
	lengths_note(lengths_of(&table, 3, 7), 1, 300);
	lengths_add(&table, &(struct lengths){ .model = 9000, .key = 7, .noted_at_ms = 6000 });
	assert_int_equal(table.count, LENGTHS_MOST);
	assert_int_equal(dropped, 2); /* what is stored of it is of no more use */
	assert_int_equal(lengths_of(&table, 9000, 7)->noted_at_ms, 6000);
	assert_int_equal(lengths_of(&table, 1, 7)->noted_at_ms, 5000);
	assert_int_equal(lengths_usual(lengths_of(&table, 3, 7)), 300);
	lengths_note(lengths_of(&table, 9001, 7), 1, 100);
	assert_int_equal(lengths_usual(lengths_of(&table, 9001, 7)), 100);
	assert_true(dropped == 23);
	assert_int_equal(lengths_usual(lengths_of(&table, 3, 7)), 0); /* its turn came */
	lengths_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(a_conversation_counts_once_with_its_longest_turn),
		cmocka_unit_test(one_of_twenty_may_be_longer),
		cmocka_unit_test(few_are_all_counted),
		cmocka_unit_test(what_was_long_ago_is_forgotten),
		cmocka_unit_test(how_dense_prompts_are_is_known_of_enough_of_them),
		cmocka_unit_test(at_the_limit_the_oldest_makes_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
