#include <string.h>

#include "api/inside.h"
#include "api/outcome.h"
#include "api/wait.h"
#include "base/units.h"

bool api_parse_id(const struct api *api, const char *text, uint64_t *out_sequence)
{
	size_t boot = strlen(api->options.boot_id);

	return strncmp(text, api->options.boot_id, boot) == 0 && text[boot] == '-' &&
	       str_to_u64(str_from(text + boot + 1), out_sequence);
}

void api_no_request(struct call *call, const char *id)
{
	struct buf message = BUF_INIT;

	buf_printf(&message, "there is no request '%.60s' among the live and the lately ended ones", id);
	call_error(call, 404, "request_not_found", buf_cstr(&message), "cotenant history --kind requests");
	buf_release(&message);
}

static void add_ms(json_t *json, const char *key, int64_t from_us, int64_t to_us)
{
	int64_t us = to_us > from_us && to_us ? to_us - from_us : 0;
	json_object_set_new(json, key, json_integer(us / US_PER_MS));
}

/* What both kinds have. Times that have not come yet are counted until `until_us`. */
static json_t *common_json(const struct api *api, uint64_t sequence, uint32_t model, uint32_t priority,
                           const char *side, const char *key, const char *path, uint64_t decision)
{
	char id[API_ID_BYTES];
	json_t *json = json_object();
	const char *name = model == MODEL_NONE ? NULL : api->names.model(api->names.ctx, model);

	json_object_set_new(json, "id", json_string(api_id(api, id, sequence)));
	json_object_set_new(json, "model", json_name(name));
	json_object_set_new(json, "key", json_name(key));
	json_object_set_new(json, "path", json_name(path));
	json_object_set_new(json, "priority", json_string(priority_name(priority)));
	json_object_set_new(json, "side_traffic", json_name(side));
	json_object_set_new(json, "decision", decision ? json_string(api_id(api, id, decision)) : json_null());
	return json;
}

/* ---- live ---- */

static const char *stage_name(enum exchange_stage stage)
{
	static const char *const names[] = { [STAGE_READING] = "reading",
		                             [STAGE_WAITING] = "waiting",
		                             [STAGE_RUNNING] = "running" };
	return names[stage];
}

/* "; waited 3.1 s: ..." where it was long enough to ask why. */
static void put_wait(const struct seen *seen, uint64_t request, uint32_t model, int64_t from_us,
                     int64_t until_us, struct buf *out)
{
	const struct api *api = seen->api;
	struct seen caller = *seen;
	struct names names = api_names_for(&caller);
	struct buf why = BUF_INIT;
	struct api_now now;
	char time[UNITS_TEXT];

	api->host.now(api->host.ctx, &now);
	wait_text(&api->past,
	          &(struct wait_ask){ request, model, from_us, until_us, now.wall_offset_us },
	          &names, &why);
	if (buf_length(&why) && until_us - from_us >= US_PER_MS)
		buf_printf(out, "; waited %s: %s", units_duration(time, until_us - from_us), buf_cstr(&why));
	buf_release(&why);
}

static void put_live_text(const struct seen *seen, const struct exchange_view *view, int64_t now_us,
                          uint32_t position, struct buf *out)
{
	const struct api *api = seen->api;
	char time[UNITS_TEXT];
	const char *name = view->model == MODEL_NONE ? NULL : api->names.model(api->names.ctx, view->model);

	if (!name)
		name = "no model yet";
	if (view->stage == STAGE_READING)
		buf_printf(out, "its client still sends it, since %s",
		           units_duration(time, now_us - view->arrived_at_us));
	else if (view->stage == STAGE_WAITING)
		buf_printf(out, "waits for %s since %s, place %u in its queue", name,
		           units_duration(time, now_us - view->arrived_at_us), position);
	else
		buf_printf(out, "runs on %s since %s", name,
		           units_duration(time, now_us - view->dispatched_at_us));
	put_wait(seen, view->sequence, view->model, view->arrived_at_us,
	         view->dispatched_at_us ? view->dispatched_at_us : now_us, out);
	/* What the model itself waits for is what the request waits for. */
	struct model_view model;
	if (view->stage == STAGE_WAITING && view->model != MODEL_NONE &&
	    arbiter_model(api->host.arbiter(api->host.ctx), view->model, &model)) {
		buf_printf(out, "; ");
		model_text(&model, now_us, out);
	}
}

static json_t *live_json(const struct seen *seen, const struct exchange_view *view)
{
	const struct api *api = seen->api;
	const struct arbiter *arbiter = api->host.arbiter(api->host.ctx);
	struct buf text = BUF_INIT;
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	int64_t waited_until = view->dispatched_at_us ? view->dispatched_at_us : now.now_us;
	uint32_t position = view->stage == STAGE_WAITING ? arbiter_queue_position(arbiter, view->ticket) : 0;
	json_t *json = common_json(api, view->sequence, view->model, view->priority,
	                           view->side ? view->side->name : NULL, view->key ? view->key->name : NULL, view->path, view->decision);
	put_live_text(seen, view, now.now_us, position, &text);
	json_object_set_new(json, "state", json_string(stage_name(view->stage)));
	json_object_set_new(json, "outcome", json_null());
	json_object_set_new(json, "status", json_null());
	json_object_set_new(json, "arrived_at_ms", json_integer(api_epoch_ms(api, view->arrived_at_us)));
	add_ms(json, "wait_ms", view->arrived_at_us, waited_until);
	json_object_set_new(json, "load_ms",
	                    json_integer(past_load_within(&api->past, view->model, view->arrived_at_us,
	                                                  waited_until) / US_PER_MS));
	add_ms(json, "first_byte_ms", view->arrived_at_us, view->first_byte_at_us);
	add_ms(json, "total_ms", view->arrived_at_us, now.now_us);
	json_object_set_new(json, "position", json_integer(position));
	json_object_set_new(json, "bytes_in", json_integer(view->bytes_in));
	json_object_set_new(json, "bytes_out", json_integer(view->bytes_out));
	json_object_set_new(json, "tokens_in", json_integer(0));
	json_object_set_new(json, "tokens_out", json_integer(0));
	json_object_set_new(json, "text", json_lossy(buf_str(&text)));
	buf_release(&text);
	return json;
}

/* ---- ended ---- */

static json_t *ended_json(const struct seen *seen, const struct past_request *row)
{
	const struct api *api = seen->api;
	const struct exchange_end *end = &row->end;
	uint32_t outcome = outcome_of(end);
	struct buf text = BUF_INIT;
	char time[UNITS_TEXT];

	json_t *json = common_json(api, end->sequence, end->model, end->priority,
	                           row->side_name[0] ? row->side_name : NULL, row->key_name, row->path,
	                           end->decision);
	buf_printf(&text, "ended after %s: %s", units_duration(time, end->ended_at_us - end->arrived_at_us),
	           outcome == OUTCOME_OK ? "answered" : outcome_name(outcome));
	put_wait(seen, end->sequence, end->model, end->arrived_at_us,
	         end->dispatched_at_us ? end->dispatched_at_us : end->ended_at_us, &text);
	json_object_set_new(json, "state", json_string("ended"));
	json_object_set_new(json, "outcome", json_string(outcome_name(outcome)));
	json_object_set_new(json, "status", json_integer(outcome_status(end)));
	json_object_set_new(json, "arrived_at_ms", json_integer(api_epoch_ms(api, end->arrived_at_us)));
	add_ms(json, "wait_ms", end->arrived_at_us,
	       end->dispatched_at_us ? end->dispatched_at_us : end->ended_at_us);
	json_object_set_new(json, "load_ms", json_integer(row->load_us / US_PER_MS));
	add_ms(json, "first_byte_ms", end->arrived_at_us, end->first_byte_at_us);
	add_ms(json, "total_ms", end->arrived_at_us, end->ended_at_us);
	json_object_set_new(json, "position", json_integer(0));
	json_object_set_new(json, "bytes_in", json_integer(end->bytes_in));
	json_object_set_new(json, "bytes_out", json_integer(end->bytes_out));
	json_object_set_new(json, "tokens_in", json_integer(end->tokens_in));
	json_object_set_new(json, "tokens_out", json_integer(end->tokens_out));
	json_object_set_new(json, "text", json_lossy(buf_str(&text)));
	buf_release(&text);
	return json;
}

/* ---- endpoints ---- */

struct walk {
	struct seen seen;
	uint64_t wanted; /* 0 = all */
	json_t *array;
};

static void take_live(void *ctx, const struct exchange_view *view)
{
	struct walk *walk = ctx;

	if ((walk->wanted && view->sequence != walk->wanted) ||
	    !api_may_see_key(walk->seen.call, view->key ? view->key->name : NULL))
		return;
	/* Exchanges of our own endpoints are no requests for a model. */
	if (!walk->wanted && view->model == MODEL_NONE && view->stage != STAGE_READING)
		return;
	json_array_append_new(walk->array, live_json(&walk->seen, view));
}

json_t *api_request_json(struct api *api, const struct call *call, uint64_t sequence)
{
	struct walk walk = { { api, call }, sequence, json_array() };

	api->host.requests(api->host.ctx, take_live, &walk);
	json_t *json = json_incref(json_array_get(walk.array, 0));
	json_decref(walk.array);
	if (json)
		return json;
	const struct past_request *row = past_find_request(&api->past, sequence);
	return row && api_may_see_key(call, row->key_name) ? ended_json(&walk.seen, row) : NULL;
}

/* The live ones, then the lately ended, newest first; ?live=1 leaves out the latter. */
void handle_requests(struct api *api, struct call *call, const char *name)
{
	struct walk walk = { { api, call }, 0, json_array() };
	const struct past_request *row;
	char live[4];

	(void)name;
	api->host.requests(api->host.ctx, take_live, &walk);
	bool all = !call_parameter(call, "live", live, sizeof(live)) || str_is(str_from(live), "0");
	for (uint64_t i = 0; all && (row = past_request_at(&api->past, i)); i++)
		if (api_may_see_key(call, row->key_name))
			json_array_append_new(walk.array, ended_json(&walk.seen, row));
	api_reply(call, 200, json_pack("{s:o}", "requests", walk.array));
}

void handle_request(struct api *api, struct call *call, const char *name)
{
	uint64_t sequence;
	json_t *json = api_parse_id(api, name, &sequence) ? api_request_json(api, call, sequence) : NULL;

	if (json)
		api_reply(call, 200, json);
	else
		api_no_request(call, name);
}

void handle_cancel(struct api *api, struct call *call, const char *name)
{
	uint64_t sequence;

	if (!api_parse_id(api, name, &sequence) ||
	    !(commands_cancel(api, sequence) || api->host.cancel(api->host.ctx, sequence))) {
		api_no_request(call, name);
		return;
	}
	api_reply(call, 200, json_pack("{s:s, s:b}", "id", name, "cancelled", 1));
}
