#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "core/decide.h"
#include "core/state.h"

/*
 * request - from arrival to its one end.
 *
 *   WAITING -> reject, done, or gone: its row is free at once
 *   WAITING -> request_dispatch() -> RUNNING -> finished or gone: free
 *   RUNNING -> request_cancel()   -> ENDING  -> finished or gone: free
 *
 * An ENDING request still holds its slot and its bytes: the engine may not have
 * noticed yet, and its index stays the shell's until the shell says so.
 */
struct refusal {
	uint32_t fail;   /* enum fail; FAIL_NONE: none */
	uint32_t reason; /* enum reason */
	int64_t retry_after_us;
	int64_t load_us; /* DEADLINE: what its load would take at least, longer than is left; 0: it passed */
	bool weighed;    /* verdict is valid */
	struct verdict verdict;
};

/* Of two that wait: by when they came for the first time, then in the order in which they were heard of. */
static inline bool request_came_before(const struct request *x, const struct request *y)
{
	return x->arrived_at != y->arrived_at ? x->arrived_at < y->arrived_at : x->arrival < y->arrival;
}

struct request *request_find(const struct arbiter *a, struct id id); /* NULL: stale */

void request_arrived(struct arbiter *a, struct id id, const struct request_spec *spec);
/* What an engine told of the answer, as in EVENT_REQUEST_FINISHED. */
struct answer_told {
	int64_t tokens_in, tokens_out, prefill_tokens, prefill_us, decode_us;
};
void request_ended(struct arbiter *a, struct request *request, enum fail fail,
                   const struct answer_told *told);

void request_dispatch(struct arbiter *a, struct instance *instance, struct request *request);
void request_cancel(struct arbiter *a, struct request *request, enum fail fail);
/*
 * A waiting one whose deadline is due, or cannot be met any more: it is rejected. One that has got its
 * model meanwhile waits on for the deadline itself.
 */
void request_expire(struct arbiter *a, struct request *request);
void request_reject(struct arbiter *a, struct request *request, const struct refusal *refusal);
void request_done(struct arbiter *a, struct request *request);

#endif
