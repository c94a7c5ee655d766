#ifndef GATEWAY_JOB_H
#define GATEWAY_JOB_H

#include <stdbool.h>

#include "engine/routes.h"
#include "gateway/gateway.h"

/*
 * job - work that goes on behind its answer.
 *
 * Some engines answer at once, with a number, and compute behind it (sd-server's
 * /sdcpp jobs). To the arbiter such a request must look as if it still ran: its
 * engine is neither idle nor to go. So the exchange that began the job stays,
 * without its client, and asks the engine how the job is, until
 *
 *   - the engine says that it is over, or that it knows no such job;
 *   - the engine does not answer JOB_FAILURES_MAX times in a row, or died;
 *   - JOB_LONGEST_US have passed.
 *
 * The result lies in the engine. A job that is over is kept JOB_RESULT_US for
 * the client to fetch it; less where it fetched it, where there is nothing to
 * fetch, or where another request waits for the model.
 *
 * Life cycle: job_new() with the head of a 202 -> job_collect() its body ->
 * job_begin() at its end, which takes the exchange over -> it ends the exchange,
 * or is freed with it.
 */
struct job;
struct exchange;

enum {
	JOB_FAILURES_MAX = 5,
	JOB_SAID_BYTES = 4096, /* of an answer: as much is kept as tells how a job is */
};

#define JOB_LONGEST_US INT64_C(21600000000) /* six hours */
#define JOB_RESULT_US INT64_C(10000000)

struct job *job_new(struct exchange *exchange, const struct job_rule *rule);
void job_collect(struct job *job, const struct str *parts, uint32_t count);
/* False: the answer names no job, and the exchange ends as any other. */
bool job_begin(struct job *job);
/* The engine is asked to give it up; the job goes on until it says that it did. */
void job_cancel(struct job *job);
void job_free(struct job *job); /* NULL: nothing */

/*
 * A client looked at `path` of that engine, and `said` is how the answer began: if that was a job's
 * result, its exchange may end.
 */
void job_looked_at(struct gateway *gateway, struct id instance, struct str path, struct str said);

/* The model whose engine knows the job of that path; MODEL_NONE: none does. */
uint32_t job_model(struct gateway *gateway, struct str path);

#endif
