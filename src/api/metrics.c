#include "api/metrics.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/units.h"

#define MS US_PER_MS
#define S US_PER_S
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* From what a hot model answers in to what a large cold one takes. */
static const int64_t request_bounds[] = { 1 * MS,   5 * MS,  10 * MS, 50 * MS, 100 * MS, 250 * MS,
	                                  500 * MS, 1 * S,   2500 * MS, 5 * S, 10 * S,   30 * S,
	                                  60 * S,   120 * S, 300 * S, 600 * S };
static const int64_t step_bounds[] = { 1,    2,    5,    10,    20,    50,    100,
	                               200,  500,  1 * MS, 2 * MS, 5 * MS, 10 * MS, 50 * MS };

static void histogram_init(struct histogram *histogram, const int64_t *bounds, size_t count)
{
	*histogram = (struct histogram){ .bounds_us = bounds, .bounds = (uint32_t)count };
}

void metrics_init(struct metrics *metrics, uint32_t models)
{
	*metrics = (struct metrics){ .models = models };
	histogram_init(&metrics->wait, request_bounds, COUNT_OF(request_bounds));
	histogram_init(&metrics->load, request_bounds, COUNT_OF(request_bounds));
	histogram_init(&metrics->first_byte, request_bounds, COUNT_OF(request_bounds));
	histogram_init(&metrics->duration, request_bounds, COUNT_OF(request_bounds));
	histogram_init(&metrics->step, step_bounds, COUNT_OF(step_bounds));
	metrics->outcome = xcalloc((size_t)models + 1, sizeof(*metrics->outcome));
	metrics->tokens_per_s = xcalloc((size_t)models + 1, sizeof(*metrics->tokens_per_s));
	metrics->begun = xcalloc((size_t)models + 1, sizeof(*metrics->begun));
	metrics->begun_late = xcalloc((size_t)models + 1, sizeof(*metrics->begun_late));
}

void metrics_release(struct metrics *metrics)
{
	free(metrics->outcome);
	free(metrics->tokens_per_s);
	free(metrics->begun);
	free(metrics->begun_late);
	*metrics = (struct metrics){ 0 };
}

void histogram_add(struct histogram *histogram, int64_t us)
{
	uint32_t bucket = 0;

	if (us < 0)
		us = 0;
	while (bucket < histogram->bounds && us > histogram->bounds_us[bucket])
		bucket++;
	histogram->count[bucket]++;
	histogram->sum_us += us;
}

void metrics_count(struct metrics *metrics, uint32_t model, uint32_t outcome)
{
	uint32_t row = model < metrics->models ? model : metrics->models;

	if (outcome < OUTCOME_COUNT)
		metrics->outcome[row][outcome]++;
}

void metrics_begun(struct metrics *metrics, uint32_t model, int64_t us, int64_t target_us)
{
	if (model >= metrics->models)
		return;
	if (us > target_us)
		metrics->begun_late[model]++;
	else
		metrics->begun[model]++;
}

void metrics_speed(struct metrics *metrics, uint32_t model, int64_t tokens, int64_t us)
{
	if (model >= metrics->models || tokens <= 0 || us <= 0)
		return;
	double *speed = &metrics->tokens_per_s[model];
	double now = (double)tokens * US_PER_S / (double)us;
	/* A short answer is a noisy measurement: it moves the figure by a third. */
	*speed = *speed > 0 ? *speed + (now - *speed) / 3 : now;
}

/* ---- the text ---- */

static const char *type_name(enum metric_type type)
{
	static const char *const names[] = { [METRIC_GAUGE] = "gauge",
		                             [METRIC_COUNTER] = "counter",
		                             [METRIC_HISTOGRAM] = "histogram" };
	return names[type];
}

void metric_head(struct buf *out, const char *name, enum metric_type type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type_name(type));
}

static void put_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_append_str(out, STR("\\n"));
		else if (*text == '"' || *text == '\\')
			buf_printf(out, "\\%c", *text);
		else
			buf_append_char(out, *text);
	}
}

static void put_labels(struct buf *out, const struct label *labels)
{
	if (!labels || !labels->name)
		return;
	buf_append_char(out, '{');
	for (const struct label *label = labels; label->name; label++) {
		buf_printf(out, "%s%s=\"", label == labels ? "" : ",", label->name);
		put_escaped(out, label->value ? label->value : "");
		buf_append_char(out, '"');
	}
	buf_append_char(out, '}');
}

static void put_name(struct buf *out, const char *name, const struct label *labels)
{
	buf_printf(out, "%s", name);
	put_labels(out, labels);
	buf_append_char(out, ' ');
}

void metric_int(struct buf *out, const char *name, const struct label *labels, int64_t value)
{
	put_name(out, name, labels);
	buf_printf(out, "%lld\n", (long long)value);
}

/* Whole microseconds as seconds, exactly and without a locale's comma. */
static void put_seconds(struct buf *out, int64_t us)
{
	if (us < 0) {
		buf_append_char(out, '-');
		us = -us;
	}
	buf_printf(out, "%lld.%06lld", (long long)(us / S), (long long)(us % S));
}

void metric_seconds(struct buf *out, const char *name, const struct label *labels, int64_t us)
{
	put_name(out, name, labels);
	put_seconds(out, us);
	buf_append_char(out, '\n');
}

void metric_histogram(struct buf *out, const char *name, const char *help,
                      const struct histogram *histogram)
{
	uint64_t below = 0;

	metric_head(out, name, METRIC_HISTOGRAM, help);
	for (uint32_t i = 0; i <= histogram->bounds; i++) {
		below += histogram->count[i];
		buf_printf(out, "%s_bucket{le=\"", name);
		if (i < histogram->bounds)
			put_seconds(out, histogram->bounds_us[i]);
		else
			buf_append_str(out, STR("+Inf"));
		buf_printf(out, "\"} %llu\n", (unsigned long long)below);
	}
	buf_printf(out, "%s_sum ", name);
	put_seconds(out, histogram->sum_us);
	buf_printf(out, "\n%s_count %llu\n", name, (unsigned long long)below);
}
