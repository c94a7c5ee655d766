#include <stdlib.h>

#include "api/inside.h"
#include "api/refusal.h"
#include "base/alloc.h"
#include "base/units.h"

/*
 * An operator's load, unload or stop: a request for the arbiter like any other,
 * whose owner is this row instead of an exchange. Its caller may leave: a load
 * that nobody waits for goes on as one whose client gave up; an unload or stop
 * is carried out all the same.
 */
struct command {
	struct list node;
	struct api *api;
	struct call *call; /* NULL: nobody waits for the answer */
	struct id ticket;
	uint64_t sequence;
	uint32_t model;
	enum request_kind kind;
	bool was_there;    /* there was something to unload */
	int64_t begun_at_us;
};

static const char *result_of(const struct command *command)
{
	static const char *const texts[REQUEST_KIND_COUNT] = { [REQUEST_INFER] = "done",
		                                               [REQUEST_LOAD] = "loaded",
		                                               [REQUEST_UNLOAD] = "unloaded",
		                                               [REQUEST_STOP] = "stopped" };
	bool takes = command->kind == REQUEST_UNLOAD || command->kind == REQUEST_STOP;

	return takes && !command->was_there ? "was not loaded" : texts[command->kind];
}

static int64_t now_us(const struct api *api)
{
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	return now.now_us;
}

/* The model as it is, with what the command did. */
static void reply_model(struct api *api, struct call *call, int status, uint32_t index,
                        const char *result, int64_t took_us, uint64_t sequence)
{
	struct model_view model;
	char id[API_ID_BYTES];

	if (!arbiter_model(api->host.arbiter(api->host.ctx), index, &model)) {
		call_refuse(call, FAIL_MODEL_REMOVED, NULL, NULL, "", false);
		return;
	}
	json_t *json = api_model_json(api, &model, index);
	json_object_set_new(json, "model", json_lossy(str_from(model.spec->name)));
	json_object_set_new(json, "result", json_string(result));
	json_object_set_new(json, "success", json_true());
	json_object_set_new(json, "took_ms", json_integer(took_us / US_PER_MS));
	json_object_set_new(json, "request", sequence ? json_string(api_id(api, id, sequence)) : json_null());
	api_reply(call, status, json);
}

static void end_command(struct command *command)
{
	list_remove(&command->node);
	free(command);
}

static void refuse_command(struct command *command, enum fail fail, const struct action *action)
{
	struct api *api = command->api;
	const char *name = api->names.model(api->names.ctx, command->model);
	char explain[512] = "";

	if (!command->call)
		return;
	api->host.explain(api->host.ctx, command->model, fail, explain, sizeof(explain));
	call_on_gone(command->call, NULL, NULL);
	const struct conf_model *conf = api_conf_model(api, command->model);
	bool has_log = conf && api->options.supervisor && supervisor_log(api->options.supervisor, conf).length;
	call_refuse(command->call, fail, name, action, explain, has_log);
	command->call = NULL;
}

static void on_verdict(void *owner, struct id ticket, const struct action *action)
{
	struct command *command = owner;
	struct api *api = command->api;

	if (action->type == ACTION_DONE) {
		if (command->call) {
			call_on_gone(command->call, NULL, NULL);
			reply_model(api, command->call, 200, command->model, result_of(command),
			            now_us(api) - command->begun_at_us, command->sequence);
		}
	} else {
		refuse_command(command, action->fail, action);
		/* A reject closed the ticket; of anything else the arbiter waits to hear the end. */
		if (action->type != ACTION_REJECT) {
			api->host.gone(api->host.ctx, ticket);
			ticket_close(api->options.tickets, ticket);
		}
	}
	end_command(command);
}

static const struct ticket_handler handler = { on_verdict };

static void give_up(struct command *command)
{
	struct api *api = command->api;

	api->host.gone(api->host.ctx, command->ticket);
	ticket_close(api->options.tickets, command->ticket);
	end_command(command);
}

static void on_caller_gone(void *ctx, struct call *call)
{
	struct command *command = ctx;

	(void)call;
	command->call = NULL;
	if (command->kind == REQUEST_LOAD)
		give_up(command);
}

/* {"wait": false} in the body: answer as soon as the command is taken. False where the body is wrong. */
static bool read_wait(struct call *call, bool *out_wait)
{
	struct str body = call_body(call);
	json_error_t error;

	*out_wait = true;
	if (body.length == 0)
		return true;
	json_t *json = json_loadb(body.data, body.length, JSON_REJECT_DUPLICATES, &error);
	json_t *wait = json_object_get(json, "wait");
	bool good = json_is_object(json) && (!wait || json_is_boolean(wait));
	*out_wait = !wait || json_is_true(wait);
	json_decref(json);
	if (!good)
		call_error(call, 400, "bad_request",
		           "the body is a JSON object, where \"wait\" is true or false", NULL);
	return good;
}

void command_begin(struct api *api, struct call *call, const char *name, enum request_kind kind,
                   uint32_t flags)
{
	struct model_view model;
	bool wait;

	if (!read_wait(call, &wait))
		return;
	uint32_t index = api_resolve(api, call, name, &model);
	if (index == MODEL_NONE)
		return;
	struct command *command = xcalloc(1, sizeof(*command));
	struct id ticket = ticket_open(api->options.tickets, &handler, command);
	if (id_is_none(ticket)) {
		free(command);
		call_refuse(call, FAIL_TABLE_FULL, model.spec->name, NULL, "", false);
		return;
	}
	*command = (struct command){ .api = api,
		                     .call = wait ? call : NULL,
		                     .ticket = ticket,
		                     .sequence = api->host.sequence(api->host.ctx),
		                     .model = index,
		                     .kind = kind,
		                     .was_there = !id_is_none(model.instance),
		                     .begun_at_us = now_us(api) };
	list_append(&api->commands, &command->node);
	struct request_spec spec = { .sequence = command->sequence,
		                     .model = index,
		                     .kind = kind,
		                     .flags = flags,
		                     .priority = model.spec->priority,
		                     .weight_milli = 1000,
		                     .deadline_at_us = INT64_MAX };
	/* The verdict may come at once, and end the command: it is not touched after submit(). */
	if (wait)
		call_on_gone(call, on_caller_gone, command);
	api->host.submit(api->host.ctx, ticket, &spec);
	if (!wait)
		reply_model(api, call, 202, index, "accepted", 0, spec.sequence);
}

void handle_load(struct api *api, struct call *call, const char *name)
{
	command_begin(api, call, name, REQUEST_LOAD, 0);
}

void handle_unload(struct api *api, struct call *call, const char *name)
{
	command_begin(api, call, name, REQUEST_UNLOAD, 0);
}

void handle_stop(struct api *api, struct call *call, const char *name)
{
	command_begin(api, call, name, REQUEST_STOP, 0);
}

/* The arbiter hears of it in the next turn; the answer says what will be. */
static void set_pin(struct api *api, struct call *call, const char *name, bool pin)
{
	struct model_view model;

	uint32_t index = api_resolve(api, call, name, &model);
	if (index == MODEL_NONE)
		return;
	api->host.pin(api->host.ctx, index, pin);
	json_t *json = api_model_json(api, &model, index);
	json_object_set_new(json, "model", json_lossy(str_from(model.spec->name)));
	json_object_set_new(json, "pinned", json_boolean(pin));
	json_object_set_new(json, "result", json_string(pin ? "pinned" : "unpinned"));
	api_reply(call, 200, json);
}

void handle_pin(struct api *api, struct call *call, const char *name)
{
	set_pin(api, call, name, true);
}

void handle_unpin(struct api *api, struct call *call, const char *name)
{
	set_pin(api, call, name, false);
}

bool commands_cancel(struct api *api, uint64_t sequence)
{
	LIST_EACH(node, &api->commands) {
		struct command *command = LIST_ENTRY(node, struct command, node);
		if (command->sequence != sequence)
			continue;
		refuse_command(command, FAIL_CANCELLED, NULL);
		give_up(command);
		return true;
	}
	return false;
}

void commands_end(struct api *api)
{
	while (!list_is_empty(&api->commands)) {
		struct command *command = LIST_ENTRY(api->commands.next, struct command, node);
		refuse_command(command, FAIL_DRAINING, NULL);
		ticket_close(api->options.tickets, command->ticket);
		end_command(command);
	}
}
