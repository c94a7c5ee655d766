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

void handle_health(struct api *api, struct call *call, const char *name)
{
	struct api_now now;

	(void)name;
	api->host.now(api->host.ctx, &now);
	int64_t step_age = now.now_us - now.stepped_at_us;
	int64_t sampled_at = now.sampled_at_us ? now.sampled_at_us : api->options.started_at_us;
	int64_t sample_age = now.now_us - sampled_at;
	bool step_ok = step_age < stuck_after_us, sample_ok = sample_age < stuck_after_us;
	const char *status = !step_ok     ? "the arbiter takes no events"
	                     : !sample_ok ? "the machine's memory cannot be read"
	                     : now.draining ? "draining"
	                                    : "ok";

	api_reply(call, step_ok && sample_ok ? 200 : 503,
	          json_pack("{s:s, s:b, s:I, s:I, s:I, s:s}", "status", status, "draining", now.draining,
	                    "step_age_ms", (json_int_t)(step_age / US_PER_MS), "sample_age_ms",
	                    (json_int_t)(sample_age / US_PER_MS), "up_ms",
	                    (json_int_t)((now.now_us - api->options.started_at_us) / US_PER_MS),
	                    "version", api->options.version));
}

void handle_calibration(struct api *api, struct call *call, const char *name)
{
	struct calibration calibration;

	(void)name;
	api->host.calibration(api->host.ctx, &calibration);
	api_reply(call, 200, calibration_json(&calibration));
}

void handle_memory(struct api *api, struct call *call, const char *name)
{
	const struct conf *conf = api->host.conf(api->host.ctx);
	const struct topology *topology = api->host.topology(api->host.ctx);
	struct api_now now;

	(void)name;
	if (!topology) {
		call_error(call, 503, "no_sample", "the machine's memory was not read yet", NULL);
		return;
	}
	api->host.now(api->host.ctx, &now);
	json_t *json = memory_json(&(struct memory_input){
		.arbiter = api->host.arbiter(api->host.ctx),
		.topology = topology,
		.baseline_bytes = now.baseline_bytes,
		.limit_bytes = conf->memory_limit_bytes == CONF_AUTO ? INT64_MAX : conf->memory_limit_bytes,
	});
	json_object_set_new(json, "sampled_at_ms", json_integer(api_epoch_ms(api, now.sampled_at_us)));
	api_reply(call, 200, json);
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

/* A reload whose answer is awaited. */
struct reload {
	struct list node;
	struct call *call; /* NULL: nobody waits any more */
};

static void end_reload(struct reload *reload)
{
	list_remove(&reload->node);
	free(reload);
}

static void on_caller_gone(void *ctx, struct call *call)
{
	struct reload *reload = ctx;

	(void)call;
	reload->call = NULL;
}

static void on_reloaded(void *arg, int code, struct str report)
{
	struct reload *reload = arg;
	struct call *call = reload->call;
	struct buf problems = BUF_INIT;

	end_reload(reload);
	if (!call)
		return;
	call_on_gone(call, NULL, NULL);
	if (code < 0) {
		buf_append_str(&problems, report);
		call_error(call, 400, "bad_configuration", buf_cstr(&problems), "cotenant check");
	} else {
		api_reply(call, 200, json_pack("{s:b, s:o}", "reloaded", 1, "report", json_lossy(report)));
	}
	buf_release(&problems);
}

void handle_reload(struct api *api, struct call *call, const char *name)
{
	struct reload *reload = xmalloc(sizeof(*reload));

	(void)name;
	reload->call = call;
	list_append(&api->reloads, &reload->node);
	call_on_gone(call, on_caller_gone, reload);
	api->host.reload(api->host.ctx, on_reloaded, reload);
}

void reloads_end(struct api *api)
{
	while (!list_is_empty(&api->reloads))
		end_reload(LIST_ENTRY(api->reloads.next, struct reload, node));
}
