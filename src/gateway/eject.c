#include "gateway/eject.h"

#include <time.h>

#include "http/json_text.h"

enum { EMPTY_PROMPT_BYTES = 4 }; /* "messages": [] and "prompt": "" */

bool eject_is_asked(const struct exchange *exchange, const struct body_facts *facts, bool *only)
{
	struct str path = exchange->engine_path;

	if (exchange->shape->api != API_OLLAMA || facts->keep_alive != KEEP_ALIVE_ZERO ||
	    !(str_is(path, "/api/chat") || str_is(path, "/api/generate")))
		return false;
	*only = facts->prompt_bytes <= EMPTY_PROMPT_BYTES;
	return true;
}

static void answer(struct exchange *exchange)
{
	bool chats = str_is(exchange->engine_path, "/api/chat");
	time_t now = time(NULL);
	struct tm utc;
	char at[32];
	struct buf body = BUF_INIT;

	gmtime_r(&now, &utc);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
	buf_append_str(&body, STR("{\"model\":"));
	json_append_string(&body, str_from(exchange->asked ? exchange->asked : exchange_model(exchange)->name));
	buf_printf(&body, ",\"created_at\":\"%s\",%s,\"done\":true,\"done_reason\":\"unload\"}\n", at,
	           chats ? "\"message\":{\"role\":\"assistant\",\"content\":\"\"}" : "\"response\":\"\"");
	exchange_answer(exchange, "application/json", buf_str(&body));
	buf_release(&body);
}

static void on_verdict(void *owner, struct id ticket, const struct action *action)
{
	struct exchange *exchange = owner;

	(void)ticket;
	if (action->type == ACTION_REJECT || action->type == ACTION_DONE)
		exchange->ticket = ID_NONE; /* the arbiter ended it and knows */
	if (action->type == ACTION_DONE)
		answer(exchange);
	else
		exchange_fail(exchange, (enum fail)action->fail, action);
}

static void nobody_waits(void *owner, struct id ticket, const struct action *action)
{
	(void)owner;
	(void)ticket;
	(void)action;
}

static const struct ticket_handler handler = { on_verdict };
static const struct ticket_handler handler_of_nobody = { nobody_waits };

static struct request_spec wish(struct gateway *gateway, uint32_t model, uint32_t priority)
{
	return (struct request_spec){
		.sequence = gateway->host.sequence(gateway->host.ctx),
		.model = model,
		.kind = REQUEST_UNLOAD,
		.flags = REQUEST_WISH,
		.priority = priority,
		.weight_milli = 1000,
		.deadline_at_us = INT64_MAX,
	};
}

void eject_begin(struct exchange *exchange)
{
	struct gateway *gateway = exchange->gateway;
	struct request_spec spec = wish(gateway, exchange->model, exchange_model(exchange)->priority);

	spec.sequence = exchange->sequence;
	exchange->ticket = ticket_open(gateway->tickets, &handler, exchange);
	if (id_is_none(exchange->ticket)) {
		exchange_fail(exchange, FAIL_TABLE_FULL, NULL);
		return;
	}
	exchange->stage = STAGE_WAITING;
	relay_rearm(exchange);
	gateway->host.on_request(gateway->host.ctx, exchange->ticket, &spec);
}

void eject_after(struct gateway *gateway, uint32_t model, uint32_t priority)
{
	struct id ticket = ticket_open(gateway->tickets, &handler_of_nobody, gateway);

	if (id_is_none(ticket))
		return;
	struct request_spec spec = wish(gateway, model, priority);
	gateway->host.on_request(gateway->host.ctx, ticket, &spec);
}
