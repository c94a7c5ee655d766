/*
 * Everything that refuses a request for what it asks stands here, before a
 * ticket is taken: so what the arbiter sees are requests that make sense.
 */
#include "gateway/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "engine/adapter.h"
#include "gateway/eject.h"
#include "gateway/side.h"

/* ---- which model ---- */

enum { SIDE_BODY_MAX = 64 * 1024 };

/* Who says of himself what class he is, is believed. */
static void find_side(struct exchange *exchange, const struct body_facts *facts)
{
	const struct intake *intake = &exchange->intake;
	struct side_ask ask = { .prompt_bytes = facts->prompt_bytes, .reply_tokens = facts->reply_tokens };

	if (exchange->priority_asked < PRIORITY_COUNT || facts->prompt_bytes == 0 ||
	    exchange->shape->place != MODEL_IN_JSON || !intake_in_memory(intake))
		return;
	ask.body = intake_slice(intake, 0, SIDE_BODY_MAX);
	exchange->side = side_find(exchange->conf, &ask);
}

static void read_facts(struct exchange *exchange)
{
	const struct body_facts *facts = intake_facts(&exchange->intake);

	exchange->may_stream = exchange->shape->streams_unless_told;
	exchange->prompt = (struct prompt_size){ .bytes = -1, .tokens = -1, .reply_tokens = -1, .prompts = 1 };
	if (!facts)
		return;
	/* A field of a form counts more than the query. */
	if (facts->has_model && facts->model[0] &&
	    (!exchange->asked || exchange->shape->place == MODEL_IN_FORM)) {
		free(exchange->asked);
		exchange->asked = xstrdup(facts->model);
	}
	if (facts->has_stream)
		exchange->may_stream = facts->stream;
	exchange->conversation = facts->conversation;
	exchange->width = facts->width;
	exchange->height = facts->height;
	exchange->ejects = eject_is_asked(exchange, facts, &exchange->ejects_only);
	exchange->prompt = (struct prompt_size){
		.bytes = (int64_t)facts->prompt_bytes,
		.tokens = body_facts_tokens(facts),
		.reply_tokens = facts->reply_tokens,
		.prompts = (int64_t)body_facts_prompts(facts),
		.longest_bytes = (int64_t)body_facts_longest_bytes(facts),
	};
	exchange->replies = facts->replies;
	exchange->texts = body_facts_countable(facts) ? facts->texts : 0;
	memcpy(exchange->text, facts->text, sizeof(exchange->text));
	exchange->beside_tokens = body_facts_beside(facts);
	find_side(exchange, facts);
	intake_forget_facts(&exchange->intake);
}

/* The names a client may use, for a refusal: as many as there is room for. */
static void list_models(const struct exchange *exchange, struct buf *out)
{
	const struct conf *conf = exchange->conf;
	size_t shown = 0;

	for (size_t i = 0; i < conf->model_count && buf_length(out) < 400; i++) {
		if (conf->models[i].absent || !who_may_use(conf, exchange->key, (uint32_t)i))
			continue;
		buf_printf(out, "%s%s", shown ? ", " : "", conf->models[i].name);
		shown++;
	}
	if (shown == 0)
		buf_append_str(out, STR("none"));
}

static bool refuse_nameless(struct exchange *exchange)
{
	struct failure failure;
	struct buf names = BUF_INIT;

	list_models(exchange, &names);
	failure_set(&failure, 400, "model_missing", "the request names no model; there are: %s",
	            buf_cstr(&names));
	failure.param = "model";
	buf_release(&names);
	exchange_refuse(exchange, &failure);
	return false;
}

static bool refuse_unknown(struct exchange *exchange, const char *near)
{
	struct failure failure;

	failure_set(&failure, 404, "model_not_found", "model '%.*s' does not exist%s%s",
	            BODY_MODEL_MAX, exchange->asked, *near ? "; did you mean: " : "", near);
	failure.param = "model";
	exchange_refuse_as(exchange, FAIL_UNKNOWN_MODEL, &failure);
	return false;
}

/* Who asks for a set means one of its models; which, he has to say. */
static void name_members(const struct conf *conf, const char *name, struct buf *near)
{
	const struct conf_set *set = conf_set_named(conf, name);

	if (!set)
		return;
	buf_consume(near, buf_length(near));
	for (size_t i = 0; i < set->models.count; i++)
		buf_printf(near, "%s%s", i ? ", " : "", set->models.items[i]);
	buf_printf(near, " (of the set '%.100s')", name);
}

static bool refuse_model(struct exchange *exchange)
{
	struct failure failure;

	failure_set(&failure, 403, "model_not_allowed", "this API key may not use model '%s'",
	            exchange_model(exchange)->name);
	exchange_refuse(exchange, &failure);
	return false;
}

/* Some native paths are one engine's alone. */
static bool may_mean(enum api api, const struct conf_model *model)
{
	if (model->absent)
		return false;
	if (api == API_SD)
		return model->engine == CONF_ENGINE_SD_SERVER || model->engine == CONF_ENGINE_COMMAND;
	if (api == API_WHISPER)
		return model->engine == CONF_ENGINE_WHISPER_SERVER || model->engine == CONF_ENGINE_COMMAND;
	return true;
}

/* Where there is one model for it, native requests need not name it. MODEL_NONE: there are several, or none. */
static uint32_t only_model(const struct conf *conf, enum api api)
{
	uint32_t only = MODEL_NONE;

	for (size_t i = 0; i < conf->model_count; i++) {
		if (!may_mean(api, &conf->models[i]))
			continue;
		if (only != MODEL_NONE)
			return MODEL_NONE;
		only = (uint32_t)i;
	}
	return only;
}

/* What a request means that names none. */
static uint32_t unnamed_model(const struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;
	const struct api_shape *shape = exchange->shape;
	struct id unused;

	/* Who looks after a job asks its engine. */
	uint32_t model = job_model(exchange->gateway, exchange->engine_path);
	if (model != MODEL_NONE || !shape->model_optional || shape->method)
		return model;
	model = only_model(exchange->conf, shape->api);
	/* A path that we do not know may be the engine's; only an engine that runs can tell. */
	bool is_guess = shape->api == API_OTHER && shape->place == MODEL_IN_QUERY;
	return model == MODEL_NONE || !is_guess || host->loaded(host->ctx, model, &unused) ? model : MODEL_NONE;
}

/* Several models may do for side traffic: those of its rule, else those of the alias it was sent to. */
static const struct conf_strings *that_may_do(const struct exchange *exchange)
{
	const struct conf *conf = exchange->conf;

	if (exchange->side->alias.count)
		return &exchange->side->alias;
	for (size_t i = 0; i < conf->alias_count; i++)
		if (exchange->asked && strcmp(conf->aliases[i].name, exchange->asked) == 0)
			return &conf->aliases[i].models;
	return NULL;
}

/* Side traffic goes to whichever is resident; where none is, as it was asked. */
static void prefer_resident(struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;
	const struct conf_strings *models = exchange->side ? that_may_do(exchange) : NULL;
	struct id unused;

	for (size_t i = 0; models && i < models->count; i++) {
		int index = conf_resolve(exchange->conf, str_from(models->items[i]), NULL);
		if (index < 0 || !who_may_use(exchange->conf, exchange->key, (uint32_t)index) ||
		    !host->loaded(host->ctx, (uint32_t)index, &unused))
			continue;
		exchange->model = (uint32_t)index;
		return;
	}
}

/* False: the exchange has ended. */
static bool find_model(struct exchange *exchange)
{
	const struct conf *conf = exchange->conf;
	/* A key that sees only some models is not told the names of the others. */
	bool sees_all = !exchange->key || exchange->key->models.count == 0;
	struct buf near = BUF_INIT;

	if (!exchange->asked) {
		exchange->model = unnamed_model(exchange);
		if (exchange->model == MODEL_NONE)
			return exchange_knows_path(exchange) && refuse_nameless(exchange);
	} else {
		int index = conf_resolve(conf, str_from(exchange->asked), sees_all ? &near : NULL);
		if (index < 0 && sees_all)
			name_members(conf, exchange->asked, &near);
		if (index < 0) {
			refuse_unknown(exchange, buf_cstr(&near));
			buf_release(&near);
			return false;
		}
		exchange->model = (uint32_t)index;
	}
	buf_release(&near);
	prefer_resident(exchange);
	return who_may_use(conf, exchange->key, exchange->model) || refuse_model(exchange);
}

/* ---- what is done with it ---- */

static void refuse_who(struct exchange *exchange, bool (*refuse)(struct who *out))
{
	struct failure failure;
	struct who who;

	refuse(&who);
	failure_set(&failure, who.status, who.code, "%s", who.text);
	exchange_refuse(exchange, &failure);
}

static void look(struct exchange *exchange)
{
	const struct gateway_host *host = &exchange->gateway->host;

	exchange->is_look = true;
	if (host->loaded(host->ctx, exchange->model, &exchange->instance))
		relay_start(exchange);
	else
		exchange_fail(exchange, FAIL_NOT_LOADED, NULL);
}

/* An engine's own way to load, unload or alter itself would go past the arbiter. */
static void refuse_change(struct exchange *exchange)
{
	struct failure failure;
	const char *model = exchange_model(exchange)->name;

	failure_set(&failure, 400, "engine_change",
	            "%s %.*s would change the engine of model '%s' behind our back; try: cotenant "
	            "load %s, cotenant unload %s, or its entry in cotenant.yaml",
	            method_text(exchange->method), STR_ARG(exchange->engine_path), model, model,
	            model);
	exchange_refuse(exchange, &failure);
}

/* The head for its engine with another path. The head begins with method and path. */
void exchange_head_for(const struct exchange *exchange, struct str target, struct buf *out)
{
	struct str method = str_from(method_text(exchange->method));
	struct str rest = buf_str(&exchange->head);
	struct str path = str_cut(rest, ' ', &rest); /* the method */

	path = str_cut(rest, ' ', &rest);
	const char *query = memchr(path.data, '?', path.length);
	buf_append_str(out, method);
	buf_append_char(out, ' ');
	buf_append_str(out, target);
	if (query)
		buf_append_str(out, (struct str){ query, (size_t)(path.data + path.length - query) });
	buf_append_char(out, ' ');
	buf_append_str(out, rest);
}

/* The engine has another name for what the client asked for. */
static void retarget(struct exchange *exchange)
{
	struct buf head = BUF_INIT;

	if (!exchange->route.target || str_is(exchange->engine_path, exchange->route.target))
		return;
	exchange_head_for(exchange, str_from(exchange->route.target), &head);
	buf_release(&exchange->head);
	exchange->head = head;
}

/* What a path of its own means to clients is a field of the form to the engine. */
static void add_field(struct exchange *exchange)
{
	struct str value, name;

	if (!exchange->route.field || !exchange->boundary)
		return;
	name = str_cut(str_from(exchange->route.field), '=', &value);
	buf_printf(&exchange->ahead, "--%s\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n%.*s\r\n",
	           exchange->boundary, STR_ARG(name), STR_ARG(value));
}

static void on_verdict(void *owner, struct id ticket, const struct action *action)
{
	struct exchange *exchange = owner;
	const struct gateway_host *host = &exchange->gateway->host;

	(void)ticket;
	if (action->type == ACTION_DISPATCH) {
		if (host->decision)
			exchange->decision = host->decision(host->ctx, exchange->sequence);
		exchange->instance = action->instance;
		exchange->dispatched_at_us = boot_now_us();
		relay_start(exchange);
		return;
	}
	/* A deadline is for the first byte: what has begun in time may end. */
	if (action->type == ACTION_CANCEL && action->fail == FAIL_DEADLINE && exchange->first_byte_at_us)
		return;
	if (action->type == ACTION_REJECT) {
		exchange->ticket = ID_NONE; /* the arbiter ended it and knows */
		exchange->decision = action->decision.sequence;
		if (allowance_again(exchange, action->fail))
			return;
	}
	exchange_fail(exchange, (enum fail)action->fail, action);
}

static const struct ticket_handler ticket_handler = { on_verdict };

static uint32_t key_index(const struct exchange *exchange)
{
	return exchange->key ? (uint32_t)(exchange->key - exchange->conf->keys) + 1 : 0;
}

/*
 * The same words to another model, or under another key, are another conversation. Names and not
 * indices, so that it is the same after a restart.
 */
static uint64_t conversation_of(const struct exchange *exchange)
{
	uint64_t model = str_hash(str_from(exchange_model(exchange)->name));
	uint64_t key = exchange->key ? str_hash(str_from(exchange->key->name)) : 0;

	if (!exchange->conversation)
		return 0;
	uint64_t hash = exchange->conversation ^ model * 3 ^ key * 5;
	return hash ? hash : 1;
}

static void set_class(struct exchange *exchange, struct request_spec *spec)
{
	const struct conf_model *model = exchange_model(exchange);
	const struct conf_key *key = exchange->key;

	spec->priority = exchange->priority_asked < PRIORITY_COUNT ? exchange->priority_asked
	                                                           : model->priority;
	spec->weight_milli = exchange->weight_asked_milli ? exchange->weight_asked_milli
	                                                  : model->weight_milli;
	if (key && spec->priority < key->priority_max)
		spec->priority = key->priority_max;
	if (key && spec->weight_milli > key->weight_max_milli)
		spec->weight_milli = key->weight_max_milli;
	if (exchange->side) {
		spec->flags |= REQUEST_NO_EVICT;
		spec->priority = spec->priority < PRIORITY_BACKGROUND ? PRIORITY_BACKGROUND : spec->priority;
	}
	if (spec->priority < PRIORITY_BACKGROUND &&
	    exchange->route.background && exchange->route.route == ROUTE_WORK)
		spec->priority = PRIORITY_BACKGROUND;
	exchange->priority = spec->priority;
}

/* What only counts or renders text leaves nothing in the cache. */
static void set_need(const struct exchange *exchange, struct request_spec *spec)
{
	const struct gateway_host *host = &exchange->gateway->host;
	struct prompt_size prompt = exchange->claim;

	if (exchange->route.background)
		prompt = (struct prompt_size){ .tokens = -1, .prompts = 1 };
	if (host->need)
		host->need(host->ctx, exchange->model, &prompt, spec);
}

static void set_first_sign(struct exchange *exchange)
{
	const struct adapter *adapter = adapter_of(exchange_model(exchange));
	int64_t after_us = exchange_model(exchange)->early_headers_after_us;

	if (adapter && adapter->never_streams)
		return;
	if (exchange->may_stream && exchange->shape->stream != STREAM_NONE && after_us >= 0)
		exchange->sign_at_us = exchange->arrived_at_us + after_us;
}

void exchange_ask(struct exchange *exchange)
{
	struct gateway *gateway = exchange->gateway;

	if (!allowance_take(exchange))
		return;
	struct request_spec spec = {
		.sequence = exchange->sequence,
		.model = exchange->model,
		.kind = REQUEST_INFER,
		.key = key_index(exchange),
		.conversation = exchange->unweighed ? 0 : conversation_of(exchange), /* nothing is brought back for it yet */
		.deadline_at_us = exchange->deadline_us
			? exchange->arrived_at_us + exchange->deadline_us : INT64_MAX,
	};

	if (!exchange_weigh_picture(exchange, &spec.need))
		return;
	exchange->ticket = ticket_open(gateway->tickets, &ticket_handler, exchange);
	if (id_is_none(exchange->ticket)) {
		exchange_fail(exchange, FAIL_TABLE_FULL, NULL);
		return;
	}
	exchange->stage = STAGE_WAITING;
	if (exchange->asked_at_ns)
		spec.waited_us = (int64_t)((uv_hrtime() - exchange->asked_at_ns) / 1000) + 1;
	else
		exchange->asked_at_ns = uv_hrtime();
	set_class(exchange, &spec);
	set_need(exchange, &spec);
	set_first_sign(exchange);
	relay_rearm(exchange);
	gateway->host.on_request(gateway->host.ctx, exchange->ticket, &spec);
}

/* The arbiter was told that its dispatch is over. */
static void wait_again(struct exchange *exchange)
{
	ticket_close(exchange->gateway->tickets, exchange->ticket);
	exchange->instance = ID_NONE;
	exchange->dispatched_at_us = 0;
	exchange_ask(exchange);
}

void exchange_return(struct exchange *exchange)
{
	struct gateway *gateway = exchange->gateway;

	exchange->returned = true;
	gateway->host.on_return(gateway->host.ctx, exchange->ticket, exchange->instance);
	wait_again(exchange);
}

void exchange_ask_again(struct exchange *exchange)
{
	struct gateway *gateway = exchange->gateway;

	gateway->host.on_refused(gateway->host.ctx, exchange->ticket);
	wait_again(exchange);
}

/* False: its key has asked for enough; the exchange has ended. */
static bool within_quota(struct exchange *exchange)
{
	const struct conf_key *key = exchange->key;
	struct failure failure;

	if (!key || (key->requests_per_min == 0 && key->parallel == 0 && key->tokens_per_day == 0))
		return true;
	if (!quota_take(&exchange->gateway->quotas, key, boot_now_us(), &failure)) {
		exchange_refuse(exchange, &failure);
		return false;
	}
	exchange->counted = true;
	return true;
}

void exchange_choose(struct exchange *exchange)
{
	read_facts(exchange);
	if (!find_model(exchange))
		return;
	exchange->route = route_find(exchange_model(exchange), str_from(method_text(exchange->method)),
	                             exchange->engine_path);
	enum route route = exchange->route.route;

	/* What will be said in there nobody knows; it holds the engine until it is over. */
	if (exchange->upgrade && route == ROUTE_LOOK)
		route = ROUTE_WORK;
	if ((route != ROUTE_LOOK || exchange->route.acts) && exchange->foreign_page)
		refuse_who(exchange, who_refuse_page);
	else if (exchange->ejects_only)
		eject_begin(exchange);
	else if (exchange->route.unknown && route == ROUTE_CHANGE)
		exchange_refuse_endpoint(exchange);
	else if (route == ROUTE_CHANGE && exchange->role != CONF_ROLE_ADMIN)
		refuse_who(exchange, who_refuse_use);
	else if (route == ROUTE_CHANGE)
		refuse_change(exchange);
	else if (route == ROUTE_LOOK)
		look(exchange);
	else if (exchange_suits(exchange) && within_quota(exchange)) {
		retarget(exchange);
		add_field(exchange);
		if (!outgrow_counts_first(exchange))
			exchange_ask(exchange);
	}
}
