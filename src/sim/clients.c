/* Clients, operators, and events that nobody expects. */
#include "sim/world.h"

static uint32_t free_request(const struct world *world)
{
	for (uint32_t i = 0; i < WORLD_REQUESTS; i++)
		if (world->request[i].state == SIM_NONE)
			return i;
	return WORLD_REQUESTS;
}

/* It waits, for the first time or again. */
static void tell_arrival(struct world *world, uint32_t index)
{
	struct sim_request *request = &world->request[index];
	struct event event = { .type = EVENT_REQUEST_ARRIVED };

	request->state = SIM_WAITING;
	event.arrived.request = (struct id){ index, request->generation };
	event.arrived.spec = request->spec;
	world_tell(world, &event);
}

static void arrive(struct world *world, struct request_spec spec)
{
	uint32_t index = free_request(world);

	if (index == WORLD_REQUESTS)
		return;
	struct sim_request *request = &world->request[index];
	request->generation++;
	request->model = spec.model;
	request->kind = spec.kind;
	request->deaf = world_chance(world, 20);
	request->need_bytes = spec.need.bytes[0][USE_HOST];
	spec.sequence = ++world->request_sequence;
	request->spec = spec;
	request->came_at = world->now;
	request->returns = 0;
	world->result->requests++;
	if (request->deaf || world_chance(world, 150))
		world_note(world, world_draw(world, 0, request->deaf ? 300 : 60), HAPPENS_LEAVE, index,
		           request->generation);
	tell_arrival(world, index);
}

void client_arrives(struct world *world)
{
	struct request_spec spec = {
		.model = (uint32_t)rng_below(&world->rng, world->models),
		.kind = REQUEST_INFER,
		.priority = (uint32_t)rng_below(&world->rng, PRIORITY_COUNT),
		.deadline_at_us = INT64_MAX,
		.key = (uint32_t)rng_below(&world->rng, 3),
		.conversation = rng_below(&world->rng, 12),
	};

	if (world->calm)
		return;
	if (world_chance(world, 100))
		spec.deadline_at_us = world->now + (int64_t)(world_draw(world, 0, 60) * (double)WORLD_SECOND);
	spec.weight_milli = world_chance(world, 100) ? 10000 : 1000;
	spec.key = (uint32_t)rng_below(&world->rng, 3);
	spec.conversation = rng_below(&world->rng, 5);
	if (world_chance(world, 300))
		spec.expected_us = (int64_t)(world_draw(world, 0, 30) * (double)WORLD_SECOND);
	if (world_chance(world, 5))
		spec.expected_us = INT64_MAX;
	if (world_chance(world, 50))
		spec.flags |= REQUEST_NO_EVICT;
	if (world_chance(world, 10))
		spec.model = WORLD_MODELS + 3;
	if (world_chance(world, 200))
		spec.need.bytes[0][USE_HOST] =
			(int64_t)((double)world->machine.pool[0].size_bytes * world_draw(world, 0, 0.3));
	interplay_arrives(world, &spec);
	arrive(world, spec);
	world_note(world, world->gap_s * world_draw(world, 0, 2), HAPPENS_ARRIVAL, 0, 0);
}

static void tell_end(struct world *world, uint32_t index, enum event_type type, enum fail fail)
{
	struct sim_request *request = &world->request[index];
	struct event event = { .type = type };

	struct sim_engine *engine = &world->engine[request->engine];
	if (request->state != SIM_WAITING && engine->sequence == request->engine_sequence) {
		engine->running--;
		interplay_ended(world, engine, request);
	}
	request->state = SIM_NONE;
	event.request.request = (struct id){ index, request->generation };
	event.request.fail = fail;
	if (type == EVENT_REQUEST_FINISHED && world_chance(world, 700)) {
		event.request.tokens_in = (int64_t)rng_below(&world->rng, 40000);
		event.request.prefill_tokens = event.request.tokens_in / (1 + (int64_t)rng_below(&world->rng, 4));
		event.request.prefill_us = (int64_t)rng_below(&world->rng, 30000000);
		event.request.tokens_out = (int64_t)rng_below(&world->rng, 500);
		event.request.decode_us = (int64_t)rng_below(&world->rng, 20000000);
	}
	world_tell(world, &event);
}

/* Its engine has no room for its prompt; a larger context would have. It waits again, where it was. */
static void come_back(struct world *world, uint32_t index)
{
	struct sim_request *request = &world->request[index];

	tell_end(world, index, EVENT_REQUEST_FINISHED, FAIL_CANCELLED);
	request->generation++;
	request->returns++;
	request->spec.waited_us = world->now - request->came_at + 1;
	if (request->deaf)
		world_note(world, world_draw(world, 0, 300), HAPPENS_LEAVE, index, request->generation);
	tell_arrival(world, index);
}

void client_happens(struct world *world, const struct happening *happening)
{
	struct sim_request *request = &world->request[happening->index];

	if (request->state == SIM_NONE || request->generation != happening->life)
		return;
	if (happening->kind == HAPPENS_LEAVE) {
		world->result->left++;
		tell_end(world, happening->index, EVENT_REQUEST_GONE, FAIL_CLIENT_GONE);
	} else if (happening->kind == HAPPENS_RETURN && request->state == SIM_RUNNING) {
		come_back(world, happening->index);
	} else if (happening->kind == HAPPENS_CANCELLED) {
		tell_end(world, happening->index, EVENT_REQUEST_FINISHED, FAIL_CANCELLED);
	} else if (request->state == SIM_RUNNING) {
		world->result->finished++;
		tell_end(world, happening->index, EVENT_REQUEST_FINISHED, FAIL_NONE);
	}
}

static struct sim_request *named(struct world *world, const struct action *action)
{
	struct sim_request *request = &world->request[action->request.index % WORLD_REQUESTS];

	if (action->request.index >= WORLD_REQUESTS || request->state == SIM_NONE ||
	    request->generation != action->request.generation) {
		world_broken(world, "an action of type %u about a request that has ended", action->type);
		return NULL;
	}
	return request;
}

static bool are_equals(const struct request_spec *x, const struct request_spec *y)
{
	return x->model == y->model && x->kind == y->kind && x->priority == y->priority &&
	       x->weight_milli == y->weight_milli && x->key == y->key && x->conversation == y->conversation &&
	       x->flags == y->flags && x->expected_us == y->expected_us;
}

/* Among equals whoever came first is first, also who was given back. */
static void check_turn(struct world *world, const struct sim_request *request)
{
	enum { SURE_US = 1000000 }; /* of the time that a clock tells which steps back */

	for (uint32_t i = 0; i < WORLD_REQUESTS && !world->clock_failed; i++) {
		const struct sim_request *other = &world->request[i];
		if (other->state == SIM_WAITING && other != request && are_equals(&other->spec, &request->spec) &&
		    other->came_at + SURE_US < request->came_at)
			world_broken(world, "a request of model %u goes before one that came %.1f s earlier", request->model,
			             (double)(request->came_at - other->came_at) / (double)WORLD_SECOND);
	}
}

void client_dispatch(struct world *world, const struct action *action)
{
	struct sim_request *request = named(world, action);
	struct sim_engine *engine = engine_find(world, action->instance);

	if (!request)
		return;
	if (request->state != SIM_WAITING || request->kind != REQUEST_INFER)
		world_broken(world, "a dispatch of what does not wait for one");
	if (!engine || engine->state != ENGINE_READY || engine->model != request->model) {
		world_broken(world, "a dispatch to an engine that is not ready or not the model's");
		return;
	}
	if (engine->running >= engine->slots)
		world_broken(world, "a dispatch beyond the slots");
	check_turn(world, request);
	engine->running++;
	interplay_dispatched(world, engine, request);
	request->state = SIM_RUNNING;
	request->engine = action->instance.index;
	request->engine_sequence = engine->sequence;
	if (!request->deaf)
		world_note(world, world->model[request->model].work_s * world_draw(world, 0.1, 3),
		           HAPPENS_FINISH, action->request.index, request->generation);
}

void client_cancel(struct world *world, const struct action *action)
{
	struct sim_request *request = named(world, action);

	if (!request)
		return;
	if (request->state != SIM_RUNNING)
		world_broken(world, "a cancel of what does not run");
	request->state = SIM_CANCELLED;
	world->result->cancelled++;
	world_note(world, world_draw(world, 0, 2), HAPPENS_CANCELLED, action->request.index,
	           request->generation);
}

/* Rejected, or done. */
void client_end(struct world *world, const struct action *action)
{
	struct sim_request *request = named(world, action);

	if (!request)
		return;
	if (request->state != SIM_WAITING)
		world_broken(world, "a request that was dispatched is rejected or done");
	if (action->type == ACTION_DONE && request->kind == REQUEST_INFER)
		world_broken(world, "a request done without an answer");
	if (action->type == ACTION_REJECT && action->fail == FAIL_NONE)
		world_broken(world, "a rejection without a reason");
	world->result->rejected += action->type == ACTION_REJECT;
	world->result->finished += action->type == ACTION_DONE;
	request->state = SIM_NONE;
}

/* ---- operators ---- */

static void pin(struct world *world, uint32_t model, bool pinned)
{
	struct event event = { .type = EVENT_PIN };

	if (!world->model[model].spec.present)
		return;
	event.command.model = model;
	event.command.flag = pinned;
	world->model[model].pin_command = pinned ? 1 : -1;
	world_tell(world, &event);
}

static void pin_all(struct world *world, bool pinned)
{
	for (uint32_t model = 0; model < world->models; model++)
		pin(world, model, pinned);
}

static void command(struct world *world, uint32_t model, enum request_kind kind)
{
	struct request_spec spec = {
		.model = model,
		.kind = kind,
		.deadline_at_us = INT64_MAX,
		.flags = kind == REQUEST_UNLOAD && rng_below(&world->rng, 2) ? REQUEST_WISH : 0,
	};
	arrive(world, spec);
}

uint32_t client_commands(struct world *world, uint32_t model, enum request_kind kind)
{
	uint32_t index = free_request(world);

	arrive(world, (struct request_spec){
		.model = model,
		.kind = kind,
		.priority = world->model[model].spec.priority,
		.deadline_at_us = INT64_MAX,
	});
	return index;
}

/* The same model with twice the context, or half of it. */
static void resize_model(struct world *world, uint32_t model)
{
	struct model_spec *spec = &world->model[model].spec;
	bool grows = rng_below(&world->rng, 2) == 0;
	struct amount *amounts[] = { &spec->base, &spec->peak, &spec->lower };

	if (!spec->present || spec->flags & (MODEL_OUTSIDE | MODEL_RESERVATION))
		return;
	spec->context_tokens = grows ? 2 * (spec->context_tokens | 1) % 100000 : spec->context_tokens / 2;
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
			for (uint32_t use = 0; use < USE_COUNT; use++)
				amounts[i]->bytes[pool][use] =
					amounts[i]->bytes[pool][use] / 4 * (grows ? 5 : 3);
	uint32_t flags = MODEL_RESIZE | (rng_below(&world->rng, 2) ? MODEL_GROWN : 0);
	spec->flags |= flags;
	world_tell_model(world, model);
	spec->flags &= ~flags;
}

static void change_catalogue(struct world *world, uint32_t model)
{
	struct model_spec *spec = &world->model[model].spec;
	bool lazy = spec->flags & MODEL_LAZY;

	if (rng_below(&world->rng, 3) == 0) {
		resize_model(world, model);
		return;
	}
	if (spec->present && rng_below(&world->rng, 2)) {
		spec->present = 0;
	} else if (!spec->present || rng_below(&world->rng, 2)) {
		world_draw_model(world, model);
	} else {
		spec->slots = 1 + (uint32_t)rng_below(&world->rng, 4);
		spec->flags ^= MODEL_PINNED;
	}
	/* What it was started with may not hold any more. */
	spec->flags |= rng_below(&world->rng, 3) == 0 ? MODEL_RENEW : 0;
	if (lazy != !!(spec->flags & MODEL_LAZY))
		spec->flags |= MODEL_RENEW; /* a shell sees to that: its engine keeps no such account */
	world_tell_model(world, model);
	spec->flags &= ~(uint32_t)MODEL_RENEW;
}

void operator_acts(struct world *world)
{
	uint32_t model = (uint32_t)rng_below(&world->rng, world->models);

	if (world->calm)
		return;
	if (world_chance(world, 20))
		pin_all(world, rng_below(&world->rng, 2) == 0);
	switch (rng_below(&world->rng, 8)) {
	case 0:
		pin(world, model, true);
		break;
	case 1:
	case 2:
		pin(world, model, false);
		break;
	case 3:
		command(world, model, REQUEST_LOAD);
		break;
	case 4:
		command(world, model, REQUEST_UNLOAD);
		break;
	case 5:
		command(world, model, REQUEST_STOP);
		break;
	default:
		change_catalogue(world, model);
		break;
	}
	world_note(world, world_draw(world, 1, 40), HAPPENS_OPERATOR, 0, 0);
}

/* ---- noise ---- */

void world_sleep(struct world *world)
{
	struct event event = { .type = EVENT_SUSPEND };

	int64_t asleep_us = (int64_t)(world_draw(world, 1, 7200) * (double)WORLD_SECOND);

	world_tell(world, &event);
	agenda_delay(&world->agenda, asleep_us);
	world->now += asleep_us;
	for (uint32_t i = 0; i < WORLD_REQUESTS; i++)
		world->request[i].came_at += asleep_us; /* nobody waits asleep */
	event = (struct event){ .type = EVENT_RESUME };
	world_tell(world, &event);
}

/* The clock goes back for one event, or forward for good. */
static void clock_jumps(struct world *world)
{
	world->clock_failed = true;
	if (rng_below(&world->rng, 3) == 0)
		world->now += (int64_t)(world_draw(world, 0, 3600) * (double)WORLD_SECOND);
	else
		world->behind_us = (int64_t)(world_draw(world, 0, 1000) * (double)WORLD_SECOND);
}

static void read_files(struct world *world)
{
	struct event event = { .type = EVENT_FILE_RESIDENCY };

	event.residency.model = (uint32_t)rng_below(&world->rng, world->models);
	event.residency.cached_bytes = (int64_t)(world_draw(world, 0, 30) * (double)WORLD_GIB);
	world_tell(world, &event);
}

/* Random bytes under a random type: the arbiter must not believe what cannot be. */
static void nonsense(struct world *world)
{
	struct event event = { 0 };
	uint64_t word;

	event.type = (uint32_t)rng_below(&world->rng, EVENT_TYPE_COUNT + 2);
	for (uint32_t i = 0; i < sizeof(event.bytes) / sizeof(word); i++) {
		word = rng_below(&world->rng, 3) ? rng_next(&world->rng) : 0;
		for (uint32_t j = 0; j < sizeof(word); j++)
			event.bytes[i * sizeof(word) + j] = (uint8_t)(word >> (8 * j));
	}
	/* What random bytes could well mean is no nonsense. */
	bool meant = event.type >= EVENT_WALL && event.type <= EVENT_TICK;
	meant |= event.type == EVENT_SUSPEND || event.type == EVENT_RESUME;
	meant |= event.type == EVENT_SHUTDOWN || event.type == EVENT_PRESSURE;
	meant |= event.type == EVENT_PIN || event.type == EVENT_MODEL;
	if (meant || event_used_bytes(event.type) == 0)
		return;
	world_tell(world, &event);
}

/* An id of an earlier life. */
static void late_event(struct world *world)
{
	static const enum event_type types[] = {
		EVENT_INSTANCE_READY, EVENT_INSTANCE_EXITED, EVENT_INSTANCE_PROGRESS, EVENT_MEASURED,
	};
	struct event event = { .type = types[rng_below(&world->rng, 4)] };
	uint32_t index = (uint32_t)rng_below(&world->rng, WORLD_ENGINES);

	if (world->engine[index].id.generation == 0)
		return;
	event.instance.instance = world->engine[index].id;
	event.instance.instance.generation--;
	world_tell(world, &event);
	event = (struct event){ .type = EVENT_REQUEST_FINISHED };
	event.request.request.index = (uint32_t)rng_below(&world->rng, WORLD_REQUESTS);
	event.request.request.generation = world->request[event.request.request.index].generation - 1;
	world_tell(world, &event);
}

void noise_happens(struct world *world)
{
	if (world->calm)
		return;
	switch (rng_below(&world->rng, 8)) {
	case 0:
		world_sleep(world);
		break;
	case 6:
		clock_jumps(world);
		break;
	case 7:
		read_files(world);
		break;
	case 1:
	case 2:
		nonsense(world);
		break;
	default:
		late_event(world);
		break;
	}
	world_note(world, world_draw(world, 0.5, 30), HAPPENS_NOISE, 0, 0);
}
