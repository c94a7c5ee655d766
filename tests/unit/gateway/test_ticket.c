#include "../cmocka_all.h"

#include "gateway/ticket.h"

struct owner {
	struct tickets *tickets;
	int verdicts;
	uint32_t last;
	uint32_t open_then; /* tickets open while the handler ran */
};

static void on_verdict(void *ctx, struct id ticket, const struct action *action)
{
	struct owner *owner = ctx;

	assert_true(id_equal(ticket, action->request));
	owner->verdicts++;
	owner->last = action->type;
	owner->open_then = tickets_open(owner->tickets);
}

static const struct ticket_handler handler = { on_verdict };

static struct action verdict(uint32_t type, struct id ticket)
{
	return (struct action){ .type = type, .request = ticket };
}

static void test_a_full_table_is_an_answer(void **state)
{
	struct owner owner = { .tickets = tickets_new(2) };

	(void)state;
	struct id a = ticket_open(owner.tickets, &handler, &owner);
	struct id b = ticket_open(owner.tickets, &handler, &owner);
	assert_false(id_is_none(a));
	assert_false(id_equal(a, b));
	assert_true(id_is_none(ticket_open(owner.tickets, &handler, &owner)));
	ticket_close(owner.tickets, a);
	assert_false(id_is_none(ticket_open(owner.tickets, &handler, &owner)));
	tickets_free(owner.tickets);
}

static void test_a_dispatch_keeps_and_a_rejection_closes_the_ticket(void **state)
{
	struct owner owner = { .tickets = tickets_new(4) };

	(void)state;
	struct id ticket = ticket_open(owner.tickets, &handler, &owner);
	struct action dispatch = verdict(ACTION_DISPATCH, ticket);
	ticket_verdict(owner.tickets, &dispatch);
	assert_int_equal(owner.open_then, 1);
	struct action reject = verdict(ACTION_REJECT, ticket);
	ticket_verdict(owner.tickets, &reject);
	assert_int_equal(owner.last, ACTION_REJECT);
	assert_int_equal(owner.open_then, 0);
	ticket_verdict(owner.tickets, &reject);
	assert_int_equal(owner.verdicts, 2);
	tickets_free(owner.tickets);
}

static void test_a_verdict_for_an_older_life_reaches_nobody(void **state)
{
	struct owner first = { .tickets = tickets_new(1) }, second = first;

	(void)state;
	struct id old = ticket_open(first.tickets, &handler, &first);
	ticket_close(first.tickets, old);
	struct id new = ticket_open(first.tickets, &handler, &second);
	assert_int_equal(old.index, new.index);
	struct action cancel = verdict(ACTION_CANCEL, old);
	ticket_verdict(first.tickets, &cancel);
	ticket_close(first.tickets, old);
	assert_int_equal(first.verdicts + second.verdicts, 0);
	assert_int_equal(tickets_open(first.tickets), 1);
	tickets_free(first.tickets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_full_table_is_an_answer),
		cmocka_unit_test(test_a_dispatch_keeps_and_a_rejection_closes_the_ticket),
		cmocka_unit_test(test_a_verdict_for_an_older_life_reaches_nobody),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
