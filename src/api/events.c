#include <stdlib.h>

#include "api/inside.h"
#include "base/alloc.h"

/*
 * The event stream: one SSE event a decision, as it is made. A follower that
 * does not keep up is told so and dropped: the loop holds nothing for it that
 * has no bound.
 */
enum { FOLLOWERS_MAX = 64, PENDING_MAX = 512 * 1024 };

struct follower {
	struct list node;
	struct api *api;
	struct call *call;
	uint32_t model; /* only this one; MODEL_NONE = all */
};

static void forget(struct follower *follower)
{
	follower->api->follower_count--;
	list_remove(&follower->node);
	free(follower);
}

static void on_follower_gone(void *ctx, struct call *call)
{
	(void)call;
	forget(ctx);
}

static void drop(struct follower *follower, struct str note)
{
	call_on_gone(follower->call, NULL, NULL);
	call_write(follower->call, note);
	call_end(follower->call);
	forget(follower);
}

static bool concerns(const struct follower *follower, const struct decision *decision)
{
	if (follower->model != MODEL_NONE && follower->model != decision->model &&
	    follower->model != decision->for_model)
		return false;
	return api_may_see(follower->api, follower->call, decision->model);
}

void handle_events(struct api *api, struct call *call, const char *name)
{
	struct model_view model;
	char wanted[300];
	uint32_t index = MODEL_NONE;

	(void)name;
	if (call_parameter(call, "model", wanted, sizeof(wanted))) {
		index = api_resolve(api, call, wanted, &model);
		if (index == MODEL_NONE)
			return;
	}
	if (api->follower_count == FOLLOWERS_MAX) {
		call_error(call, 429, "too_many_followers", "64 others follow the events already",
		           "cotenant history");
		return;
	}
	struct follower *follower = xmalloc(sizeof(*follower));
	*follower = (struct follower){ .api = api, .call = call, .model = index };
	list_append(&api->followers, &follower->node);
	api->follower_count++;
	call_on_gone(call, on_follower_gone, follower);
	call_answer_header(call, "Cache-Control", "no-store");
	call_answer_header(call, "X-Accel-Buffering", "no");
	call_begin(call, 200, "text/event-stream");
	call_write(call, STR(": following the decisions\n\n"));
}

static void put_event(const struct api *api, const struct call *call, const struct decision *decision,
                      struct buf *out)
{
	json_t *json = api_decision_json(api, call, decision);
	char *text = json_dumps(json, JSON_COMPACT);

	buf_printf(out, "id: %llu\nevent: decision\ndata: %s\n\n", (unsigned long long)decision->sequence,
	           text);
	free(text);
	json_decref(json);
}

/* Does it name a model that this caller's key may not use? Then his event is his own. */
static bool hides_names(const struct api *api, const struct call *call, const struct decision *decision)
{
	return !api_may_see(api, call, decision->model) ||
	       (decision->for_model != MODEL_NONE && !api_may_see(api, call, decision->for_model));
}

void events_publish(struct api *api, const struct decision *decision)
{
	struct buf event = BUF_INIT;

	LIST_EACH(node, &api->followers) {
		struct follower *follower = LIST_ENTRY(node, struct follower, node);
		if (!concerns(follower, decision))
			continue;
		if (call_pending(follower->call) > PENDING_MAX) {
			drop(follower, STR("event: dropped\ndata: {\"reason\": \"the reader is too slow\"}\n\n"));
			continue;
		}
		if (hides_names(api, follower->call, decision)) {
			struct buf own = BUF_INIT;
			put_event(api, follower->call, decision, &own);
			call_write(follower->call, buf_str(&own));
			buf_release(&own);
			continue;
		}
		if (buf_length(&event) == 0)
			put_event(api, follower->call, decision, &event);
		call_write(follower->call, buf_str(&event));
	}
	buf_release(&event);
}

void events_end(struct api *api)
{
	while (!list_is_empty(&api->followers))
		drop(LIST_ENTRY(api->followers.next, struct follower, node),
		     STR("event: end\ndata: {\"reason\": \"the daemon goes down\"}\n\n"));
}
