#ifndef API_WAIT_H
#define API_WAIT_H

#include "api/past.h"
#include "api/sentence.h"

/*
 * wait - why a request waited, in words with the numbers of the decisions meanwhile:
 *
 *   image held 26.0 GiB until 14:02:11; embed went for it (asked for in the last hour: embed never, chat 40
 *   times; bringing embed back takes 400 ms and was expected to cost next to nothing, so seldom is it asked for);
 *   chat loaded in 2.1 s
 *
 * It reads the ring of past decisions: who was told to go for the request's model between its arrival and
 * its start, when their memory was seen to come back, and what the load took.
 */
struct wait_ask {
	uint64_t request; /* its sequence */
	uint32_t model;
	int64_t from_us;  /* its arrival */
	int64_t until_us; /* its start; or its end, or now */
	int64_t wall_offset_us;
};

/* Appends nothing where nothing is known. */
void wait_text(const struct past *past, const struct wait_ask *ask, const struct names *names, struct buf *out);

#endif
