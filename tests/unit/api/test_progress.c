#include "../cmocka_all.h"

#include "api/progress.h"
#include "base/units.h"

static int64_t bytes_in, bytes_total;

void supervisor_load_bytes(const struct supervisor *supervisor, struct id instance, int64_t *out_bytes,
                           int64_t *out_total)
{
	(void)supervisor;
	(void)instance;
	*out_bytes = bytes_in;
	*out_total = bytes_total;
}

static struct load_progress look(uint32_t permille, int64_t elapsed_s, int64_t last_s)
{
	struct model_view model = { .state = MODEL_LOADING, .permille = permille,
		                    .loading_since_us = 100 * US_PER_S, .last_load_us = last_s * US_PER_S };
	struct load_progress progress;

	assert_true(load_progress(NULL, &model, (100 + elapsed_s) * US_PER_S, &progress));
	return progress;
}

static void assert_text(const struct load_progress *progress, const char *wanted)
{
	struct buf text = BUF_INIT;

	load_progress_text(progress, &text);
	assert_string_equal(buf_cstr(&text), wanted);
	buf_release(&text);
}

static void what_does_not_load_has_no_progress(void **state)
{
	struct model_view model = { .state = MODEL_IDLE, .permille = 1000 };
	struct load_progress progress;

	(void)state;
	assert_false(load_progress(NULL, &model, 1, &progress));
}

static void the_last_load_tells_how_long_this_one_takes(void **state)
{
	(void)state;
	bytes_in = 1 << 30;
	bytes_total = INT64_C(4) << 30;
	struct load_progress progress = look(250, 3, 10);
	assert_int_equal(progress.expected_us, 10 * US_PER_S);
	assert_int_equal(progress.left_us, 7 * US_PER_S);
	assert_text(&progress, "25 %, 1.00 GiB of 4.00 GiB, 7.0 s left");
}

static void a_share_beside_bytes_is_theirs(void **state)
{
	(void)state;
	bytes_in = 6 << 20;
	bytes_total = INT64_C(4) << 30;
	struct load_progress progress = look(60, 1, 0);
	assert_text(&progress, "0 %, 6.00 MiB of 4.00 GiB");
	bytes_in = bytes_total;
	progress = look(890, 3, 10); /* it is not ready for that */
	assert_text(&progress, "all 4.00 GiB read, 7.0 s left");
}

static void a_first_or_slower_load_goes_on_as_fast_as_up_to_now(void **state)
{
	(void)state;
	struct load_progress progress = look(250, 3, 0);
	assert_int_equal(progress.left_us, 9 * US_PER_S);
	progress = look(500, 20, 10);
	assert_int_equal(progress.left_us, 20 * US_PER_S);
}

static void what_nobody_knows_is_not_guessed(void **state)
{
	(void)state;
	bytes_in = bytes_total = 0;
	struct load_progress progress = look(20, 3, 0);
	assert_int_equal(progress.left_us, -1);
	assert_int_equal(progress.expected_us, 0);
	assert_text(&progress, "2 %");
	progress = look(890, 30, 10); /* all was read: what it does now takes as long as it takes */
	assert_int_equal(progress.left_us, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_does_not_load_has_no_progress),
		cmocka_unit_test(the_last_load_tells_how_long_this_one_takes),
		cmocka_unit_test(a_share_beside_bytes_is_theirs),
		cmocka_unit_test(a_first_or_slower_load_goes_on_as_fast_as_up_to_now),
		cmocka_unit_test(what_nobody_knows_is_not_guessed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
