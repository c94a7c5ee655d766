#ifndef API_PAST_H
#define API_PAST_H

#include <stdint.h>

#include "core/action.h"
#include "gateway/gateway.h"

/*
 * past - the last decisions and ended requests, for people who ask why.
 *
 * Two rings of fixed size; the older ones are in the history. Names are copied,
 * because a key or a path dies with its exchange.
 */
enum { PAST_DECISIONS = 1024, PAST_REQUESTS = 256 };

struct past_request {
	struct exchange_end end; /* `key`, `side` and `path` are NULL here */
	char path[96];
	char key_name[48];
	char side_name[48];
	int64_t load_us;         /* the part of its wait that a load of its model took */
};

struct past {
	struct decision *decision;
	uint64_t decisions;      /* ever written: the newest is (decisions - 1) % PAST_DECISIONS */
	struct past_request *request;
	uint64_t requests;
};

void past_init(struct past *past);
void past_release(struct past *past);

void past_add_decision(struct past *past, const struct decision *decision);
/* Returns the row, which stays valid until PAST_REQUESTS more ended. */
const struct past_request *past_add_request(struct past *past, const struct exchange_end *end);

/* The i-th newest, from 0; NULL beyond the oldest that is kept. */
const struct decision *past_decision(const struct past *past, uint64_t i);
const struct past_request *past_request_at(const struct past *past, uint64_t i);
/* By its public number; NULL where it is not kept. */
const struct past_request *past_find_request(const struct past *past, uint64_t sequence);

/*
 * How long a load of `model` took within [from_us, to_us]: a request that waited
 * from..to waited so long for the load. 0 where none ended in that time.
 */
int64_t past_load_within(const struct past *past, uint32_t model, int64_t from_us, int64_t to_us);

#endif
