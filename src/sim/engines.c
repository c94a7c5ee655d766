/* Engines and the memory they really take; what samples tell of it. */
#include "sim/world.h"

static struct amount scaled(const struct amount *amount, double factor)
{
	struct amount out;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			out.bytes[pool][use] = (int64_t)((double)amount->bytes[pool][use] * factor);
	return out;
}

struct sim_engine *engine_find(struct world *world, struct id id)
{
	if (id.index >= WORLD_ENGINES)
		return NULL;
	struct sim_engine *engine = &world->engine[id.index];
	return engine->state != ENGINE_NONE && id_equal(engine->id, id) ? engine : NULL;
}

static uint32_t engine_index(const struct world *world, const struct sim_engine *engine)
{
	return (uint32_t)(engine - world->engine);
}

static void note(struct world *world, const struct sim_engine *engine, double in_s,
                 enum happening_kind kind)
{
	world_note(world, in_s, kind, engine_index(world, engine), engine->sequence);
}

static void plan_load(struct world *world, struct sim_engine *engine)
{
	const struct sim_model *model = &world->model[engine->model];
	double load_s = model->load_s * world_draw(world, 0.7, 1.5);

	note(world, engine, 0.01, HAPPENS_SPAWNED);
	for (int i = 1; i < 4; i++)
		note(world, engine, load_s * i / 4, HAPPENS_PROGRESS);
	engine->never_ready = world_chance(world, model->never_permille);
	engine->hangs = world_chance(world, model->hang_permille);
	engine->grows = world_chance(world, model->grow_permille);
	if (engine->never_ready || world_chance(world, model->crash_permille))
		note(world, engine, load_s * rng_unit(&world->rng), HAPPENS_DEATH);
	else if (!engine->hangs)
		note(world, engine, load_s, HAPPENS_READY);
}

void engine_spawn(struct world *world, const struct action *action)
{
	struct sim_engine *engine = &world->engine[action->instance.index];
	const struct sim_model *model = &world->model[action->model];

	for (uint32_t i = 0; i < WORLD_ENGINES; i++)
		if (world->engine[i].state != ENGINE_NONE && world->engine[i].model == action->model)
			world_broken(world, "a second engine for model %u", action->model);
	if (engine->state != ENGINE_NONE)
		world_broken(world, "a spawn under a living name");
	bool outside = model->spec.flags & MODEL_OUTSIDE; /* finding a server takes no room */
	if (world->pressure != PRESSURE_NONE && !outside)
		world_broken(world, "a load under pressure");
	if (world->shutdown)
		world_broken(world, "a load after the shutdown");
	*engine = (struct sim_engine){
		.state = ENGINE_LOADING,
		.id = action->instance,
		.sequence = action->instance_sequence,
		.model = action->model,
		.slots = action->slots,
		.outside = outside,
		.base = scaled(&model->spec.base, model->ratio),
		.lazy = model->spec.flags & MODEL_LAZY,
		.peak = scaled(&model->spec.peak, model->ratio),
	};
	if (!engine->lazy)
		engine->each = scaled(&model->spec.per_request, model->ratio);
	if (outside)
		engine->base.bytes[0][USE_HOST] = engine->peak.bytes[0][USE_HOST] = model->server_bytes;
	else if (model->spec.flags & MODEL_MEASURE_FIRST) {
		engine->base.bytes[0][USE_HOST] = world->machine.pool[0].size_bytes / 5;
		engine->peak = engine->base;
	}
	world->loads += !outside;
	world->spawned = true;
	world->spawned_model = action->model;
	plan_load(world, engine);
}

void engine_stop(struct world *world, const struct action *action)
{
	struct sim_engine *engine = engine_find(world, action->instance);
	bool running = false;

	if (!engine || engine->state >= ENGINE_STOPPING) {
		world_broken(world, "a stop of what does not run");
		return;
	}
	if (action->type == ACTION_ABORT_LOAD && engine->state != ENGINE_LOADING)
		world_broken(world, "an abort of what does not load");
	for (uint32_t i = 0; i < WORLD_REQUESTS; i++)
		running |= world->request[i].state == SIM_RUNNING &&
		           world->request[i].engine == action->instance.index;
	const struct sim_model *model = &world->model[engine->model];
	/* A reservation ends with its use, also a pinned one. */
	bool reserved = model->spec.flags & MODEL_RESERVATION;
	bool pinned = model->pin_command ? model->pin_command > 0
	                                 : model->spec.present && model->spec.flags & MODEL_PINNED;
	/* Of what may have been something else when it was loaded nothing is said. */
	if (engine->outside && model->spec.flags & MODEL_OUTSIDE && action->reason == REASON_ROOM)
		world_broken(world, "a server of somebody else went for room");
	if (running && (action->reason == REASON_ROOM || action->reason == REASON_IDLE ||
	                action->reason == REASON_CONTEXT))
		world_broken(world, "running requests ended for room");
	if (pinned && !reserved && (action->reason == REASON_ROOM || action->reason == REASON_IDLE))
		world_broken(world, "a pinned model went for room");
	engine->state = ENGINE_STOPPING;
	note(world, engine, action->type == ACTION_STOP ? world_draw(world, 0.05, 3) : 0.02, HAPPENS_EXIT);
}

static struct event about(const struct sim_engine *engine, enum event_type type)
{
	struct event event = { .type = type };

	event.instance.instance = engine->id;
	event.instance.pid = 100 + (int32_t)engine->id.index;
	return event;
}

static void dies(struct world *world, struct sim_engine *engine)
{
	struct event event = about(engine, EVENT_INSTANCE_EXITED);
	struct amount held = engine->last;

	event.instance.fail = engine->state == ENGINE_STOPPING ? FAIL_NONE : FAIL_ENGINE_DIED;
	event.instance.never_ready = engine->state == ENGINE_LOADING && engine->never_ready;
	engine->state = ENGINE_DEAD;
	engine->back_at = world->now + (int64_t)(world_draw(world, 0, 2) * (double)WORLD_SECOND);
	if (engine->outside)
		engine->back_at = world->now; /* what it takes is others' again */
	if (world_chance(world, world->model[engine->model].leak_permille))
		for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
			world->leaked[pool] += amount_in_pool(&held, pool) / 20;
	world_tell(world, &event);
}

static void gets_ready(struct world *world, struct sim_engine *engine)
{
	struct event event = about(engine, EVENT_INSTANCE_READY);

	engine->state = ENGINE_READY;
	engine->permille = 1000;
	if (world_chance(world, 30))
		event.instance.slots = engine->slots = 1;
	if (world_chance(world, world->model[engine->model].die_permille))
		note(world, engine, world_draw(world, 0, 60), HAPPENS_DEATH);
	world_tell(world, &event);
}

void engine_happens(struct world *world, const struct happening *happening)
{
	struct sim_engine *engine = &world->engine[happening->index];
	struct event event;

	if (engine->state == ENGINE_NONE || engine->state == ENGINE_DEAD ||
	    engine->sequence != happening->life)
		return;
	switch (happening->kind) {
	case HAPPENS_SPAWNED:
		event = about(engine, EVENT_INSTANCE_SPAWNED);
		world_tell(world, &event);
		break;
	case HAPPENS_PROGRESS:
		if (engine->state != ENGINE_LOADING || engine->hangs)
			break;
		engine->permille += 250;
		event = about(engine, EVENT_INSTANCE_PROGRESS);
		event.instance.permille = engine->permille;
		world_tell(world, &event);
		break;
	case HAPPENS_READY:
		if (engine->state == ENGINE_LOADING)
			gets_ready(world, engine);
		break;
	case HAPPENS_DEATH:
		if (world->calm && engine->state == ENGINE_READY)
			break;
		dies(world, engine);
		break;
	default:
		dies(world, engine);
		break;
	}
}

/* What hung gets ready after all. */
void engines_calm(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_ENGINES; i++) {
		struct sim_engine *engine = &world->engine[i];
		if (engine->state == ENGINE_LOADING && engine->hangs)
			note(world, engine, 1, HAPPENS_READY);
		engine->hangs = false;
	}
}

/* ---- samples ---- */

static struct amount true_bytes(const struct world *world, const struct sim_engine *engine)
{
	struct amount own = engine->base;

	switch (engine->state) {
	case ENGINE_NONE:
		return (struct amount){ 0 };
	case ENGINE_LOADING:
		if (engine->outside)
			return own; /* it was there before */
		return scaled(&engine->peak, 0.1 + 0.9 * engine->permille / 1000.0);
	case ENGINE_READY:
	case ENGINE_STOPPING:
		own = scaled(&own, 1 + engine->grown + (engine->running ? engine->swing : 0));
		for (uint32_t i = 0; i < engine->running; i++)
			amount_add(&own, &engine->each);
		own.bytes[0][USE_HOST] += interplay_held_bytes(engine);
		return own;
	case ENGINE_DEAD:
		break;
	}
	return world->now < engine->back_at ? engine->last : (struct amount){ 0 };
}

static void tell_measured(struct world *world, struct sim_engine *engine, const struct amount *own)
{
	struct event event = { .type = EVENT_MEASURED };
	bool dead = engine->state == ENGINE_DEAD;

	event.measured.instance = engine->id;
	event.measured.own = *own;
	event.measured.complete = 1;
	event.measured.gone = dead && !world_chance(world, 100);
	if (world_chance(world, 60)) {
		event.measured.own = scaled(own, rng_unit(&world->rng));
		event.measured.complete = (uint32_t)rng_below(&world->rng, 2);
	} else if (world_chance(world, 30)) {
		event.measured.own = engine->last;
	} else if (world_chance(world, 10)) {
		event.measured.own = scaled(own, 1.5);
	}
	if (!dead)
		engine->last = *own;
	world_tell(world, &event);

	/* The arbiter lets go of it with the sample that closes this measurement. */
	if (dead && event.measured.gone && amount_total(&event.measured.own) == 0)
		engine->state = ENGINE_NONE;
}

static void tell_pressure(struct world *world, enum pressure level)
{
	struct event event = { .type = EVENT_PRESSURE };

	if (level == world->pressure)
		return;
	world->pressure = level;
	event.pressure.level = level;
	world_tell(world, &event);
}

static void kernel_kills(struct world *world)
{
	struct sim_engine *largest = NULL;

	for (uint32_t i = 0; i < WORLD_ENGINES; i++) {
		struct sim_engine *engine = &world->engine[i];
		if (engine->state != ENGINE_LOADING && engine->state != ENGINE_READY)
			continue;
		if (!largest || amount_total(&engine->last) > amount_total(&largest->last))
			largest = engine;
	}
	if (!largest)
		return;
	world->result->kernel_kills++;
	dies(world, largest);
}

/* Others come and go; when all is calm they are as at the start, but for what leaked. */
static void move_foreign(struct world *world, uint32_t pool)
{
	int64_t size = world->machine.pool[pool].size_bytes;
	int64_t walk = (int64_t)((double)size * world_draw(world, -0.01, 0.01));

	world->foreign[pool] += walk + (world->foreign_start[pool] - world->foreign[pool]) / 50;
	if (world_chance(world, 3))
		world->foreign[pool] += size / 4;
	if (world->calm)
		world->foreign[pool] = world->foreign_start[pool];
	if (world->foreign[pool] < 0)
		world->foreign[pool] = 0;
	if (world->leaked[pool] > size / 20)
		world->leaked[pool] = size / 20;
}

/* What no estimate knows: an engine that grows as it runs, experts that come and go. */
static void live_on(struct world *world, struct sim_engine *engine)
{
	const struct sim_model *model = &world->model[engine->model];

	if (engine->grows && engine->running && !world->calm)
		engine->grown += engine->grown < 0.4 ? 0.002 : 0;
	if (model->spec.flags & MODEL_EXPERTS)
		engine->swing = world_draw(world, -0.05, 0.2);
}

static double use_of(const struct world *world, const struct event *sample)
{
	double most = 0;

	for (uint32_t pool = 0; pool < world->machine.pools; pool++) {
		double use = (double)sample->sample.unreclaimable_bytes[pool] /
		             (double)world->machine.pool[pool].size_bytes;
		most = use > most ? use : most;
	}
	return most;
}

void engines_sample(struct world *world)
{
	struct event event = { .type = EVENT_SAMPLE };

	for (uint32_t pool = 0; pool < world->machine.pools; pool++) {
		move_foreign(world, pool);
		event.sample.unreclaimable_bytes[pool] = world->foreign[pool] + world->leaked[pool];
	}
	event.sample.unreclaimable_bytes[0] += interplay_servers_bytes(world);
	for (uint32_t pool = 0; pool < world->machine.pools; pool++)
		world->others[pool] = event.sample.unreclaimable_bytes[pool];
	for (uint32_t i = 0; i < WORLD_ENGINES && !world->over; i++) {
		struct sim_engine *engine = &world->engine[i];
		live_on(world, engine);
		struct amount own = true_bytes(world, engine);
		if (engine->state == ENGINE_NONE)
			continue;
		for (uint32_t pool = 0; pool < world->machine.pools; pool++)
			event.sample.unreclaimable_bytes[pool] += amount_in_pool(&own, pool);
		tell_measured(world, engine, &own);
	}
	double use = use_of(world, &event);
	if (world_chance(world, 30))
		event.sample.unreclaimable_bytes[0] /= 2;
	world_tell(world, &event);

	enum pressure level = use > 0.99 ? PRESSURE_CRIT : use > 0.96 ? PRESSURE_WARN : PRESSURE_NONE;
	if (world_chance(world, 5))
		level = (enum pressure)rng_below(&world->rng, 3);
	tell_pressure(world, level);
	if (use > 1.02)
		kernel_kills(world);
	world_note(world, world->calm ? 2 : world_draw(world, 0.1, 1), HAPPENS_SAMPLE, 0, 0);
}
