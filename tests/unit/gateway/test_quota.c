/* How much a key may ask for: a minute's requests at once, then evenly; so many under way. */
#include "../cmocka_all.h"

#include <string.h>

#include "base/units.h"
#include "gateway/failure.h"
#include "gateway/quota.h"

static char name[] = "laptop";

static bool take(struct list *quotas, const struct conf_key *key, int64_t at_ms, struct failure *failure)
{
	bool taken = quota_take(quotas, key, 1000000000 + at_ms * US_PER_MS, failure);

	if (taken)
		quota_return(quotas, key);
	return taken;
}

static void a_burst_and_then_evenly(void **state)
{
	struct conf_key key = { .name = name, .requests_per_min = 6 };
	struct failure failure;
	struct list quotas;
	(void)state;

	quota_init(&quotas);
	for (int i = 0; i < 6; i++)
		assert_true(take(&quotas, &key, i, &failure));
	assert_false(take(&quotas, &key, 10, &failure));
	assert_int_equal(failure.status, 429);
	assert_string_equal(failure.code, "key_rate");
	assert_int_equal(failure.retry_after_s, 10);
	assert_non_null(strstr(failure.text, "'laptop' may send 6 requests a minute"));
	assert_false(take(&quotas, &key, 9900, &failure));
	assert_int_equal(failure.retry_after_s, 1);
	assert_true(take(&quotas, &key, 10000, &failure));
	assert_false(take(&quotas, &key, 10001, &failure));
	assert_true(take(&quotas, &key, 20010, &failure));
	/* A long rest brings no more than one minute's. */
	for (int i = 0; i < 6; i++)
		assert_true(take(&quotas, &key, 86400000, &failure));
	assert_false(take(&quotas, &key, 86400000, &failure));
	quota_release(&quotas);
}

static void so_many_at_once(void **state)
{
	struct conf_key key = { .name = name, .parallel = 2 };
	char another[] = "server";
	struct conf_key other = { .name = another, .parallel = 1 };
	struct failure failure;
	struct list quotas;
	(void)state;

	quota_init(&quotas);
	assert_true(quota_take(&quotas, &key, 1, &failure));
	assert_true(quota_take(&quotas, &key, 2, &failure));
	assert_false(quota_take(&quotas, &key, 3, &failure));
	assert_string_equal(failure.code, "key_parallel");
	assert_true(failure.retry_after_s > 0);
	assert_true(quota_take(&quotas, &other, 3, &failure));
	quota_return(&quotas, &key);
	assert_true(quota_take(&quotas, &key, 4, &failure));
	quota_release(&quotas);
}

static bool take_at(struct list *quotas, const struct conf_key *key, int64_t s, struct failure *failure)
{
	return take(quotas, key, s * 1000, failure);
}

static void a_day_s_tokens(void **state)
{
	struct conf_key key = { .name = name, .tokens_per_day = 86400 }; /* one a second */
	struct failure failure;
	struct list quotas, later_life;
	int64_t now_us = 1000000000;
	(void)state;

	quota_init(&quotas);
	assert_true(take_at(&quotas, &key, 0, &failure));
	quota_charge(&quotas, &key, 86399, now_us);
	assert_true(take_at(&quotas, &key, 0, &failure)); /* one is left */
	struct quota_tokens used = quota_charge(&quotas, &key, 11, now_us);
	assert_int_equal(used.whole_at_us, now_us + 86410 * US_PER_S);
	assert_false(take_at(&quotas, &key, 0, &failure));
	assert_int_equal(failure.status, 429);
	assert_string_equal(failure.code, "key_tokens");
	assert_int_equal(failure.retry_after_s, 11);
	assert_non_null(strstr(failure.text, "'laptop' has used the 86400 tokens"));
	assert_non_null(strstr(failure.text, "the first in 11.0 s"));
	assert_false(take_at(&quotas, &key, 10, &failure));
	assert_true(take_at(&quotas, &key, 11, &failure));
	/* The next life takes it up where it was. */
	quota_init(&later_life);
	used.whole_at_us += 3600 * US_PER_S;
	quota_restore(&later_life, quota_key(name), &used, now_us);
	assert_false(take_at(&later_life, &key, 20, &failure));
	assert_int_equal(failure.retry_after_s, 60); /* an hour: but a client asks again sooner than that */
	assert_true(take_at(&later_life, &key, 3700, &failure));
	/* Also where a wrong clock put it years ahead. */
	used.whole_at_us = now_us + INT64_C(3650) * 86400 * US_PER_S;
	quota_restore(&later_life, quota_key(name), &used, now_us);
	assert_false(take_at(&later_life, &key, 86400, &failure));
	assert_true(take_at(&later_life, &key, 86402, &failure));
	quota_release(&quotas);
	quota_release(&later_life);
}

/* Tokens were used, and not a share of whatever the number will be: who may use more has the rest of it at once. */
static void a_day_s_number_may_change(void **state)
{
	struct conf_key key = { .name = name, .tokens_per_day = 86400 };
	struct failure failure;
	struct list quotas, later_life;
	int64_t now_us = 1000000000;
	(void)state;

	quota_init(&quotas);
	struct quota_tokens used = quota_charge(&quotas, &key, 2 * 86400, now_us);
	assert_false(take_at(&quotas, &key, 0, &failure));
	key.tokens_per_day = 4 * 86400;
	assert_true(take_at(&quotas, &key, 0, &failure));
	quota_charge(&quotas, &key, 2 * 86400 - 1, now_us);
	assert_true(take_at(&quotas, &key, 0, &failure));
	quota_charge(&quotas, &key, 5, now_us);
	assert_false(take_at(&quotas, &key, 0, &failure));
	assert_int_equal(failure.retry_after_s, 2); /* five, four a second */
	/* Also where it changed from one life to the next. */
	quota_init(&later_life);
	quota_restore(&later_life, quota_key(name), &used, now_us);
	assert_true(take_at(&later_life, &key, 0, &failure));
	key.tokens_per_day = 86400;
	assert_false(take_at(&later_life, &key, 0, &failure));
	assert_false(take_at(&later_life, &key, 86399, &failure));
	assert_true(take_at(&later_life, &key, 86402, &failure));
	/* Made smaller, none has to wait for more than a day. */
	key.tokens_per_day = 864;
	assert_false(take_at(&quotas, &key, 1, &failure));
	assert_false(take_at(&quotas, &key, 86399, &failure));
	assert_true(take_at(&quotas, &key, 86400 + 200, &failure));
	quota_release(&quotas);
	quota_release(&later_life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_and_then_evenly),
		cmocka_unit_test(so_many_at_once),
		cmocka_unit_test(a_day_s_tokens),
		cmocka_unit_test(a_day_s_number_may_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
