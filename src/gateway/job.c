#include "gateway/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/units.h"
#include "gateway/exchange.h"

enum {
	PAUSE_MIN_MS = 200,
	PAUSE_MAX_MS = 2000,
	ANSWER_MS = 10000,
	ID_MAX = 64,
};

struct job {
	struct exchange *exchange;
	const struct job_rule *rule;
	uv_timer_t *timer;            /* the next question, or the end of waiting for an answer */
	struct upstream *upstream;    /* the question that is out */
	struct intake no_body;
	struct buf said;
	char *path;                   /* at the engine; NULL: it has not begun */
	uint64_t pause_ms;
	int64_t began_at_us, over_at_us;
	int status;
	uint32_t failures;
	bool cancels;                 /* the question that is out, or the next one, is to give it up */
	bool cancelled;
};

static void on_timer(uv_timer_t *timer);

static bool holds(struct str text, const char *what)
{
	return memmem(text.data, text.length, what, strlen(what)) != NULL;
}

/* ---- the beginning ---- */

struct job *job_new(struct exchange *exchange, const struct job_rule *rule)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->exchange = exchange;
	job->rule = rule;
	return job;
}

void job_collect(struct job *job, const struct str *parts, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t room = JOB_SAID_BYTES - buf_length(&job->said);
		struct str part = { parts[i].data, parts[i].length < room ? parts[i].length : room };
		buf_append_str(&job->said, part);
	}
}

static bool may_be_in_id(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
}

/* The value of "id" in what the engine said; empty where there is none that can stand in a path. */
static struct str find_id(struct str said)
{
	static const char key[] = "\"id\"";
	const char *at = memmem(said.data, said.length, key, sizeof(key) - 1);

	if (!at)
		return STR("");
	size_t used = (size_t)(at - said.data) + sizeof(key) - 1;
	struct str rest = str_trim((struct str){ said.data + used, said.length - used });
	if (!str_starts(rest, ":"))
		return STR("");
	rest = str_trim((struct str){ rest.data + 1, rest.length - 1 });
	if (!str_starts(rest, "\""))
		return STR("");
	struct str id = { rest.data + 1, 0 };
	while (id.length + 1 < rest.length && id.length <= ID_MAX && may_be_in_id(id.data[id.length]))
		id.length++;
	bool ends = id.length + 1 < rest.length && id.data[id.length] == '"';
	return ends && id.length <= ID_MAX ? id : STR("");
}

static void ask_later(struct job *job, uint64_t ms)
{
	uv_timer_start(job->timer, on_timer, ms, 0);
}

bool job_begin(struct job *job)
{
	struct str id = find_id(buf_str(&job->said));

	if (id.length == 0)
		return false;
	job->path = xasprintf("%s%.*s", job->rule->path, STR_ARG(id));
	job->began_at_us = boot_now_us();
	job->pause_ms = PAUSE_MIN_MS;
	job->timer = xcalloc(1, sizeof(*job->timer));
	uv_timer_init(job->exchange->gateway->reactor->loop, job->timer);
	job->timer->data = job;
	ask_later(job, job->pause_ms);
	return true;
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle);
}

void job_free(struct job *job)
{
	if (!job)
		return;
	upstream_free(job->upstream);
	if (job->timer)
		uv_close((uv_handle_t *)job->timer, on_timer_closed);
	buf_release(&job->said);
	free(job->path);
	free(job);
}

/* The job is freed with its exchange. */
static void end(struct job *job)
{
	if (job->cancelled)
		exchange_fail(job->exchange, FAIL_CANCELLED, NULL);
	else
		exchange_end(job->exchange);
}

static bool somebody_waits(const struct job *job)
{
	LIST_EACH (node, &job->exchange->gateway->exchanges) {
		const struct exchange *other = LIST_ENTRY(node, struct exchange, node);
		if (other->stage == STAGE_WAITING && other->model == job->exchange->model)
			return true;
	}
	return false;
}

static void drop_question(struct job *job)
{
	upstream_free(job->upstream);
	job->upstream = NULL;
}

/* ---- asking ---- */

static bool is_running(const struct job *job, struct str said)
{
	return holds(said, job->rule->runs);
}

static void note_over(struct job *job)
{
	job->over_at_us = boot_now_us();
	bool has_result = job->status == 200 && !holds(buf_str(&job->said), job->rule->has_none);
	if (has_result && !job->cancelled)
		ask_later(job, PAUSE_MIN_MS);
	else
		end(job);
}

/* What was asked is answered, as far as it was needed. */
static void judge(struct job *job)
{
	bool was_cancel = job->cancels;

	drop_question(job);
	job->failures = 0;
	job->cancels = false;
	if (was_cancel) {
		ask_later(job, 0);
		return;
	}
	if (job->status != 200 || !is_running(job, buf_str(&job->said))) {
		note_over(job);
		return;
	}
	job->pause_ms = job->pause_ms * 3 / 2 < PAUSE_MAX_MS ? job->pause_ms * 3 / 2 : PAUSE_MAX_MS;
	ask_later(job, job->pause_ms);
}

static void fail(struct job *job)
{
	drop_question(job);
	job->cancels = false;
	if (++job->failures >= JOB_FAILURES_MAX)
		end(job);
	else
		ask_later(job, job->pause_ms);
}

static void on_head(void *ctx, const struct message *head, enum body_kind kind, int64_t length)
{
	struct job *job = ctx;

	(void)kind;
	(void)length;
	job->status = head->status;
}

static void on_body(void *ctx, const struct str *parts, uint32_t count)
{
	job_collect(ctx, parts, count);
}

/* A result may be megabytes: what came tells already how the job is. */
static void on_pause(void *ctx)
{
	struct job *job = ctx;

	if (buf_length(&job->said) == JOB_SAID_BYTES)
		judge(job);
}

static void on_end(void *ctx)
{
	judge(ctx);
}

static void on_failed(void *ctx, const char *what)
{
	(void)what;
	fail(ctx);
}

static void on_unreachable(void *ctx)
{
	fail(ctx);
}

static const struct upstream_events upstream_events = {
	.on_head = on_head,
	.on_body = on_body,
	.on_pause = on_pause,
	.on_end = on_end,
	.on_failed = on_failed,
	.on_unreachable = on_unreachable,
};

static void ask(struct job *job)
{
	const struct gateway_host *host = &job->exchange->gateway->host;
	struct upstream_request request = {
		.instance = job->exchange->instance,
		.keep = 1,
		.method = job->cancels ? METHOD_POST : METHOD_GET,
		.body = &job->no_body,
	};
	struct buf head = BUF_INIT;

	if (!host->endpoint(host->ctx, job->exchange->instance, &request.endpoint)) {
		fail(job);
		return;
	}
	buf_release(&job->said);
	buf_printf(&head, "%s %s%s HTTP/1.1\r\nHost: localhost\r\n", method_text(request.method), job->path,
	           job->cancels ? job->rule->cancel : "");
	request.head = buf_str(&head);
	job->upstream = upstream_start(job->exchange->gateway, &request, &upstream_events, job);
	buf_release(&head);
	uv_timer_start(job->timer, on_timer, ANSWER_MS, 0);
}

static void on_timer(uv_timer_t *timer)
{
	struct job *job = timer->data;
	int64_t now_us = boot_now_us();

	if (now_us - job->began_at_us > JOB_LONGEST_US) {
		end(job);
	} else if (job->over_at_us) {
		if (now_us - job->over_at_us > JOB_RESULT_US || somebody_waits(job))
			end(job);
		else
			ask_later(job, PAUSE_MIN_MS);
	} else if (job->upstream) {
		fail(job); /* it was given ANSWER_MS */
	} else {
		ask(job);
	}
}

void job_cancel(struct job *job)
{
	job->cancelled = true;
	if (job->over_at_us) {
		end(job);
		return;
	}
	drop_question(job);
	job->cancels = job->rule->cancel != NULL;
	ask_later(job, 0);
}

/* ---- what clients do with it ---- */

static struct job *job_of(struct gateway *gateway, struct str path)
{
	LIST_EACH (node, &gateway->exchanges) {
		struct exchange *exchange = LIST_ENTRY(node, struct exchange, node);
		struct job *job = exchange->job;
		if (job && job->path && str_starts(path, job->path) &&
		    (path.length == strlen(job->path) || path.data[strlen(job->path)] == '/'))
			return job;
	}
	return NULL;
}

void job_looked_at(struct gateway *gateway, struct id instance, struct str path, struct str said)
{
	struct job *job = job_of(gateway, path);

	if (!job || !id_equal(job->exchange->instance, instance))
		return;
	if (path.length == strlen(job->path) && !is_running(job, said))
		end(job);
	else if (!job->upstream && !job->over_at_us)
		ask_later(job, 0); /* it may just have been given up */
}

uint32_t job_model(struct gateway *gateway, struct str path)
{
	struct job *job = job_of(gateway, path);

	return job ? job->exchange->model : MODEL_NONE;
}
