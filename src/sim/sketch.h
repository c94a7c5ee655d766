#ifndef SIM_SKETCH_H
#define SIM_SKETCH_H

#include "base/buf.h"
#include "sim/scene.h"

/*
 * sketch - a machine, its models and who asks for them, as somebody writes down his own: YAML.
 *
 * It says no more than its writer knows: sizes, load times, how often somebody
 * asks. Each seed draws another day of it (arrivals, lengths, others' use), as it
 * does of the study's workloads. The tables are in the language of cotenant.yaml
 * and the file is read as that one is: all that is wrong at once, each with its place.
 */
struct sketch_asks {
	int64_t every_us; /* from one arrival to the next, on average */
	uint32_t class;
	int64_t weight_milli;
	uint32_t at_once;
	int64_t turns_milli;
	int64_t think_us;
	int64_t work_us; /* < 0: the model's */
};

struct sketch_model {
	char *name;
	int64_t footprint_bytes, per_request_bytes;
	int64_t file_bytes; /* -1: the footprint */
	int64_t swing_bytes;
	uint32_t slots;
	int64_t startup_us;
	int64_t load_us; /* < 0: by startup and file */
	int64_t work_us, work_spread_milli;
	int64_t actual_milli;
	int64_t slows_milli, batching_milli;
	bool pin, reservation;
	struct sketch_asks *asks;
	size_t asks_count;
};

struct sketch {
	int64_t memory_bytes;
	int64_t disk_bytes, cache_bytes; /* a second */
	int64_t others_bytes, others_most_bytes; /* -1: by the machine's size */
	int64_t burst_bytes, burst_every_us, burst_lasts_us;
	int64_t hours_us;
	struct sketch_model *models;
	size_t models_count;
	char title[SCENE_NAME_BYTES];
};

/* Its keys, as doc/machine.md has them. */
void sketch_docs(struct buf *out);

/* NULL where something is wrong: `told` has a line for each. */
struct sketch *sketch_read(const char *path, struct buf *told);
void sketch_free(struct sketch *sketch); /* NULL does nothing */

/* Whether anybody ever asks for anything. */
bool sketch_asked(const struct sketch *sketch);
/* How many requests that would be, about. */
double sketch_requests(const struct sketch *sketch, double load, double hours);
enum { SKETCH_REQUESTS_MAX = 1000000 };

/* One day of it. hours <= 0: as long as the sketch says. scene_free() afterwards. */
void sketch_draw(const struct sketch *sketch, uint64_t seed, double load, double hours,
                 struct scene *scene);

#endif
