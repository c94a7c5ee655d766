#include "../cmocka_all.h"

#include "api/metrics.h"

static void a_label_is_escaped_as_the_format_wants(void **state)
{
	const struct label labels[] = { { "model", "a\"b\\c\nd" }, { "state", "idle" }, { 0 } };
	struct buf out = BUF_INIT;

	(void)state;
	metric_int(&out, "x", labels, -7);
	assert_string_equal(buf_cstr(&out), "x{model=\"a\\\"b\\\\c\\nd\",state=\"idle\"} -7\n");
	buf_release(&out);
}

static void seconds_are_exact(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	metric_seconds(&out, "x", NULL, INT64_C(1700000000123456));
	metric_seconds(&out, "y", NULL, -1500000);
	assert_string_equal(buf_cstr(&out), "x 1700000000.123456\ny -1.500000\n");
	buf_release(&out);
}

static void a_histogram_counts_from_below_and_ends_with_infinity(void **state)
{
	struct metrics metrics;
	struct buf out = BUF_INIT;
	const char *text;

	(void)state;
	metrics_init(&metrics, 4);
	histogram_add(&metrics.wait, 500);               /* below the first bound */
	histogram_add(&metrics.wait, 1000);              /* on it: counts there */
	histogram_add(&metrics.wait, INT64_C(3600000000)); /* beyond the last */
	histogram_add(&metrics.wait, -5);                /* a clock that stepped */
	metric_histogram(&out, "w", "Help.", &metrics.wait);
	text = buf_cstr(&out);
	assert_non_null(strstr(text, "# HELP w Help.\n# TYPE w histogram\n"));
	assert_non_null(strstr(text, "w_bucket{le=\"0.001000\"} 3\n"));
	assert_non_null(strstr(text, "w_bucket{le=\"600.000000\"} 3\n"));
	assert_non_null(strstr(text, "w_bucket{le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(text, "w_count 4\n"));
	assert_non_null(strstr(text, "w_sum 3600.001500\n"));
	buf_release(&out);
	metrics_release(&metrics);
}

static void outcomes_are_counted_by_model_and_strangers_together(void **state)
{
	struct metrics metrics;

	(void)state;
	metrics_init(&metrics, 2);
	metrics_count(&metrics, 1, FAIL_NONE);
	metrics_count(&metrics, 2, FAIL_UNKNOWN_MODEL);
	metrics_count(&metrics, UINT32_MAX, FAIL_UNKNOWN_MODEL);
	metrics_count(&metrics, 0, OUTCOME_COUNT);
	assert_int_equal(metrics.outcome[1][FAIL_NONE], 1);
	assert_int_equal(metrics.outcome[2][FAIL_UNKNOWN_MODEL], 2);
	metrics_release(&metrics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_label_is_escaped_as_the_format_wants),
		cmocka_unit_test(seconds_are_exact),
		cmocka_unit_test(a_histogram_counts_from_below_and_ends_with_infinity),
		cmocka_unit_test(outcomes_are_counted_by_model_and_strangers_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
