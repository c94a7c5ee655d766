/* What was learned of a machine's pools, read where they have other numbers. */
#include "../cmocka_all.h"

#include <string.h>

#include "app/stored_learned.h"

enum { RAM = 11, CARD = 22, OTHER = 33 };

static const struct pool_names was = { { RAM, CARD, OTHER } }, is = { { RAM, OTHER, CARD } };

static struct learned_row row_on(uint32_t pool)
{
	struct learned_row row = { .file_key = 5, .build_key = 6, .loads = 3, .load_us = 1000 };

	row.base.bytes[0][USE_HOST] = 100;
	row.base.bytes[pool][USE_GPU] = 4000;
	row.peak.bytes[pool][USE_GPU] = 5000;
	row.sigma.bytes[pool][USE_GPU] = 50;
	row.sure.bytes[pool][USE_GPU] = 3900;
	return row;
}

static void bytes_follow_their_pool_s_name(void **state)
{
	struct learned_row row = row_on(1), wanted = row_on(2), out;
	struct stored_learned stored;
	(void)state;

	stored_learned_of(&row, &was, &stored);
	assert_true(stored_learned_here(&stored, &was, &out));
	assert_memory_equal(&out, &row, sizeof(row));
	assert_true(stored_learned_here(&stored, &is, &out));
	assert_memory_equal(&out, &wanted, sizeof(wanted));
}

/* It may come back: the row is not used until then, and not for another pool. */
static void a_pool_that_is_gone_has_nothing_here(void **state)
{
	const struct pool_names alone = { { RAM } }, replaced = { { RAM, 44 } };
	struct learned_row row = row_on(1), host = { .file_key = 5, .build_key = 6, .loads = 1 }, out;
	struct stored_learned stored;
	(void)state;

	stored_learned_of(&row, &was, &stored);
	assert_false(stored_learned_here(&stored, &alone, &out));
	assert_false(stored_learned_here(&stored, &replaced, &out));
	host.base.bytes[0][USE_HOST] = 100;
	stored_learned_of(&host, &was, &stored);
	assert_true(stored_learned_here(&stored, &alone, &out));
	assert_memory_equal(&out, &host, sizeof(host));
	stored.version++;
	assert_false(stored_learned_here(&stored, &alone, &out));
}

static void a_pace_belongs_to_a_pool_by_name_too(void **state)
{
	struct learned_row pace = { .file_key = LEARNED_PACE, .build_key = 1 }, out;
	const struct pool_names alone = { { RAM } };
	struct stored_learned stored;
	(void)state;

	pace.share_ppb[0] = 900000000;
	stored_learned_of(&pace, &was, &stored);
	assert_true(stored.row.build_key == CARD);
	assert_true(stored_learned_here(&stored, &is, &out));
	assert_true(out.build_key == 2 && out.share_ppb[0] == 900000000);
	assert_false(stored_learned_here(&stored, &alone, &out));
}

/* As earlier versions stored it: by number, which then meant what it means now. */
static void an_old_row_is_read(void **state)
{
	struct learned_row row = row_on(1), out;
	struct numbered_learned old;
	struct stored_learned stored;
	(void)state;

	row.sure = (struct amount){ 0 };
	memcpy(&old, &row, sizeof(old));
	stored_learned_of_numbered(&old, &was, &stored);
	assert_true(stored_learned_here(&stored, &was, &out));
	assert_memory_equal(&out, &row, sizeof(row));

	old = (struct numbered_learned){ .file_key = LEARNED_PACE, .build_key = CARD };
	stored_learned_of_numbered(&old, &was, &stored);
	assert_true(stored_learned_here(&stored, &was, &out) && out.build_key == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_follow_their_pool_s_name),
		cmocka_unit_test(a_pool_that_is_gone_has_nothing_here),
		cmocka_unit_test(a_pace_belongs_to_a_pool_by_name_too),
		cmocka_unit_test(an_old_row_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
