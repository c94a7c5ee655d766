#ifndef IO_WORKER_H
#define IO_WORKER_H

#include <uv.h>

/*
 * worker - one piece of work that may block, done by a thread.
 *
 * run() sees the job alone and shares nothing else with the loop; done() runs on
 * the loop afterwards, always, exactly once, and may free the job.
 */
struct job {
	uv_work_t request;      /* private */
	void (*run)(struct job *job);
	void (*done)(struct job *job);
};

void worker_start(struct uv_loop_s *loop, struct job *job);

#endif
