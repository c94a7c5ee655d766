#include "api/past.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/str.h"

void past_init(struct past *past)
{
	*past = (struct past){
		.decision = xcalloc(PAST_DECISIONS, sizeof(struct decision)),
		.request = xcalloc(PAST_REQUESTS, sizeof(struct past_request)),
	};
}

void past_release(struct past *past)
{
	free(past->decision);
	free(past->request);
	*past = (struct past){ 0 };
}

void past_add_decision(struct past *past, const struct decision *decision)
{
	past->decision[past->decisions++ % PAST_DECISIONS] = *decision;
}

const struct decision *past_decision(const struct past *past, uint64_t i)
{
	if (i >= past->decisions || i >= PAST_DECISIONS)
		return NULL;
	return &past->decision[(past->decisions - 1 - i) % PAST_DECISIONS];
}

const struct past_request *past_request_at(const struct past *past, uint64_t i)
{
	if (i >= past->requests || i >= PAST_REQUESTS)
		return NULL;
	return &past->request[(past->requests - 1 - i) % PAST_REQUESTS];
}

const struct past_request *past_find_request(const struct past *past, uint64_t sequence)
{
	const struct past_request *row;

	for (uint64_t i = 0; (row = past_request_at(past, i)); i++)
		if (row->end.sequence == sequence)
			return row;
	return NULL;
}

int64_t past_load_within(const struct past *past, uint32_t model, int64_t from_us, int64_t to_us)
{
	const struct decision *decision;

	for (uint64_t i = 0; (decision = past_decision(past, i)) && decision->at_us >= from_us; i++) {
		if (decision->kind != DECISION_READY || decision->model != model ||
		    decision->at_us > to_us)
			continue;
		int64_t waited = decision->at_us - from_us;
		return decision->load_us < waited ? decision->load_us : waited;
	}
	return 0;
}

/* When it stopped waiting: at its dispatch, or with its end where it never was. */
static int64_t wait_end(const struct exchange_end *end)
{
	return end->dispatched_at_us ? end->dispatched_at_us : end->ended_at_us;
}

const struct past_request *past_add_request(struct past *past, const struct exchange_end *end)
{
	struct past_request *row = &past->request[past->requests++ % PAST_REQUESTS];

	*row = (struct past_request){ .end = *end };
	row->end.key = NULL;
	row->end.path = NULL;
	row->end.side = NULL;
	str_copy(row->path, sizeof(row->path), str_from(end->path));
	str_copy(row->key_name, sizeof(row->key_name), str_from(end->key ? end->key->name : NULL));
	str_copy(row->side_name, sizeof(row->side_name), str_from(end->side ? end->side->name : NULL));
	row->load_us = past_load_within(past, end->model, end->arrived_at_us, wait_end(end));
	return row;
}
