/*
 * Machines where GPUs have memory or caps: the topology's pools and views for
 * the arbiter. Without a device nothing of this is used: there is system RAM
 * and perhaps a control group's limit.
 */
#include "app/shell.h"

#include <string.h>

_Static_assert(POOLS_KNOWN_MAX == (int)POOLS_MAX, "a pool of the probe is a pool of the arbiter");

static int64_t at_least_zero(int64_t bytes)
{
	return bytes > 0 ? bytes : 0;
}

bool shell_has_devices(const struct shell *shell)
{
	return shell->topology.devices > 0;
}

static uint32_t mask_of(const struct view *view)
{
	return (view->bounds_host ? VIEW_BIT(view->pool, USE_HOST) : 0) |
	       (view->bounds_gpu ? VIEW_BIT(view->pool, USE_GPU) : 0);
}

/* What stands under the cap and is not our engines'. */
static int64_t foreign_under(const struct view *view, const struct sample *sample)
{
	int64_t foreign = view->used_bytes;

	for (uint32_t i = 0; i < sample->owners; i++) {
		foreign -= view->bounds_gpu ? sample->owner[i].gpu_bytes[view->pool] : 0;
		foreign -= view->bounds_host ? sample->owner[i].own_bytes : 0;
	}
	return at_least_zero(foreign);
}

void shell_fill_pools(const struct shell *shell, struct event_machine *machine)
{
	const struct topology *t = &shell->topology;

	machine->pools = t->pools;
	for (uint32_t i = 0; i < t->pools; i++)
		machine->pool[i] =
		        (struct pool_spec){ t->pool[i].size_bytes, t->pool[i].reserve_bytes };
	machine->pool[0].reserve_bytes = shell->reserve_bytes;
	machine->views = 0;
	for (uint32_t i = 0; i < t->views && machine->views < VIEWS_MAX; i++) {
		const struct view *view = &t->view[i];
		if (view->role != VIEW_CAP || mask_of(view) == 0 || !view->bounds_gpu)
			continue; /* bounds the host alone: the control group's, which comes last */
		/* A cap above the pool bounds nothing; what it says may be beyond all counting. */
		int64_t size = t->pool[view->pool].size_bytes;
		struct view_spec *spec = &machine->view[machine->views++];
		spec->cap_bytes = view->bytes < size ? view->bytes : size;
		spec->foreign_bytes = foreign_under(view, &shell->sample);
		spec->mask = mask_of(view);
	}
	if (machine->views < VIEWS_MAX)
		machine->views += shell_cgroup_cap(shell, &shell->sample, &machine->view[machine->views]);
}

uint64_t shell_caps(const struct event_machine *machine)
{
	uint64_t caps = machine->views;

	for (uint32_t i = 0; i < machine->views; i++)
		caps = caps * 31 + (uint64_t)machine->view[i].cap_bytes + machine->view[i].mask;
	return caps;
}

bool shell_fill_sample(const struct shell *shell, struct event *event)
{
	const struct topology *t = &shell->topology;
	struct event_machine machine = { 0 };

	shell_fill_pools(shell, &machine);
	for (uint32_t i = 0; i < t->pools; i++)
		event->sample.unreclaimable_bytes[i] = t->pool[i].unreclaimable_bytes;
	for (uint32_t i = 0; i < machine.views; i++)
		event->sample.view_foreign_bytes[i] = machine.view[i].foreign_bytes;
	return shell_caps(&machine) == shell->caps_told;
}

static void move(struct amount *amount, uint32_t pool)
{
	int64_t bytes = amount->bytes[0][USE_GPU];

	amount->bytes[0][USE_GPU] = 0;
	amount->bytes[pool][USE_GPU] = bytes;
}

void shell_place(const struct shell *shell, struct model_spec *spec)
{
	uint32_t pool = topology_default_pool(&shell->topology);

	move(&spec->base, pool);
	move(&spec->per_request, pool);
	move(&spec->peak, pool);
	move(&spec->sigma, pool);
	move(&spec->lower, pool);
}

int64_t shell_host_room(const struct shell *shell)
{
	if (!shell_has_devices(shell) || topology_default_pool(&shell->topology) == 0)
		return 0;
	int64_t room = shell->sample.total_bytes - shell->reserve_bytes - shell->baseline_bytes;
	return room > 1 ? room : 1;
}

void shell_device_facts(struct shell *shell, struct room_facts *out)
{
	const struct topology *t = &shell->topology;
	uint32_t pool = topology_default_pool(t);

	shell->sample.unreclaimable_bytes = t->pool[0].unreclaimable_bytes;
	/* The reserve is that of system RAM, which the configuration may set. */
	out->default_reserve_bytes = t->pool[0].reserve_bytes;
	if (pool == 0)
		return;
	out->total_bytes = t->pool[pool].size_bytes;
	out->baseline_bytes = t->pool[pool].unreclaimable_bytes;
}
