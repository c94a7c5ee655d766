/* The loop of a random world: what happens next, what the arbiter makes of it, and whether that is right. */
#include "sim/world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sim/record.h"

enum { ACTIONS_MAX = 64 };

void world_broken(struct world *world, const char *format, ...)
{
	va_list args;

	world->over = true;
	if (world->result->problem[0])
		return;
	va_start(args, format);
	vsnprintf(world->result->problem, SIM_PROBLEM_BYTES, format, args);
	va_end(args);
}

double world_draw(struct world *world, double least, double most)
{
	return least + (most - least) * rng_unit(&world->rng);
}

bool world_chance(struct world *world, uint32_t permille)
{
	bool hit = rng_below(&world->rng, 1000) < permille;

	return hit && !world->calm;
}

void world_note(struct world *world, double in_s, enum happening_kind kind, uint32_t index,
                uint64_t life)
{
	int64_t in_us = (int64_t)(in_s * (double)WORLD_SECOND);

	agenda_note(&world->agenda, world->now + in_us, kind, index, life);
}

static void trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void trace(struct world *world, const char *format, ...)
{
	va_list args;

	if (!world->options->trace)
		return;
	fprintf(world->options->trace, "%12.6f ", (double)world->now / (double)WORLD_SECOND);
	va_start(args, format);
	vfprintf(world->options->trace, format, args);
	va_end(args);
	fputc('\n', world->options->trace);
}

static void trace_event(struct world *world, const struct event *event)
{
	switch (event->type) {
	case EVENT_REQUEST_ARRIVED:
		trace(world, "event %u: request %u for model %u, kind %u", event->type,
		      event->arrived.request.index, event->arrived.spec.model,
		      event->arrived.spec.kind);
		break;
	case EVENT_REQUEST_GONE:
	case EVENT_REQUEST_FINISHED:
		trace(world, "event %u: request %u", event->type, event->request.request.index);
		break;
	case EVENT_MEASURED:
		trace(world, "event %u: instance %u host %lld complete %u gone %u", event->type,
		      event->measured.instance.index,
		      (long long)event->measured.own.bytes[0][USE_HOST], event->measured.complete,
		      event->measured.gone);
		break;
	default:
		trace(world, "event %u: %u", event->type, event->instance.instance.index);
		break;
	}
}

static void trace_action(struct world *world, const struct action *action)
{
	const struct decision *d = &action->decision;

	if (action->type == ACTION_RECORD)
		trace(world, "  decision %s model %d %s need %lld room %lld held %lld foreign %lld",
		      decision_kind_name((enum decision_kind)d->kind), (int)d->model,
		      reason_name((enum reason)d->reason), (long long)d->need_bytes,
		      (long long)d->room_bytes, (long long)d->held_bytes,
		      (long long)d->foreign_bytes);
	else
		trace(world, "  action %u model %d instance %u request %u %s", action->type,
		      (int)action->model, action->instance.index, action->request.index,
		      fail_name((enum fail)action->fail));
}

static void trace_models(struct world *world)
{
	for (uint32_t i = 0; i < arbiter_models(world->arbiter); i++) {
		struct model_view view;
		if (!arbiter_model(world->arbiter, i, &view))
			continue;
		trace(world, "model %u: %s for %s, %u running of %u, %u wait, flags %u%s, claim %lld, retry %lld",
		      i, model_state_name(view.state), reason_name(view.reason), view.running, view.slots,
		      view.queued, view.spec->flags, view.pinned ? " pinned" : "",
		      (long long)view.claim_bytes, (long long)view.retry_at_us);
	}
}

static void check_record(struct world *world, const struct decision *decision)
{
	if (decision->sequence != ++world->decision_sequence)
		world_broken(world, "decision %llu follows %llu",
		             (unsigned long long)decision->sequence,
		             (unsigned long long)world->decision_sequence - 1);
}

static void drained(struct world *world)
{
	if (!world->shutdown || world->drained)
		world_broken(world, "drained without a shutdown, or twice");
	for (uint32_t i = 0; i < WORLD_ENGINES; i++)
		if (world->engine[i].state != ENGINE_NONE && world->engine[i].state != ENGINE_DEAD)
			world_broken(world, "drained while an engine runs");
	world->drained = true;
}

static void set_timer(struct world *world, const struct action *action)
{
	if (action->at_us < world->now && !world->clock_failed)
		world_broken(world, "a timer armed for the past");
	agenda_note(&world->agenda, action->at_us, HAPPENS_TIMER, 0, ++world->timer_life);
}

static void carry_out(struct world *world, const struct action *action)
{
	switch (action->type) {
	case ACTION_SPAWN:
		engine_spawn(world, action);
		break;
	case ACTION_STOP:
	case ACTION_KILL:
	case ACTION_ABORT_LOAD:
		engine_stop(world, action);
		break;
	case ACTION_DISPATCH:
		client_dispatch(world, action);
		break;
	case ACTION_CANCEL:
		client_cancel(world, action);
		break;
	case ACTION_REJECT:
	case ACTION_DONE:
		client_end(world, action);
		break;
	case ACTION_TIMER:
		set_timer(world, action);
		break;
	case ACTION_RECORD:
		check_record(world, &action->decision);
		break;
	case ACTION_DISCARD:
		interplay_discard(world, action);
		break;
	case ACTION_WARM:
	case ACTION_COOL:
		break; /* files are no matter here */
	case ACTION_DRAINED:
		drained(world);
		break;
	default:
		world_broken(world, "an action of type %u", action->type);
	}
}

static void run(struct world *world, const struct event *event)
{
	struct action items[ACTIONS_MAX];
	enum step step;

	do {
		struct actions out = { .items = items, .capacity = world->capacity };
		step = arbiter_step(world->arbiter, event, &out);
		arbiter_check(world->arbiter);
		for (uint32_t i = 0; i < out.count; i++) {
			world->result->hash = action_hash(world->result->hash, &items[i]);
			trace_action(world, &items[i]);
			carry_out(world, &items[i]);
		}
		world->result->actions += out.count;
		event = NULL;
	} while (step == STEP_MORE);
	world->result->steps++;
}

static bool is_pinned(const struct world *world, uint32_t model)
{
	struct model_view view;

	return arbiter_model(world->arbiter, model, &view) && !id_is_none(view.instance) && view.pinned;
}

/* It stays whoever wants its room: not ours to end, pinned itself, or with one of its set that is loaded. */
static bool stays(const struct world *world, uint32_t model)
{
	const struct model_spec *spec = &world->model[model].spec;

	if (spec->flags & MODEL_OUTSIDE || is_pinned(world, model))
		return true;
	for (uint32_t i = 0; i < arbiter_models(world->arbiter); i++)
		if (spec->set && world->model[i].spec.set == spec->set && is_pinned(world, i))
			return true;
	return false;
}

/* Beside the spawned one, nobody is there who could go for it. */
static bool is_sole(const struct world *world)
{
	uint32_t set = world->model[world->spawned_model].spec.set;

	for (uint32_t i = 0; i < arbiter_models(world->arbiter); i++) {
		bool mate = set && world->model[i].spec.set == set;
		struct model_view view;
		if (i == world->spawned_model || mate || stays(world, i))
			continue;
		if (arbiter_model(world->arbiter, i, &view) && !id_is_none(view.instance))
			return false;
	}
	return true;
}

/* A load was admitted: what is held now fits beside what others use, or it is beside nobody who could go. */
static void check_room(struct world *world)
{
	int64_t held = 0;

	if (is_sole(world))
		return;
	for (uint32_t pool = 0; pool < arbiter_pools(world->arbiter); pool++) {
		const struct model_spec *spec = &world->model[world->spawned_model].spec;
		struct pool_view view;
		arbiter_pool(world->arbiter, pool, &view);
		held += view.held_bytes;
		if (amount_in_pool(&spec->peak, pool) == 0)
			continue;
		if (view.held_bytes + view.foreign_bytes > view.capacity_bytes)
			world_broken(world, "a load beyond the room of pool %u: %lld held, %lld foreign",
			             pool, (long long)view.held_bytes, (long long)view.foreign_bytes);
	}
	bool unknown = world->model[world->spawned_model].spec.flags & (MODEL_MEASURE_FIRST | MODEL_OUTSIDE);
	if (held > world->machine.limit_bytes && !unknown)
		world_broken(world, "a load beyond the limit: %lld held", (long long)held);
}

/* At a critical moment nothing loads, and as long as somebody idle is there, somebody leaves. */
static void check_critical(struct world *world)
{
	bool idle = false, leaving = false;

	for (uint32_t i = 0; i < WORLD_ENGINES; i++) {
		const struct sim_engine *engine = &world->engine[i];
		struct model_view view;
		leaving |= engine->clearing || engine->state == ENGINE_STOPPING || engine->state == ENGINE_DEAD;
		if (engine->state == ENGINE_LOADING && !engine->outside)
			world_broken(world, "model %u loads at a critical moment", engine->model);
		if (engine->state != ENGINE_READY || engine->outside ||
		    !arbiter_model(world->arbiter, engine->model, &view))
			continue;
		bool ours = !(view.spec->flags & MODEL_OUTSIDE) && !view.pinned;
		idle |= ours && view.state == MODEL_IDLE && id_equal(view.instance, engine->id);
	}
	if (idle && !leaving)
		world_broken(world, "nobody leaves at a critical moment, though somebody is idle");
}

void world_tell(struct world *world, struct event *event)
{
	event->at_us = world->now - world->behind_us;
	world->behind_us = 0;
	if (world->options->record && record_event(world->options->record, event) != 0)
		world_broken(world, "the recording cannot be written");
	trace_event(world, event);
	world->spawned = false;
	run(world, event);
	if (world->spawned)
		check_room(world);
	if (world->pressure == PRESSURE_CRIT && event->type == EVENT_SAMPLE)
		check_critical(world);
	if (rng_below(&world->rng, 50) != 0)
		return;

	/*
	 * Now and then: after a step nothing is left to do. An impossible event was no
	 * step, so the first of two makes sure that there was one.
	 */
	struct event nothing = { .type = EVENT_WALL, .at_us = world->now };
	uint64_t hash = 0;
	for (int i = 0; i < 2; i++) {
		hash = world->result->hash;
		if (world->options->record && record_event(world->options->record, &nothing) != 0)
			world_broken(world, "the recording cannot be written");
		run(world, &nothing);
	}
	if (world->result->hash != hash)
		world_broken(world, "a step without news did something");
}

static void calm_down(struct world *world)
{
	world->calm = true;
	engines_calm(world);
	world_note(world, 2400, HAPPENS_QUIET, 0, 0);
	world_note(world, 3600, HAPPENS_SHUTDOWN, 0, 0);
}

/* Nobody asks for anything: nothing is on its way, nothing comes and goes, and what others take is known. */
static void check_quiet(struct world *world)
{
	uint64_t loads = world->loads - world->loads_then;

	if (loads > 3 * WORLD_MODELS)
		world_broken(world, "%llu loads that nobody asked for, in twenty minutes", (unsigned long long)loads);
	for (uint32_t i = 0; i < arbiter_models(world->arbiter); i++) {
		struct model_view view;
		bool there = arbiter_model(world->arbiter, i, &view);
		if (there && (view.state == MODEL_DRAINING || view.state == MODEL_RESIZING || view.state == MODEL_BUSY))
			world_broken(world, "model %u is %s though nobody asks for anything", i,
			             model_state_name(view.state));
		if (there && view.state == MODEL_IDLE && view.kv_bytes != view.kept_bytes)
			world_broken(world, "model %u claims %lld for conversations that hold %lld", i,
			             (long long)view.kv_bytes, (long long)view.kept_bytes);
	}
	for (uint32_t pool = 0; pool < arbiter_pools(world->arbiter); pool++) {
		struct pool_view view;
		arbiter_pool(world->arbiter, pool, &view);
		if (view.foreign_bytes != world->others[pool])
			world_broken(world, "others take %lld of pool %u, and %lld is thought",
			             (long long)world->others[pool], pool, (long long)view.foreign_bytes);
	}
}

static void shut_down(struct world *world)
{
	struct event event = { .type = EVENT_SHUTDOWN };

	if (arbiter_requests_live(world->arbiter) != 0)
		trace_models(world);
	if (arbiter_requests_live(world->arbiter) != 0)
		world_broken(world, "%u requests without an end an hour after the last fault",
		             arbiter_requests_live(world->arbiter));
	check_quiet(world);
	world->shutdown = true;
	world_tell(world, &event);
	if (rng_below(&world->rng, 4) == 0)
		world_tell(world, &event); /* ... at once */
	world_note(world, 600, HAPPENS_LIMIT, 0, 0);
}

/* Ten minutes after the shutdown everything is over and all memory is back. */
static void check_end(struct world *world)
{
	world->over = true;
	if (!world->drained)
		world_broken(world, "the shutdown did not come to an end");
	for (uint32_t i = 0; i < WORLD_REQUESTS; i++)
		if (world->request[i].state != SIM_NONE)
			world_broken(world, "request %u never ended", i);
	for (uint32_t pool = 0; pool < arbiter_pools(world->arbiter); pool++) {
		struct pool_view view;
		arbiter_pool(world->arbiter, pool, &view);
		if (view.held_bytes != 0)
			world_broken(world, "%lld bytes held after everything went",
			             (long long)view.held_bytes);
	}
}

static void happens(struct world *world, const struct happening *happening)
{
	struct event tick = { .type = EVENT_TICK };

	switch ((enum happening_kind)happening->kind) {
	case HAPPENS_ARRIVAL:
		client_arrives(world);
		break;
	case HAPPENS_LEAVE:
	case HAPPENS_FINISH:
	case HAPPENS_CANCELLED:
	case HAPPENS_RETURN:
		client_happens(world, happening);
		break;
	case HAPPENS_SPAWNED:
	case HAPPENS_PROGRESS:
	case HAPPENS_READY:
	case HAPPENS_DEATH:
	case HAPPENS_EXIT:
		engine_happens(world, happening);
		break;
	case HAPPENS_SAMPLE:
		engines_sample(world);
		break;
	case HAPPENS_OPERATOR:
		operator_acts(world);
		break;
	case HAPPENS_NOISE:
		noise_happens(world);
		break;
	case HAPPENS_TIMER:
		if (happening->life == world->timer_life)
			world_tell(world, &tick);
		break;
	case HAPPENS_CALM:
		calm_down(world);
		break;
	case HAPPENS_QUIET:
		world->loads_then = world->loads;
		break;
	case HAPPENS_SHUTDOWN:
		shut_down(world);
		break;
	case HAPPENS_LIMIT:
		check_end(world);
		break;
	case HAPPENS_TOLD:
	case HAPPENS_ERASED:
	case HAPPENS_CONTEXT:
	case HAPPENS_SHORTAGE:
	case HAPPENS_NAP:
	case HAPPENS_PLAN:
		interplay_happens(world, happening);
		break;
	}
}

int sim_run(const struct sim_options *options, struct sim_result *result)
{
	struct arbiter_limits limits = { .models = WORLD_MODELS, .requests = WORLD_REQUESTS };
	struct world *world = xcalloc(1, sizeof(*world));
	struct happening happening;

	*result = (struct sim_result){ .seed = options->seed, .hash = ACTION_HASH_START };
	world->rng.state = options->seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	world->options = options;
	world->result = result;
	world->now = 1000 * WORLD_SECOND;
	world->capacity = 1 + (uint32_t)rng_below(&world->rng, ACTIONS_MAX);
	if (options->capacity)
		world->capacity = options->capacity < ACTIONS_MAX ? options->capacity : ACTIONS_MAX;
	world->arbiter = arbiter_init(xcalloc(1, arbiter_bytes(&limits)), &limits);
	if (options->record && record_begin(options->record, &limits) != 0)
		world_broken(world, "the recording cannot be written");

	world_populate(world);
	while (!world->over && agenda_next(&world->agenda, &happening)) {
		world->now = happening.at_us > world->now ? happening.at_us : world->now;
		happens(world, &happening);
	}
	result->simulated_s = (double)world->now / (double)WORLD_SECOND - 1000;
	result->counters = *arbiter_counters(world->arbiter);
	agenda_free(&world->agenda);
	free(world->arbiter);
	free(world);
	return result->problem[0] ? -1 : 0;
}

int sim_run_random(uint64_t seed, FILE *trace_to, struct sim_result *result)
{
	struct sim_options options = { .seed = seed, .trace = trace_to };

	return sim_run(&options, result);
}
