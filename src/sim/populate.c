/* What a seed makes: the machine, its models, and when the faults stop. */
#include "sim/world.h"

#include <stdio.h>

static int64_t gib(double amount)
{
	return (int64_t)(amount * (double)WORLD_GIB);
}

static void draw_machine(struct world *world)
{
	struct event_machine *machine = &world->machine;
	double size = world_draw(world, 8, 64);

	machine->pools = 1 + (rng_below(&world->rng, 4) == 0);
	for (uint32_t pool = 0; pool < machine->pools; pool++) {
		machine->pool[pool].size_bytes = gib(size);
		machine->pool[pool].reserve_bytes = gib(size * world_draw(world, 0, 0.1));
		world->foreign_start[pool] = gib(size * world_draw(world, 0.02, 0.2));
		world->foreign[pool] = world->foreign_start[pool];
		size = world_draw(world, 4, 24);
	}
	machine->limit_bytes = INT64_MAX;
	if (rng_below(&world->rng, 3) == 0)
		machine->limit_bytes = machine->pool[0].size_bytes / 10 * 7;
	if (rng_below(&world->rng, 3) == 0) {
		machine->views = 1;
		machine->view[0].cap_bytes = machine->pool[0].size_bytes / 2;
		machine->view[0].mask = VIEW_BIT(0, USE_GPU);
	}
	machine->margin_permille = rng_below(&world->rng, 2) ? -1 : (int32_t)rng_below(&world->rng, 200);
	machine->policy = POLICY_COTENANT;
	if (rng_below(&world->rng, 3) == 0)
		machine->policy = (uint32_t)rng_below(&world->rng, POLICY_COUNT);
	machine->loads_max = (int32_t)rng_below(&world->rng, 4);
}

static struct amount spread(const struct world *world, uint32_t pool, enum use use, double bytes)
{
	struct amount amount = { 0 };

	(void)world;
	amount.bytes[pool][use] = (int64_t)(bytes * 0.9);
	amount.bytes[0][USE_HOST] += (int64_t)(bytes * 0.1);
	return amount;
}

/* It stands for another program's use: held while its one request runs, which may vanish. */
static void reserve(struct model_spec *spec)
{
	spec->flags = MODEL_AUTOLOAD | MODEL_RESERVATION | MODEL_DECLARED;
	spec->slots = 1;
	spec->per_request = (struct amount){ 0 };
	spec->peak = spec->base;
}

/* A server that we do not run, on another machine: it takes nothing here. */
void world_be_outside(struct model_spec *spec)
{
	const struct amount nothing = { 0 };

	spec->flags = (spec->flags & (MODEL_AUTOLOAD | MODEL_PRELOAD)) | MODEL_OUTSIDE;
	spec->base = spec->per_request = spec->peak = spec->lower = nothing;
}

void world_draw_model(struct world *world, uint32_t index)
{
	struct sim_model *model = &world->model[index];
	struct model_spec *spec = &model->spec;
	uint32_t pool = (uint32_t)rng_below(&world->rng, world->machine.pools);
	enum use use = rng_below(&world->rng, 2) ? USE_GPU : USE_HOST;
	double size = (double)world->machine.pool[pool].size_bytes * world_draw(world, 0.05, 0.75);
	bool unknown = rng_below(&world->rng, 12) == 0;

	*spec = (struct model_spec){
		.file_key = index + 1,
		.build_key = rng_below(&world->rng, 3),
		.present = 1,
		.flags = MODEL_AUTOLOAD,
		.priority = (uint32_t)rng_below(&world->rng, PRIORITY_COUNT),
		.weight_milli = 1000,
		.slots = 1 + (uint32_t)rng_below(&world->rng, 4),
		.queue = (uint32_t)rng_below(&world->rng, 20),
		.engine_kind = (uint32_t)rng_below(&world->rng, 2),
		.unload_after_us = -1,
		.drain_timeout_us = (int64_t)world_draw(world, 0, 30) * WORLD_SECOND,
		.load_timeout_us = (int64_t)world_draw(world, 5, 120) * WORLD_SECOND,
		.start_timeout_us = (int64_t)world_draw(world, 60, 900) * WORLD_SECOND,
	};
	snprintf(spec->name, sizeof(spec->name), "model-%u", index);
	if (unknown) {
		spec->flags |= MODEL_MEASURE_FIRST;
	} else {
		spec->base = spread(world, pool, use, size);
		spec->per_request = spread(world, pool, use, rng_below(&world->rng, 2) ? size * 0.05 : 0);
		spec->peak = spread(world, pool, use, size * world_draw(world, 1, 1.3));
		spec->lower = spread(world, pool, use, size * 0.7);
	}
	static const struct { uint32_t flag; uint32_t one_in; } rare[] = {
		{ MODEL_PINNED, 10 }, { MODEL_PRELOAD, 6 }, { MODEL_SERIAL_LOAD, 3 },
		{ MODEL_EXPERTS, 4 }, { MODEL_LINEAR_LOAD, 3 }, { MODEL_DECLARED, 8 },
	};
	for (uint32_t i = 0; i < sizeof(rare) / sizeof(rare[0]); i++)
		if (rng_below(&world->rng, rare[i].one_in) == 0)
			spec->flags |= rare[i].flag;
	if (world->machine.policy == POLICY_COTENANT && !unknown && rng_below(&world->rng, 10) == 0)
		reserve(spec);
	else if (rng_below(&world->rng, 12) == 0)
		world_be_outside(spec);
	if (rng_below(&world->rng, 8) == 0)
		spec->flags &= ~(uint32_t)MODEL_AUTOLOAD;
	if (rng_below(&world->rng, 3) == 0)
		spec->file_bytes = (int64_t)size;
	spec->bandwidth_permille = (uint32_t)rng_below(&world->rng, 3) * 500;
	if (rng_below(&world->rng, 3) == 0)
		spec->unload_after_us = (int64_t)world_draw(world, 0, 120) * WORLD_SECOND;
	if (rng_below(&world->rng, 4) == 0)
		spec->set = 1 + (uint32_t)rng_below(&world->rng, 3);
	model->ratio = world_draw(world, 0.7, 1.25);
	model->load_s = world_draw(world, 0.5, 20);
	model->work_s = world_draw(world, 0.1, 6);
	model->crash_permille = (uint32_t)rng_below(&world->rng, 150);
	model->hang_permille = (uint32_t)rng_below(&world->rng, 50);
	model->never_permille = (uint32_t)rng_below(&world->rng, 40);
	model->die_permille = (uint32_t)rng_below(&world->rng, 40);
	model->grow_permille = (uint32_t)rng_below(&world->rng, 100);
	model->leak_permille = (uint32_t)rng_below(&world->rng, 60);
	interplay_model(world, index);
}

void world_tell_model(struct world *world, uint32_t index)
{
	struct event event = { .type = EVENT_MODEL };

	event.model.model = index;
	event.model.spec = world->model[index].spec;
	if (!event.model.spec.present)
		world->model[index].pin_command = 0;
	world_tell(world, &event);
}

void world_populate(struct world *world)
{
	struct event event = { .type = EVENT_MACHINE };
	double faults_s = world_draw(world, 300, 1500);

	draw_machine(world);
	event.machine = world->machine;
	world_tell(world, &event);
	interplay_populate(world);
	world->models = 2 + (uint32_t)rng_below(&world->rng, WORLD_MODELS - 2);
	for (uint32_t i = 0; i < world->models; i++) {
		world_draw_model(world, i);
		world_tell_model(world, i);
	}
	world->gap_s = world_draw(world, 0.1, 8);
	world_note(world, 0, HAPPENS_SAMPLE, 0, 0);
	world_note(world, world->gap_s, HAPPENS_ARRIVAL, 0, 0);
	world_note(world, 5, HAPPENS_OPERATOR, 0, 0);
	world_note(world, 3, HAPPENS_NOISE, 0, 0);
	world_note(world, faults_s, HAPPENS_CALM, 0, 0);
}
