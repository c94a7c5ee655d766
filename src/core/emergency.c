#include "core/emergency.h"

#include "core/footprint.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/place.h"
#include "core/regret.h"
#include "core/start.h"

/* Whom somebody is beside that would go for it was let in because there was room; others were because they may. */
static bool is_sole(const struct arbiter *a, const struct instance *instance)
{
	const struct want want = { .model = model_row(a, instance->model) };

	INSTANCES_LIVE(a, i)
		if (i != instance && i->state < INSTANCE_STOPPING && !place_stays(a, &want, i))
			return false;
	return true;
}

static bool is_alone(const struct arbiter *a, const struct instance *instance)
{
	INSTANCES_LIVE(a, i)
		if (i != instance && i->state < INSTANCE_STOPPING)
			return false;
	return true;
}

static struct instance *youngest_load(const struct arbiter *a)
{
	struct instance *youngest = NULL;

	INSTANCES_APART(a, i) {
		const struct model *model = model_row(a, i->model);
		if (i->state == INSTANCE_LOADING && !model_is_reservation(model) && !model_pinned(model))
			youngest = i;
	}
	return youngest;
}

/* By what was measured of it, memory will be full when it is there. */
static bool will_fill(const struct arbiter *a, const struct instance *load)
{
	const struct model *model = model_row(a, load->model);
	struct amount base = footprint_base(a, model);

	if (!model->habit.samples)
		return false; /* an estimate may be too high */
	for (uint32_t pool = 0; pool < a->machine.pools; pool++) {
		int64_t more = amount_in_pool(&base, pool) - amount_in_pool(&load->own, pool);
		if (more > 0 && a->unreclaimable[pool] + more > a->capacity[pool] - ledger_kept(a, pool, 5))
			return true;
	}
	return false;
}

/*
 * The load to give up. One beside nobody who may go was let in though by its estimate it does not fit: it is
 * watched, and given up for those that stay once memory is full, or will be by what was measured.
 */
static struct instance *load_to_abort(const struct arbiter *a, bool will_be)
{
	struct instance *load = youngest_load(a);

	if (!load || is_alone(a, load))
		return NULL;
	bool goes = is_sole(a, load) ? start_full(a, false, 5) || will_fill(a, load) : will_be;
	return goes ? load : NULL;
}

bool emergency_relieve(struct arbiter *a)
{
	struct verdict verdict = { .binds = REASON_CAPACITY };
	bool full = start_full(a, false, 25) && !start_leaving(a);
	bool will_be = start_full(a, true, 15);

	if (!full && !will_be)
		return false;
	struct instance *victim = regret_cheapest(a, NULL, true);
	/* Who is waited for and makes room for nobody would be loaded again at once. */
	if (victim && model_row(a, victim->model)->queue.count && is_sole(a, victim))
		victim = NULL;
	victim = victim ? victim : load_to_abort(a, will_be);
	if (!victim)
		return false;
	const struct want nobody = { 0 };
	/* What takes more than there is beside those that stay would do so again: it is not tried for ever. */
	if (victim->measuring || (victim->state == INSTANCE_LOADING && is_sole(a, victim)))
		model_load_failed(a, model_row(a, victim->model), false, FAIL_NO_ROOM);
	place_evict(a, &nobody, victim, REASON_PRESSURE, &verdict);
	return true;
}
