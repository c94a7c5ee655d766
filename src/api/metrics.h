#ifndef API_METRICS_H
#define API_METRICS_H

#include <stdint.h>

#include "api/outcome.h"
#include "base/buf.h"
#include "base/str.h"
#include "core/fail.h"

/*
 * metrics - counts and histograms, and the text that Prometheus reads.
 *
 * What the arbiter counts is read from it when asked; here is what only the
 * outside sees: how long requests waited, what became of them, what a decision
 * cost. Times go in as microseconds and come out as seconds.
 *
 * Writing: metric_head() once a family, then its samples, so that all samples
 * of a family stand together, as the format wants.
 */
enum { HISTOGRAM_BUCKETS_MAX = 16 };

struct histogram {
	const int64_t *bounds_us; /* rising; the last bucket, +Inf, has none */
	uint32_t bounds;
	uint64_t count[HISTOGRAM_BUCKETS_MAX + 1];
	int64_t sum_us;
};

struct metrics {
	struct histogram wait;       /* arrival to dispatch */
	struct histogram load;       /* of engines */
	struct histogram first_byte; /* arrival to the engine's first byte */
	struct histogram duration;   /* arrival to end */
	struct histogram step;       /* one arbiter step */
	uint64_t (*outcome)[OUTCOME_COUNT]; /* by model, the last row for requests of none */
	uint64_t endings[CAUSE_COUNT]; /* of engines that nobody told to end */
	double *tokens_per_s;        /* by model: of its last answers; 0 = unknown */
	uint64_t *begun, *begun_late; /* by model: answers with a first byte under its set's target, and past it */
	uint32_t models;
};

void metrics_init(struct metrics *metrics, uint32_t models);
void metrics_release(struct metrics *metrics);
void histogram_add(struct histogram *histogram, int64_t us);
/* `model` beyond the table counts as none. */
void metrics_count(struct metrics *metrics, uint32_t model, uint32_t outcome);

/* Its first byte came after so long; its set wants it within `target_us`. */
void metrics_begun(struct metrics *metrics, uint32_t model, int64_t us, int64_t target_us);

/* An answer of so many tokens was made in so long; what tells nothing (0 tokens, no time) is left out. */
void metrics_speed(struct metrics *metrics, uint32_t model, int64_t tokens, int64_t us);

enum metric_type { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

struct label {
	const char *name; /* NULL ends a list */
	const char *value;
};

void metric_head(struct buf *out, const char *name, enum metric_type type, const char *help);
/* `labels` may be NULL. */
void metric_int(struct buf *out, const char *name, const struct label *labels, int64_t value);
void metric_seconds(struct buf *out, const char *name, const struct label *labels, int64_t us);
/* Head and samples. */
void metric_histogram(struct buf *out, const char *name, const char *help,
                      const struct histogram *histogram);

#endif
