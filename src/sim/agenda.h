#ifndef SIM_AGENDA_H
#define SIM_AGENDA_H

#include <stdbool.h>
#include <stdint.h>

/*
 * agenda - what will happen in a simulated world, by time.
 *
 * Equal times keep the order in which they were noted, so that a run depends on
 * its seed alone. Nothing is ever struck out: who finds that an entry came too
 * late (its life number is another) ignores it.
 */
struct happening {
	int64_t at_us;
	uint64_t order;
	uint32_t kind;
	uint32_t index; /* of a request, engine or model */
	uint64_t life;  /* which life of it was meant */
};

struct agenda {
	struct happening *items;
	uint32_t count;
	uint32_t capacity;
	uint64_t noted;
};

void agenda_note(struct agenda *agenda, int64_t at_us, uint32_t kind, uint32_t index, uint64_t life);
/* The next, or false where nothing is to come. */
bool agenda_next(struct agenda *agenda, struct happening *out);
/* Everything happens so much later. */
void agenda_delay(struct agenda *agenda, int64_t by_us);
void agenda_free(struct agenda *agenda);

#endif
