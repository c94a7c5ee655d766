/*
 * What makes the arbiter's parts meet: conversations kept in lazy engines, contexts that grow by restart, servers
 * of somebody else on this machine, sets, pins, experts, memory that runs short at once, and sleep. A world has
 * some of these themes, drawn from its seed.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "sim/world.h"

enum theme {
	THEME_TALKS = 1,
	THEME_CONTEXTS = 2,
	THEME_SERVERS = 4,
	THEME_SETS = 8,
	THEME_PINS = 16,
	THEME_EXPERTS = 32,
	THEME_SHORTAGES = 64,
	THEME_NAPS = 128,
	THEME_ALL = 255,
	CONTEXT_STEPS = 3,
	CONTEXT_TOKENS = 4096,
	RETURNS_MOST = 2,
};

static bool has(const struct world *world, enum theme theme)
{
	return world->themes & theme;
}

static bool one_in(struct world *world, uint32_t n)
{
	return rng_below(&world->rng, n) == 0;
}

/* ---- models ---- */

static void move_to_host(struct amount *amount)
{
	int64_t bytes = amount_total(amount);

	*amount = (struct amount){ 0 };
	amount->bytes[0][USE_HOST] = bytes;
}

/* On the CPU, with KV that is claimed as conversations fill it. */
static void be_lazy(struct world *world, struct model_spec *spec)
{
	double size = (double)amount_total(&spec->base);
	struct amount *amounts[] = { &spec->base, &spec->peak, &spec->lower };

	for (uint32_t i = 0; i < 3; i++)
		move_to_host(amounts[i]);
	spec->flags |= MODEL_LAZY;
	spec->per_request = (struct amount){ 0 };
	spec->per_request.bytes[0][USE_HOST] = (int64_t)(size * world_draw(world, 0.05, 0.6));
}

void interplay_model(struct world *world, uint32_t index)
{
	struct sim_model *model = &world->model[index];
	struct model_spec *spec = &model->spec;

	model->server_bytes = 0;
	model->context_step = 0;
	if (!world->themes)
		return;
	if (has(world, THEME_SERVERS) && !(spec->flags & MODEL_RESERVATION) && one_in(world, 3))
		world_be_outside(spec);
	if (has(world, THEME_SERVERS) && spec->flags & MODEL_OUTSIDE)
		model->server_bytes =
			(int64_t)((double)world->machine.pool[0].size_bytes * world_draw(world, 0, 0.3));
	if (has(world, THEME_SETS) && !one_in(world, 5))
		spec->set = 1 + (uint32_t)rng_below(&world->rng, 2);
	if (has(world, THEME_PINS) && one_in(world, 3))
		spec->flags |= MODEL_PINNED;
	if (has(world, THEME_EXPERTS))
		spec->flags |= MODEL_EXPERTS;
	if (spec->flags & (MODEL_OUTSIDE | MODEL_RESERVATION | MODEL_MEASURE_FIRST))
		return;
	if (has(world, THEME_TALKS) && !one_in(world, 3))
		be_lazy(world, spec);
	else if (has(world, THEME_CONTEXTS))
		spec->context_tokens = CONTEXT_TOKENS;
}

int64_t interplay_servers_bytes(const struct world *world)
{
	int64_t bytes = 0;

	for (uint32_t m = 0; m < world->models; m++) {
		bool found = false;
		for (uint32_t i = 0; i < WORLD_ENGINES; i++)
			found |= world->engine[i].outside && world->engine[i].model == m &&
			         world->engine[i].state != ENGINE_NONE && world->engine[i].state != ENGINE_DEAD;
		if (world->model[m].spec.flags & MODEL_OUTSIDE && !found)
			bytes += world->model[m].server_bytes;
	}
	return bytes;
}

/* ---- conversations ---- */

void interplay_arrives(struct world *world, struct request_spec *spec)
{
	if (spec->model >= world->models)
		return;
	const struct model_spec *model = &world->model[spec->model].spec;
	int64_t full = model->per_request.bytes[0][USE_HOST];

	if (!(model->flags & MODEL_LAZY))
		return;
	spec->need = (struct amount){ 0 };
	spec->need.bytes[0][USE_HOST] = (int64_t)((double)full * world_draw(world, 0.02, 1));
	spec->tokens = 1 + spec->need.bytes[0][USE_HOST] / 1000;
}

/* It takes a slot that is free, whoever was there, and fills so much of it as it comes to. */
void interplay_dispatched(struct world *world, struct sim_engine *engine, struct sim_request *request)
{
	uint32_t free[ENGINE_SLOTS], count = 0;

	if (engine->clearing)
		world_broken(world, "a dispatch to an engine that gives up its conversations");
	if (has(world, THEME_CONTEXTS) && request->returns < RETURNS_MOST && one_in(world, 4) && !world->calm)
		world_note(world, world_draw(world, 0, 0.5), HAPPENS_RETURN, (uint32_t)(request - world->request),
		           request->generation);
	if (!engine->lazy)
		return;
	for (uint32_t i = 0; i < engine->slots && i < ENGINE_SLOTS; i++)
		if (!engine->slot_busy[i])
			free[count++] = i;
	if (!count)
		return;
	request->slot = free[rng_below(&world->rng, count)];
	int64_t fills = (int64_t)((double)request->need_bytes * world_draw(world, 0.1, 1));
	engine->slot_busy[request->slot] = true;
	if (fills > engine->slot_bytes[request->slot])
		engine->slot_bytes[request->slot] = fills;
}

void interplay_ended(struct world *world, struct sim_engine *engine, const struct sim_request *request)
{
	if (!engine->lazy)
		return;
	engine->slot_busy[request->slot] = false;
	world_note(world, world_draw(world, 0, 2), HAPPENS_TOLD, (uint32_t)(engine - world->engine), engine->sequence);
}

int64_t interplay_held_bytes(const struct sim_engine *engine)
{
	int64_t bytes = 0;

	for (uint32_t i = 0; i < ENGINE_SLOTS; i++)
		bytes += engine->slot_bytes[i];
	return bytes;
}

void interplay_discard(struct world *world, const struct action *action)
{
	struct sim_engine *engine = engine_find(world, action->instance);

	if (!engine || engine->state != ENGINE_READY || engine->clearing || engine->running) {
		world_broken(world, "conversations given up that are not idle");
		return;
	}
	engine->clearing = true;
	world_note(world, world_draw(world, 0.05, 4), HAPPENS_ERASED, action->instance.index, engine->sequence);
}

/* What each slot holds; where something ended meanwhile, it is asked again. */
static void tell_held(struct world *world, struct sim_engine *engine)
{
	struct event event = { .type = EVENT_TOKENS_HELD };

	event.held.instance = engine->id;
	event.held.settled = !world_chance(world, 300);
	for (uint32_t i = 0; i < engine->slots && i < ENGINE_SLOTS; i++) {
		event.held.slot_bytes[event.held.slots++] = engine->slot_bytes[i];
		event.held.tokens += engine->slot_bytes[i] / 1000;
	}
	if (!event.held.settled)
		world_note(world, world_draw(world, 0.1, 2), HAPPENS_TOLD, engine->id.index, engine->sequence);
	world_tell(world, &event);
}

static void tell_erased(struct world *world, struct sim_engine *engine)
{
	struct event event = { .type = EVENT_CONVERSATION_ERASED };

	event.erased.instance = engine->id;
	event.erased.failed = world_chance(world, 150);
	engine->clearing = false;
	for (uint32_t i = 0; i < ENGINE_SLOTS && !event.erased.failed; i++)
		engine->slot_bytes[i] = 0;
	world_tell(world, &event);
}

/* ---- contexts ---- */

static void scale(struct amount *amount, double factor)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			amount->bytes[pool][use] = (int64_t)((double)amount->bytes[pool][use] * factor);
}

/* A request needs a larger context, or the next load is to have a smaller one. */
static void change_context(struct world *world)
{
	struct sim_model *model = &world->model[rng_below(&world->rng, world->models)];
	struct model_spec *spec = &model->spec;
	bool grows = model->context_step < CONTEXT_STEPS && (model->context_step == 0 || rng_below(&world->rng, 2));
	double factor = grows ? 1.25 : 0.8;

	if (!spec->present || !spec->context_tokens ||
	    spec->flags & (MODEL_OUTSIDE | MODEL_RESERVATION | MODEL_LAZY | MODEL_MEASURE_FIRST))
		return;
	if (!grows && !model->context_step)
		return;
	model->context_step += grows ? 1 : -1;
	spec->context_tokens = (uint32_t)CONTEXT_TOKENS << model->context_step;
	scale(&spec->base, factor);
	scale(&spec->peak, factor);
	scale(&spec->lower, factor);
	uint32_t flags = MODEL_RESIZE | (model->context_step ? MODEL_GROWN : 0);
	spec->flags |= flags;
	world_tell_model(world, (uint32_t)(model - world->model));
	spec->flags &= ~flags;
}

/* ---- plans ---- */

/* What a plan says would happen at once does. */
static void try_plan(struct world *world)
{
	struct arbiter_limits limits = { .models = WORLD_MODELS, .requests = WORLD_REQUESTS };
	uint32_t model = (uint32_t)rng_below(&world->rng, world->models);
	struct model_view view;
	struct plan plan;

	if (world->shutdown)
		return;
	void *scratch = xcalloc(1, arbiter_bytes(&limits));
	bool any = arbiter_plan(world->arbiter, model, scratch, &plan);
	free(scratch);
	if (!any || !world->model[model].spec.present)
		return;
	arbiter_fits(world->arbiter, model, &world->model[model].spec);
	arbiter_fits_request(world->arbiter, model, &world->model[model].spec.per_request);
	bool now = plan.fits == FITS_NOW || plan.fits == FITS_TIGHT;
	uint64_t requests = world->result->requests;
	uint32_t asked = client_commands(world, model, REQUEST_LOAD);
	if (world->result->requests == requests)
		return; /* there are no more than so many */
	bool ended = world->request[asked].state == SIM_NONE;
	bool loads = arbiter_model(world->arbiter, model, &view) && !id_is_none(view.instance);
	if (now && !loads)
		world_broken(world, "a plan said that model %u fits %s, and it was not loaded", model,
		             fits_name(plan.fits));
	if (plan.fits == FITS_NEVER && !ended)
		world_broken(world, "a plan said that model %u never fits, and it was not refused", model);
}

/* ---- what happens ---- */

void interplay_populate(struct world *world)
{
	if (!world->options->interplay)
		return;
	world->themes = 1 + (uint32_t)rng_below(&world->rng, THEME_ALL);
	if (has(world, THEME_CONTEXTS))
		world_note(world, 10, HAPPENS_CONTEXT, 0, 0);
	if (has(world, THEME_SHORTAGES))
		world_note(world, 60, HAPPENS_SHORTAGE, 0, 0);
	if (has(world, THEME_NAPS))
		world_note(world, 30, HAPPENS_NAP, 0, 0);
	world_note(world, 5, HAPPENS_PLAN, 0, 0);
}

/* Another program takes much at once. */
static void run_short(struct world *world)
{
	uint32_t pool = (uint32_t)rng_below(&world->rng, world->machine.pools);

	world->foreign[pool] += (int64_t)((double)world->machine.pool[pool].size_bytes * world_draw(world, 0.05, 0.5));
}

static void about_engine(struct world *world, const struct happening *happening)
{
	struct sim_engine *engine = &world->engine[happening->index];

	if (engine->state != ENGINE_READY || engine->sequence != happening->life)
		return;
	if (happening->kind == HAPPENS_TOLD)
		tell_held(world, engine);
	else
		tell_erased(world, engine);
}

void interplay_happens(struct world *world, const struct happening *happening)
{
	if (happening->kind == HAPPENS_TOLD || happening->kind == HAPPENS_ERASED) {
		about_engine(world, happening);
		return;
	}
	if (world->calm)
		return;
	switch (happening->kind) {
	case HAPPENS_CONTEXT:
		change_context(world);
		world_note(world, world_draw(world, 1, 30), HAPPENS_CONTEXT, 0, 0);
		break;
	case HAPPENS_SHORTAGE:
		run_short(world);
		world_note(world, world_draw(world, 20, 200), HAPPENS_SHORTAGE, 0, 0);
		break;
	case HAPPENS_NAP:
		world_sleep(world);
		world_note(world, world_draw(world, 10, 200), HAPPENS_NAP, 0, 0);
		break;
	default:
		try_plan(world);
		world_note(world, world_draw(world, 1, 30), HAPPENS_PLAN, 0, 0);
		break;
	}
}
