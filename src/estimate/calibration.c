#include "estimate/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

/* One load: what was said before, against what it took. */
struct judged {
	uint64_t build;
	int64_t at_ms;
	bool covered;
	double error, off, above;
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(double *values, uint32_t count, double share)
{
	if (count == 0)
		return 0;
	qsort(values, count, sizeof(*values), ascending);
	return values[(uint32_t)(share * (count - 1))];
}

/* The loads from `first` on, `count` of the stream; of one build where `build` is given. */
static struct calibration_part part_of(const struct judged *judged, uint32_t first, uint32_t count,
                                       const uint64_t *build)
{
	struct calibration_part out = { .build = build ? *build : 0, .first = first };
	double *error = xcalloc(count + 1, sizeof(*error)), *above = xcalloc(count + 1, sizeof(*above));
	double *off = xcalloc(count + 1, sizeof(*off)), *size = xcalloc(count + 1, sizeof(*size));

	for (uint32_t i = first; i < first + count; i++) {
		if (build && judged[i].build != *build)
			continue;
		if (out.loads == 0)
			out.at_ms = judged[i].at_ms;
		error[out.loads] = fabs(judged[i].error);
		off[out.loads] = judged[i].off;
		size[out.loads] = fabs(judged[i].off);
		above[out.loads++] = judged[i].above;
		out.covered += judged[i].covered;
	}
	out.error_median = quantile(error, out.loads, 0.5);
	out.error_p95 = quantile(error, out.loads, 0.95);
	out.above_median = quantile(above, out.loads, 0.5);
	out.off_median = quantile(off, out.loads, 0.5);
	out.off_p95 = quantile(size, out.loads, 0.95);
	free(error);
	free(above);
	free(off);
	free(size);
	return out;
}

static uint32_t judge(const struct observation *observations, const int64_t *at_ms, uint32_t count,
                      struct judged *out, uint32_t *killed)
{
	struct corrector *corrector = corrector_new();
	uint32_t loads = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct observation *o = &observations[i];
		struct correction said;
		corrector_observe(corrector, o, &said);
		if (o->total_bytes <= 0) {
			(*killed)++;
			continue;
		}
		double total = (double)o->total_bytes;
		/* Buffers that nobody touched yet are no fault of the estimate. */
		double least = o->touched ? total : fmax(total, (double)said.best_bytes);
		out[loads++] = (struct judged){
			.build = o->keys.build,
			.at_ms = at_ms ? at_ms[i] : 0,
			.covered = total <= (double)said.upper_bytes,
			.error = ((double)said.best_bytes - least) / total,
			.off = ((double)said.best_bytes - total) / total,
			.above = ((double)said.upper_bytes - total) / total,
		};
	}
	corrector_free(corrector);
	return loads;
}

static void find_builds(const struct judged *judged, uint32_t loads, struct calibration *out)
{
	for (uint32_t i = 0; i < loads; i++) {
		uint32_t j = 0;
		while (j < out->builds && out->build[j].build != judged[i].build)
			j++;
		if (j < out->builds || j == CALIBRATION_BUILDS)
			continue;
		uint64_t build = judged[i].build;
		out->build[out->builds++] = part_of(judged, i, loads - i, &build);
	}
}

void calibrate(const struct observation *observations, const int64_t *at_ms, uint32_t count, struct calibration *out)
{
	struct judged *judged = xcalloc(count + 1, sizeof(*judged));

	*out = (struct calibration){ 0 };
	uint32_t loads = judge(observations, at_ms, count, judged, &out->killed);
	out->all = part_of(judged, 0, loads, NULL);
	uint32_t length = (loads + CALIBRATION_SPANS - 1) / CALIBRATION_SPANS;
	length = length < CALIBRATION_FEW ? CALIBRATION_FEW : length;
	for (uint32_t first = 0; first < loads; first += length)
		out->span[out->spans++] =
			part_of(judged, first, loads - first < length ? loads - first : length, NULL);
	find_builds(judged, loads, out);
	free(judged);
}
