/*
 * The sums are kept, not computed, because they are read at every decision. All
 * changes of what an instance holds go through reweigh().
 */
#include "core/ledger.h"

#include <assert.h>
#include <string.h>

#include "core/policy.h"

/*
 * What admission keeps free: a share of B, and so many sigma of all that is there.
 * Where footprints are learned the spread is small and holds what others may take.
 */
static const struct margin {
	int64_t permille;
	double sigmas;
} margin_estimated = { 20, 2 }, margin_learned = { 10, 0.5 };

/* What others may take between two samples does not shrink with the machine, but it has to be there. */
enum { SUDDEN_BYTES = 400000000, SUDDEN_SHARE = 50 };

static int64_t larger(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

static int64_t smaller(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

struct amount ledger_held_by(const struct instance *instance)
{
	return amount_max(&instance->claim, &instance->own);
}

static void reweigh(struct arbiter *a, struct instance *instance, const struct amount *claim,
                    const struct amount *own)
{
	struct amount before = ledger_held_by(instance);

	amount_subtract(&a->held, &before);
	amount_subtract(&a->own, &instance->own);
	instance->claim = *claim;
	instance->own = *own;
	struct amount after = ledger_held_by(instance);
	instance->held_bytes = amount_total(&after);
	amount_add(&a->held, &after);
	amount_add(&a->own, own);
}

static void recount_foreign(struct arbiter *a)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		a->foreign[pool] = larger(0, a->unreclaimable[pool] - amount_in_pool(&a->own, pool));
}

void ledger_set_machine(struct arbiter *a, const struct event_machine *machine)
{
	a->machine = *machine;
	a->machine_known = 1;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		uint32_t whole = VIEW_BIT(pool, USE_HOST) | VIEW_BIT(pool, USE_GPU);
		int64_t capacity = 0;

		if (pool < machine->pools)
			capacity = machine->pool[pool].size_bytes - machine->pool[pool].reserve_bytes;
		for (uint32_t view = 0; view < machine->views; view++)
			if ((machine->view[view].mask & whole) == whole)
				capacity = smaller(capacity, machine->view[view].cap_bytes);
		a->capacity[pool] = larger(0, capacity);
		if (pool >= machine->pools)
			a->unreclaimable[pool] = a->foreign_least[pool] = 0;
	}
	for (uint32_t view = 0; view < machine->views; view++)
		a->view_foreign[view] = machine->view[view].foreign_bytes;
	recount_foreign(a);
}

int64_t ledger_foreign(const struct arbiter *a, uint32_t pool)
{
	return a->foreign[pool];
}

void ledger_open(struct arbiter *a, struct instance *instance, const struct amount *claim)
{
	struct amount nothing = { 0 };

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		instance->foreign_at_open[pool] = ledger_foreign(a, pool);
	reweigh(a, instance, claim, &nothing);
	a->variance_stale = 1;
}

void ledger_claim(struct arbiter *a, struct instance *instance, const struct amount *claim)
{
	reweigh(a, instance, claim, &instance->own);
}

void ledger_close(struct arbiter *a, struct instance *instance)
{
	struct amount nothing = { 0 };

	reweigh(a, instance, &nothing, &nothing);
	recount_foreign(a);
	a->variance_stale = 1;
}

void ledger_spread(struct arbiter *a, struct instance *instance, const struct amount *sigma)
{
	instance->sigma = *sigma;
	a->variance_stale = 1;
}

void ledger_measured(struct arbiter *a, struct instance *instance)
{
	if (instance->complete)
		reweigh(a, instance, &instance->claim, &instance->seen);
}

void ledger_given_back(struct arbiter *a, struct instance *instance, int64_t bytes)
{
	struct amount own = instance->own;
	int64_t part = smaller(bytes, own.bytes[0][USE_HOST]);

	own.bytes[0][USE_HOST] -= part;
	reweigh(a, instance, &instance->claim, &own);
	a->unreclaimable[0] = larger(0, a->unreclaimable[0] - part);
}

/* `bytes` more in a pool: where the claim still has room, GPU bytes first, as those are what goes unread. */
static void attribute(struct amount *own, const struct amount *claim, uint32_t pool, int64_t bytes)
{
	static const enum use order[] = { USE_GPU, USE_HOST };

	for (uint32_t i = 0; i < USE_COUNT; i++) {
		int64_t *to = &own->bytes[pool][order[i]];
		int64_t part = smaller(bytes, larger(0, claim->bytes[pool][order[i]] - *to));
		*to += part;
		bytes -= part;
	}
}

/* Own of an instance whose counters are a lower bound; takes what it owns off `rest`. */
static void measure_by_growth(struct arbiter *a, struct instance *instance, int64_t rest[POOLS_MAX])
{
	struct amount own = instance->seen;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		int64_t growth = rest[pool] - instance->foreign_at_open[pool];
		attribute(&own, &instance->claim, pool,
		          larger(0, growth - amount_in_pool(&own, pool)));
		rest[pool] -= amount_in_pool(&own, pool);
	}
	reweigh(a, instance, &instance->claim, &own);
}

void ledger_sample(struct arbiter *a, const int64_t unreclaimable[POOLS_MAX],
                   const int64_t view_foreign[VIEWS_MAX])
{
	int64_t rest[POOLS_MAX];

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		a->unreclaimable[pool] = pool < a->machine.pools ? unreclaimable[pool] : 0;
		rest[pool] = a->unreclaimable[pool] - amount_in_pool(&a->own, pool);
	}
	for (uint32_t view = 0; view < a->machine.views; view++)
		a->view_foreign[view] = view_foreign[view];

	/* Those that could be read whole were weighed as they were measured. */
	INSTANCES_LIVE(a, i)
		for (uint32_t pool = 0; !i->complete && pool < POOLS_MAX; pool++)
			rest[pool] += amount_in_pool(&i->own, pool);
	INSTANCES_LIVE(a, i)
		if (!i->complete)
			measure_by_growth(a, i, rest);
	recount_foreign(a);
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		if (!a->sampled || a->foreign[pool] < a->foreign_least[pool])
			a->foreign_least[pool] = a->foreign[pool];
	a->sampled = 1;
}

int64_t ledger_in_use(const struct arbiter *a)
{
	int64_t bytes = 0;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		bytes += a->unreclaimable[pool];
	return bytes;
}

void ledger_note_had(struct instance *instance, int64_t in_use)
{
	int64_t own = amount_total(&instance->own);

	if (instance->state >= INSTANCE_STOPPING && own <= instance->had_bytes)
		return;
	instance->had_bytes = own;
	instance->machine_had_bytes = in_use;
}

static double variance(const struct instance *instance, uint32_t pool)
{
	double sigma = (double)amount_in_pool(&instance->sigma, pool);

	return sigma * sigma;
}

static void sum_variance(const struct arbiter *a, double out[POOLS_MAX])
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		out[pool] = 0;
		if (pool >= a->machine.pools)
			continue;
		INSTANCES_LIVE(a, i)
			out[pool] += variance(i, pool);
	}
}

void ledger_settle(struct arbiter *a)
{
	if (a->variance_stale)
		sum_variance(a, a->variance);
	a->variance_stale = 0;
}

void outlook_now(const struct arbiter *a, struct outlook *outlook)
{
	*outlook = (struct outlook){ .held = a->held, .holders = a->instances_live };
	if (a->variance_stale)
		sum_variance(a, outlook->variance);
	else
		memcpy(outlook->variance, a->variance, sizeof(outlook->variance));
	for (uint32_t pool = 0; pool < a->machine.pools; pool++)
		outlook->foreign[pool] = ledger_foreign(a, pool);
	for (uint32_t view = 0; view < a->machine.views; view++)
		outlook->view_foreign[view] = a->view_foreign[view];
}

void outlook_remove(struct outlook *outlook, const struct instance *instance)
{
	struct amount held = ledger_held_by(instance);

	assert(outlook->holders > 0);
	outlook->holders--;
	amount_subtract(&outlook->held, &held);
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		outlook->variance[pool] -= variance(instance, pool);
}

struct outlook outlook_coming(const struct arbiter *a)
{
	struct outlook coming;

	outlook_now(a, &coming);
	INSTANCES_APART(a, i)
		if (i->state >= INSTANCE_STOPPING)
			outlook_remove(&coming, i);
	return coming;
}

void outlook_restore(struct outlook *outlook, const struct instance *instance)
{
	struct amount held = ledger_held_by(instance);

	outlook->holders++;
	amount_add(&outlook->held, &held);
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		outlook->variance[pool] += variance(instance, pool);
}

void outlook_add(struct outlook *outlook, const struct amount *held, const struct amount *sigma)
{
	outlook->holders++;
	amount_add(&outlook->held, held);
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		double spread = (double)amount_in_pool(sigma, pool);
		outlook->variance[pool] += spread * spread;
	}
}

void outlook_at_baseline(const struct arbiter *a, struct outlook *outlook)
{
	for (uint32_t pool = 0; pool < a->machine.pools; pool++)
		outlook->foreign[pool] = a->foreign_least[pool];
	for (uint32_t view = 0; view < a->machine.views; view++)
		outlook->view_foreign[view] = 0;
}

void outlook_empty(const struct arbiter *a, struct outlook *outlook)
{
	*outlook = (struct outlook){ 0 };
	outlook_at_baseline(a, outlook);
}

int64_t ledger_kept(const struct arbiter *a, uint32_t pool, int64_t permille)
{
	int64_t sudden = smaller(SUDDEN_BYTES, a->capacity[pool] / SUDDEN_SHARE);

	return larger(a->capacity[pool] / 1000 * permille, sudden);
}

/* How much of a pool may be used at most, by everybody. */
static int64_t admissible(const struct arbiter *a, const struct outlook *outlook, uint32_t pool,
                          const struct amount *sigma)
{
	int64_t capacity = a->capacity[pool];

	if (!sigma)
		return capacity;
	if (a->machine.margin_permille >= 0)
		return capacity * (1000 - a->machine.margin_permille) / 1000;

	bool learns = policy_ops((enum policy)a->machine.policy)->learns;
	const struct margin *margin = learns ? &margin_learned : &margin_estimated;
	double own = (double)amount_in_pool(sigma, pool);
	double sum = outlook->variance[pool] + own * own;
	if (learns)
		sum += a->foreign_variance[pool];
	double spread = margin->sigmas * __builtin_sqrt(sum > 0 ? sum : 0);
	return capacity - ledger_kept(a, pool, margin->permille) - (int64_t)spread;
}

static int64_t under_mask(const struct amount *amount, uint32_t mask)
{
	int64_t bytes = 0;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (mask & VIEW_BIT(pool, use))
				bytes += amount->bytes[pool][use];
	return bytes;
}

/* Of two constraints the one with less left over binds; the first where they are equal. */
static void constrain(struct verdict *verdict, uint32_t reason, uint32_t pool, int64_t need,
                      int64_t room)
{
	if (verdict->binds != REASON_NONE &&
	    room - need >= verdict->room_bytes - verdict->need_bytes)
		return;
	verdict->binds = reason;
	verdict->pool = pool;
	verdict->need_bytes = need;
	verdict->room_bytes = room;
	verdict->fits = need <= room;
}

struct verdict outlook_weigh(const struct arbiter *a, const struct outlook *outlook,
                             const struct amount *need, const struct amount *sigma)
{
	struct verdict verdict = { .fits = true };

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++) {
		int64_t taken = outlook->foreign[pool] + amount_in_pool(&outlook->held, pool);
		int64_t of_pool = amount_in_pool(need, pool);
		if (of_pool)
			constrain(&verdict, REASON_CAPACITY, pool, of_pool,
			          admissible(a, outlook, pool, sigma) - taken);
	}
	for (uint32_t view = 0; view < a->machine.views; view++) {
		const struct view_spec *spec = &a->machine.view[view];
		int64_t taken = outlook->view_foreign[view] + under_mask(&outlook->held, spec->mask);
		int64_t under = under_mask(need, spec->mask);
		if (under)
			constrain(&verdict, REASON_VIEW, view, under, spec->cap_bytes - taken);
	}
	if (a->machine.limit_bytes != INT64_MAX && amount_total(need))
		constrain(&verdict, REASON_LIMIT, 0, amount_total(need),
		          a->machine.limit_bytes - amount_total(&outlook->held));
	return verdict;
}
