#include "io/worker.h"

#include <assert.h>

static void on_work(uv_work_t *request)
{
	struct job *job = request->data;
	job->run(job);
}

static void on_done(uv_work_t *request, int status)
{
	struct job *job = request->data;

	assert(status == 0); /* nothing here cancels */
	job->done(job);
}

void worker_start(struct uv_loop_s *loop, struct job *job)
{
	job->request.data = job;
	int error = uv_queue_work(loop, &job->request, on_work, on_done);
	assert(error == 0); /* it fails only without a function to run */
}
