#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calibration_json.h"
#include "api/inside.h"
#include "api/memory.h"
#include "base/alloc.h"
#include "base/units.h"

/*
 * The loop answers this, so a stuck loop does not answer at all. What is left to
 * find out is whether the arbiter still takes events and the samples come.
 */
static const int64_t stuck_after_us = 30 * US_PER_S;

/* Where programs on this machine find us; null where only a socket is listened on. */
static json_t *own_url(const struct api *api)
{
	const struct conf *conf = api->host.conf(api->host.ctx);
	char url[300];

	for (size_t i = 0; i < conf->listens; i++) {
		const char *host = conf->listen[i].host;
		if (!host || conf->listen[i].port == 0)
			continue;
		if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
			host = "127.0.0.1";
		bool v6 = strchr(host, ':') != NULL;
		snprintf(url, sizeof(url), "http://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", conf->listen[i].port);
		return json_lossy(str_from(url));
	}
	return json_null();
}

void handle_health(struct api *api, struct call *call, const char *name)
{
	struct api_now now;

	(void)name;
	api->host.now(api->host.ctx, &now);
	int64_t step_age = now.now_us - now.stepped_at_us;
	int64_t sampled_at = now.sampled_at_us ? now.sampled_at_us : api->options.started_at_us;
	int64_t sample_age = now.now_us - sampled_at;
	bool step_ok = step_age < stuck_after_us, sample_ok = sample_age < stuck_after_us && !(now.unread && now.unread[0]);
	const char *status = !step_ok     ? "the arbiter takes no events"
	                     : !sample_ok ? "the machine's memory cannot be read"
	                     : now.draining ? "draining"
	                                    : "ok";

	api_reply(call, step_ok && sample_ok ? 200 : 503,
	          json_pack("{s:s, s:b, s:I, s:I, s:I, s:s, s:o}", "status", status, "draining", now.draining,
	                    "step_age_ms", (json_int_t)(step_age / US_PER_MS), "sample_age_ms",
	                    (json_int_t)(sample_age / US_PER_MS), "up_ms",
	                    (json_int_t)((now.now_us - api->options.started_at_us) / US_PER_MS),
	                    "version", api->options.version, "url", own_url(api)));
}

void handle_calibration(struct api *api, struct call *call, const char *name)
{
	struct calibration calibration;

	(void)name;
	api->host.calibration(api->host.ctx, &calibration);
	api_reply(call, 200, calibration_json(&calibration));
}

/* A caller whose answer is still awaited. */
struct waiting {
	struct list node;
	struct api *api;
	struct call *call; /* NULL: nobody waits any more */
};

static void on_caller_gone(void *ctx, struct call *call)
{
	struct waiting *waiting = ctx;

	(void)call;
	waiting->call = NULL;
}

static struct waiting *wait_with(struct api *api, struct call *call)
{
	struct waiting *waiting = xmalloc(sizeof(*waiting));

	waiting->api = api;
	waiting->call = call;
	list_append(&api->waiting, &waiting->node);
	call_on_gone(call, on_caller_gone, waiting);
	return waiting;
}

/* The caller, to be answered now; NULL where it has left. */
static struct call *end_waiting(struct waiting *waiting)
{
	struct call *call = waiting->call;

	list_remove(&waiting->node);
	free(waiting);
	if (call)
		call_on_gone(call, NULL, NULL);
	return call;
}

static void on_programs(void *arg, const struct programs *programs)
{
	struct api *api = ((struct waiting *)arg)->api;
	struct call *call = end_waiting(arg);
	const struct conf *conf = api->host.conf(api->host.ctx);
	struct api_now now;

	if (!call)
		return;
	api->host.now(api->host.ctx, &now);
	json_t *json = memory_json(&(struct memory_input){
		.arbiter = api->host.arbiter(api->host.ctx),
		.topology = api->host.topology(api->host.ctx),
		.programs = programs,
		.leak = api->host.leak,
		.leak_ctx = api->host.ctx,
		.baseline_bytes = now.baseline_bytes,
		.baseline_learned = now.baseline_learned,
		.limit_bytes = conf->memory_limit_bytes == CONF_AUTO ? INT64_MAX : conf->memory_limit_bytes,
		.left_behind = now.left_behind,
		.unread = now.unread,
		.unread_us = now.now_us - now.sampled_at_us,
		.blocked = { now.blocked, now.programs_blocked },
	});
	json_object_set_new(json, "sampled_at_ms", json_integer(api_epoch_ms(api, now.sampled_at_us)));
	api_reply(call, 200, json);
}

void handle_memory(struct api *api, struct call *call, const char *name)
{
	(void)name;
	if (!api->host.topology(api->host.ctx))
		call_error(call, 503, "no_sample", "the machine's memory was not read yet", NULL);
	else
		api->host.programs(api->host.ctx, on_programs, wait_with(api, call));
}

void handle_config(struct api *api, struct call *call, const char *name)
{
	struct buf text = BUF_INIT;
	char yaml[4];

	(void)name;
	if (call_parameter(call, "yaml", yaml, sizeof(yaml))) {
		conf_print(api->host.conf(api->host.ctx), &text);
		call_reply(call, 200, "text/plain; charset=utf-8", buf_str(&text));
	} else {
		conf_print_json(api->host.conf(api->host.ctx), &text);
		call_reply(call, 200, "application/json", buf_str(&text));
	}
	buf_release(&text);
}

static void on_reloaded(void *arg, int code, struct str report)
{
	const struct api *api = ((struct waiting *)arg)->api;
	struct call *call = end_waiting(arg);
	struct buf problems = BUF_INIT, command = BUF_INIT;

	if (!call)
		return;
	if (code < 0) {
		report.length -= str_ends(report, "\n");
		buf_append_str(&problems, report);
		buf_printf(&command, "cotenant check -f %s", api->host.conf(api->host.ctx)->path);
		if (code == -ESTALE)
			call_error(call, 409, "restart_needed", buf_cstr(&problems), "cotenant serve --help");
		else
			call_error(call, 400, "bad_configuration", buf_cstr(&problems), buf_cstr(&command));
	} else {
		api_reply(call, 200, json_pack("{s:b, s:o}", "reloaded", 1, "report", json_lossy(report)));
	}
	buf_release(&problems);
	buf_release(&command);
}

void handle_reload(struct api *api, struct call *call, const char *name)
{
	(void)name;
	api->host.reload(api->host.ctx, on_reloaded, wait_with(api, call));
}

static void on_compacted(void *arg, int code, struct str report)
{
	struct call *call = end_waiting(arg);
	struct buf text = BUF_INIT;

	if (!call)
		return;
	buf_append_str(&text, report);
	if (code == -EBUSY)
		call_error(call, 409, "busy", buf_cstr(&text), NULL);
	else
		api_reply(call, 200, json_pack("{s:b, s:o}", "complete", code == 0, "report", json_lossy(report)));
	buf_release(&text);
}

void handle_compact(struct api *api, struct call *call, const char *name)
{
	(void)name;
	api->host.compact(api->host.ctx, on_compacted, wait_with(api, call));
}

void callers_end(struct api *api)
{
	while (!list_is_empty(&api->waiting))
		end_waiting(LIST_ENTRY(api->waiting.next, struct waiting, node));
}
