#include "core/regret.h"

#include "core/habit.h"
#include "core/held.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/set.h"

enum {
	CANDIDATES_MAX = 16,
	SCAN_MAX = 64,        /* requests of one queue that are looked at */
	NODES_MAX = 2000,     /* sets looked at; beyond, the best so far stands */
	RESIDENCE_US = 30000000,
};

static const double batching = 0.15; /* each further request of a batch slows all by so much */

static double prefill_s(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	return instance ? held_prefill_s(a, instance) : 0;
}

double regret_idle(const struct arbiter *a, const struct model *model)
{
	double load = habit_load_s(model);
	double again = load + prefill_s(a, model);

	return habit_class_weight(model) * habit_wanted(a, model) * again + 1e-4 * load;
}

/* Never more than that, and quickly known: whoever costs more already need not be weighed. */
static double regret_least(const struct arbiter *a, const struct model *model)
{
	return 0.999 * habit_class_weight(model) * habit_wanted_least(a, model) * habit_load_s(model);
}

static int64_t whole(double x)
{
	return x < 1e15 ? (int64_t)x : INT64_C(1000000000000000);
}

void regret_tell(const struct arbiter *a, const struct model *model, const struct model *for_model,
                 struct decision *out)
{
	out->regret_milli = whole(regret_idle(a, model) * 1000);
	out->prefill_us = whole(prefill_s(a, model) * 1e6);
	out->load_us = whole(habit_load_s(model) * 1e6);
	out->asked = habit_asked(a, model);
	out->asked_for = for_model ? habit_asked(a, for_model) : 0;
}

double regret_drain_s(const struct arbiter *a, const struct instance *instance)
{
	const struct model *model = model_row(a, instance->model);
	double longest = 0;
	double slow = instance->running.count ? 1 + batching * (instance->running.count - 1) : 1;

	for (struct request *r = request_link(a, instance->running.first); r;
	     r = request_link(a, r->next)) {
		double expected = habit_service_s(model, r) * slow;
		double left = expected - habit_seconds(a->now - r->started_at);
		double least = 0.1 * expected;
		left = left > least ? left : least;
		longest = left > longest ? left : longest;
	}
	return longest;
}

double regret_queue_s(const struct arbiter *a, const struct model *model)
{
	double sum = 0;
	uint32_t seen = 0;

	for (struct request *r = model_head(a, model); r && seen < SCAN_MAX;
	     r = request_link(a, r->next), seen++)
		sum += habit_service_s(model, r);
	if (!seen)
		return 0;
	uint32_t at_once = seen < model->spec.slots ? seen : model->spec.slots;
	sum *= (double)model->queue.count / seen;
	return sum * (1 + batching * (at_once - 1)) / at_once;
}

/* ---- who may go ---- */

struct candidate {
	struct instance *instance;
	double regret;
	double drain_s;
	double bytes;
};

static bool may_go(const struct arbiter *a, const struct want *want, const struct instance *instance,
                   enum removal_kind kind)
{
	const struct model *model = model_row(a, instance->model);
	bool ready = instance->state == INSTANCE_READY;
	bool busy = instance_busy(instance) || model->queue.count;

	if (!ready && (instance->state != INSTANCE_LOADING || model->queue.count))
		return false;
	if (ready && busy && (kind == REMOVE_IDLE || a->now < instance->drain_not_before ||
	                      (!instance->served && model->queue.count)))
		return false;
	/* Who loads alone to be measured does so without his mates, too. */
	if (model == want->model || instance->clearing || model_is_reservation(model) || model_pinned(model) ||
	    (!want->measures && set_mates(model, want->model)))
		return false;
	if (!ready || !busy)
		return true;
	int64_t residence = (int64_t)(2e6 * habit_load_s(model));
	residence = residence > RESIDENCE_US ? residence : RESIDENCE_US;
	return kind != REMOVE_OVERDUE || a->now - instance->ready_at >= residence;
}

/* For whom the others would go, and what that takes. */
struct beneficiary {
	const struct want *want;
	double load_s;
	double queue_s; /* < 0: not reckoned yet */
};

static void weigh(const struct arbiter *a, struct beneficiary *b, const struct instance *instance,
                  struct candidate *c)
{
	const struct model *model = model_row(a, instance->model);
	double load = habit_load_s(model);

	c->bytes += (double)instance->held_bytes;
	if (!instance_busy(instance) && !model->queue.count) {
		c->regret += regret_idle(a, model);
		return;
	}
	if (b->queue_s < 0) {
		b->load_s = habit_load_s(b->want->model);
		b->queue_s = regret_queue_s(a, b->want->model);
	}
	double drain = regret_drain_s(a, instance);
	double away = drain + b->load_s + b->queue_s + load;
	c->drain_s = drain > c->drain_s ? drain : c->drain_s;
	c->regret += habit_class_weight(model) * (load + prefill_s(a, model)) +
	             (double)model->waits_weight * away + drain * (double)b->want->model->waits_weight;
}

/* NULL: it is leaving already, or a server of somebody else, which stays and takes no room. */
static struct instance *goes_along(const struct arbiter *a, const struct model *mate)
{
	struct instance *instance = model_instance(a, mate);

	return instance && instance->state < INSTANCE_STOPPING && !model_outside(mate) ? instance : NULL;
}

/* Those of its set that are there go with it; the first of them speaks for all. */
static bool weigh_all(const struct arbiter *a, struct beneficiary *b, struct instance *instance,
                      enum removal_kind kind, struct candidate *c)
{
	const struct model *model = model_row(a, instance->model);

	*c = (struct candidate){ .instance = instance };
	weigh(a, b, instance, c);
	SET_MATES(a, model, mate) {
		const struct instance *other = goes_along(a, mate);
		if (!other)
			continue;
		if (other < instance || !may_go(a, b->want, other, kind))
			return false;
		weigh(a, b, other, c);
	}
	return true;
}

static void with_mates(const struct arbiter *a, struct outlook *outlook, const struct instance *instance,
                       void (*change)(struct outlook *outlook, const struct instance *instance))
{
	change(outlook, instance);
	SET_MATES(a, model_row(a, instance->model), mate) {
		const struct instance *other = goes_along(a, mate);
		if (other)
			change(outlook, other);
	}
}

/* Cheapest a byte first, so that the search finds a good set at once. */
static uint32_t candidates(const struct arbiter *a, const struct want *want, enum removal_kind kind,
                           struct candidate *out)
{
	struct beneficiary b = { .want = want, .queue_s = -1 };
	uint32_t count = 0;

	INSTANCES_LIVE(a, i) {
		struct candidate c;
		if (!may_go(a, want, i, kind) || !weigh_all(a, &b, i, kind, &c))
			continue;
		uint32_t at = count < CANDIDATES_MAX ? count++ : CANDIDATES_MAX;
		while (at > 0 && c.regret * out[at - 1].bytes < out[at - 1].regret * c.bytes) {
			if (at < CANDIDATES_MAX)
				out[at] = out[at - 1];
			at--;
		}
		if (at < CANDIDATES_MAX)
			out[at] = c;
	}
	return count;
}

/* ---- the least set ---- */

struct search {
	const struct arbiter *a;
	const struct want *want;
	const struct candidate *candidate;
	uint32_t count;
	uint32_t nodes;
	bool found;
	double best;
	uint32_t best_set;
};

static bool frees(const struct search *s, const struct outlook *outlook)
{
	struct verdict verdict;

	return place_admits(s->a, s->want, outlook, &verdict);
}

/* With or without the candidate at `at`, and so on: without is tried only where with was not needed. */
static void search(struct search *s, struct outlook *outlook, uint32_t at, uint32_t set, double regret,
                   uint32_t size)
{
	if (at == s->count || size == REMOVAL_MAX || ++s->nodes > NODES_MAX)
		return;
	double with = regret + s->candidate[at].regret;
	if (!s->found || with < s->best) {
		with_mates(s->a, outlook, s->candidate[at].instance, outlook_remove);
		if (frees(s, outlook)) {
			s->found = true;
			s->best = with;
			s->best_set = set | UINT32_C(1) << at;
		} else {
			search(s, outlook, at + 1, set | UINT32_C(1) << at, with, size + 1);
		}
		with_mates(s->a, outlook, s->candidate[at].instance, outlook_restore);
	}
	search(s, outlook, at + 1, set, regret, size);
}

static void add_victims(const struct arbiter *a, struct removal *removal, struct instance *instance)
{
	removal->victim[removal->count++] = instance;
	SET_MATES(a, model_row(a, instance->model), mate) {
		struct instance *other = goes_along(a, mate);
		if (other && removal->count < REMOVED_MAX)
			removal->victim[removal->count++] = other;
	}
}

struct removal regret_choose(const struct arbiter *a, const struct want *want,
                             const struct outlook *coming, enum removal_kind kind)
{
	struct candidate found[CANDIDATES_MAX];
	struct outlook outlook = *coming;
	struct removal removal = { 0 };
	struct search s = { .a = a, .want = want, .candidate = found };

	if (!want->may_evict)
		return removal;
	s.count = candidates(a, want, kind, found);
	/* Most often all together are not enough, which is known at once. */
	for (uint32_t i = 0; i < s.count; i++)
		with_mates(a, &outlook, found[i].instance, outlook_remove);
	if (!s.count || !frees(&s, &outlook))
		return removal;
	outlook = *coming;
	search(&s, &outlook, 0, 0, 0, 0);
	if (!s.found)
		return removal;
	for (uint32_t i = 0; i < s.count; i++) {
		if (!(s.best_set >> i & 1))
			continue;
		add_victims(a, &removal, found[i].instance);
		if (found[i].drain_s > removal.drain_s)
			removal.drain_s = found[i].drain_s;
	}
	removal.regret = s.best;
	return removal;
}

struct instance *regret_cheapest(const struct arbiter *a, const struct model *except, bool with_queue)
{
	struct instance *cheapest = NULL;
	double least = 0;
	bool least_waits = false;

	INSTANCES_LIVE(a, i) {
		const struct model *model = model_row(a, i->model);
		bool waits = model->queue.count > 0;
		if (i->state != INSTANCE_READY || model == except || instance_busy(i) ||
		    (waits && (!with_queue || (cheapest && !least_waits))) || model_is_reservation(model))
			continue;
		double bytes = (double)i->held_bytes;
		if (cheapest && waits == least_waits && regret_least(a, model) >= least * (bytes > 1 ? bytes : 1))
			continue;
		if (model_pinned(model) || set_holds(a, model, true) || (except && set_mates(model, except)))
			continue;
		double regret = regret_idle(a, model) / (bytes > 1 ? bytes : 1);
		bool better = waits != least_waits ? !waits : regret < least;
		if (cheapest && !better)
			continue;
		cheapest = i;
		least = regret;
		least_waits = waits;
	}
	return cheapest;
}
