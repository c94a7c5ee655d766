#include "estimate/correct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
	MEMOS = 1024,
	GROUPS = 256,
	BUILDS = 8,
	SCORES = 400,      /* kept of each kind */
	SCORES_95 = 19,    /* needed for a bound: one miss in twenty */
	SCORES_99 = 99,
};

#define MIB 1048576.0

static const double group_weight = 2, build_weight = 3;   /* of what is shrunk to */
static const double group_keeps = 0.98, build_keeps = 0.995;
static const double log_most = 0.4;                       /* no factor beyond e^0.4 */
static const double inherited = 0.1;                      /* of an earlier build's weight */
static const double constant_noise = 6 * MIB, constant_drift = 0.5 * MIB, build_spread = 50 * MIB;
static const double device_spread = 250 * MIB, host_spread = 10 * MIB;
static const double level = 0.05, level_step = 0.01, level_least = 0.002, level_most = 0.5;

/* A sum of logarithms with its weight. */
struct mean {
	double count, sum;
};

struct memo {
	struct correction_keys keys;
	double compute;      /* bytes */
	double killed_below; /* it takes more than this; 0 = no load of it was killed */
	uint64_t used;       /* 0 = free */
};

struct group {
	uint64_t build, model;
	struct mean log_factor;
	uint64_t used;
};

struct scores {
	float value[SCORES];
	uint32_t count, next;
};

struct build {
	uint64_t build;
	struct mean log_factor;
	double constant, variance; /* of the constant that is added */
	double miss_level;         /* the adapted level */
	struct scores scores[2];   /* without and with a memo */
	uint32_t observations;
	uint64_t used;
};

struct corrector {
	struct memo memo[MEMOS];
	struct group group[GROUPS];
	struct build build[BUILDS];
	uint64_t tick;
};

struct corrector *corrector_new(void)
{
	return xcalloc(1, sizeof(struct corrector));
}

void corrector_free(struct corrector *corrector)
{
	free(corrector);
}

/* ---- the tables: found by key, the one longest unused makes room ---- */

static struct memo *find_memo(const struct corrector *c, const struct correction_keys *keys)
{
	for (int i = 0; i < MEMOS; i++)
		if (c->memo[i].used && c->memo[i].keys.params == keys->params &&
		    c->memo[i].keys.model == keys->model && c->memo[i].keys.build == keys->build)
			return (struct memo *)&c->memo[i];
	return NULL;
}

static struct group *find_group(const struct corrector *c, uint64_t build, uint64_t model)
{
	for (int i = 0; i < GROUPS; i++)
		if (c->group[i].used && c->group[i].build == build && c->group[i].model == model)
			return (struct group *)&c->group[i];
	return NULL;
}

static struct build *find_build(const struct corrector *c, uint64_t build)
{
	for (int i = 0; i < BUILDS; i++)
		if (c->build[i].used && c->build[i].build == build)
			return (struct build *)&c->build[i];
	return NULL;
}

/* The build before this one; NULL = it is the first. */
static const struct build *last_build(const struct corrector *c)
{
	const struct build *last = NULL;

	for (int i = 0; i < BUILDS; i++)
		if (c->build[i].used && (!last || c->build[i].used > last->used))
			last = &c->build[i];
	return last;
}

#define OLDEST(table, count, out)                                  \
	do {                                                       \
		(out) = &(table)[0];                               \
		for (int i_ = 1; i_ < (count); i_++)               \
			if ((table)[i_].used < (out)->used)        \
				(out) = &(table)[i_];              \
	} while (0)

static struct build first_sight(const struct corrector *c, uint64_t build, bool on_device)
{
	const struct build *before = last_build(c);
	double spread = on_device ? device_spread : host_spread;
	struct build made = { .build = build, .variance = spread * spread, .miss_level = level };

	if (before) {
		made.constant = before->constant;
		made.variance = before->variance + build_spread * build_spread;
		made.log_factor.count = before->log_factor.count * inherited;
		made.log_factor.sum = before->log_factor.sum * inherited;
	}
	return made;
}

static struct build *get_build(struct corrector *c, uint64_t build, bool on_device)
{
	struct build *found = find_build(c, build);

	if (!found) {
		struct build made = first_sight(c, build, on_device);
		OLDEST(c->build, BUILDS, found);
		*found = made;
	}
	found->used = c->tick;
	return found;
}

static struct group *get_group(struct corrector *c, uint64_t build, uint64_t model)
{
	struct group *found = find_group(c, build, model);
	const struct group *before = NULL;

	if (found) {
		found->used = c->tick;
		return found;
	}
	for (int i = 0; i < GROUPS; i++)
		if (c->group[i].used && c->group[i].model == model &&
		    (!before || c->group[i].used > before->used))
			before = &c->group[i];
	struct group made = { .build = build, .model = model, .used = c->tick };
	if (before) {
		made.log_factor.count = before->log_factor.count * inherited;
		made.log_factor.sum = before->log_factor.sum * inherited;
	}
	OLDEST(c->group, GROUPS, found);
	*found = made;
	return found;
}

static struct memo *get_memo(struct corrector *c, const struct correction_keys *keys)
{
	struct memo *found = find_memo(c, keys);

	if (!found) {
		OLDEST(c->memo, MEMOS, found);
		*found = (struct memo){ .keys = *keys };
	}
	found->used = c->tick;
	return found;
}

/* ---- scores ---- */

static void add_score(struct scores *scores, double score)
{
	scores->value[scores->next] = (float)score;
	scores->next = (scores->next + 1) % SCORES;
	if (scores->count < SCORES)
		scores->count++;
}

static int ascending(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* The k-th smallest with k = ceil((n + 1)(1 - miss)): one-sided split conformal. */
static double score_at(const struct scores *scores, double miss)
{
	float sorted[SCORES];
	uint32_t rank = (uint32_t)ceil((scores->count + 1) * (1 - miss));

	memcpy(sorted, scores->value, scores->count * sizeof(*sorted));
	qsort(sorted, scores->count, sizeof(*sorted), ascending);
	if (rank < 1)
		rank = 1;
	/* Beyond the largest the level is not to be had of so few: a little above it. */
	if (rank > scores->count)
		return (double)sorted[scores->count - 1] * 1.1 + 0.1;
	return (double)sorted[rank - 1];
}

/* ---- the estimate ---- */

static double clamp(double value, double most)
{
	return value > most ? most : value < -most ? -most : value;
}

static double log_factor(const struct build *build, const struct group *group)
{
	double of_build = build->log_factor.sum / (build->log_factor.count + build_weight);

	if (!group)
		return clamp(of_build, log_most);
	return clamp((group->log_factor.sum + group_weight * of_build) /
	                     (group->log_factor.count + group_weight),
	             log_most);
}

/* What an observation is compared with, and how far off counts as one. */
struct prediction {
	double compute, best, scale;
	bool memo;
};

static struct prediction predict(const struct corrector *c, const struct build *build,
                                 const struct correction_keys *keys, const struct formula_parts *formula)
{
	const struct memo *memo = find_memo(c, keys);
	double closed = (double)formula->compute_bytes;
	struct prediction out = { .memo = memo && memo->compute > 0 };

	out.compute = out.memo ? memo->compute
	                       : closed * exp(log_factor(build, find_group(c, keys->build, keys->model)));
	out.best = (double)formula->fixed_bytes + out.compute + build->constant;
	out.scale = out.memo ? 0.02 * out.compute + 8 * MIB : 0.1 * closed + 8 * MIB;
	if (memo && memo->killed_below > out.best)
		out.best = memo->killed_below;
	return out;
}

/* Before scores tell: what a new engine's graph may change of a buffer, and so many deviations. */
static double spread_bound(const struct prediction *p, const struct build *build, double deviations)
{
	double noise = sqrt(build->variance + constant_noise * constant_noise);
	return p->best + (p->memo ? 0.02 : 0.25) * p->compute + deviations * noise;
}

void correct(const struct corrector *c, const struct correction_keys *keys,
             const struct formula_parts *formula, struct correction *out)
{
	const struct build *known = find_build(c, keys->build);
	struct build build = known ? *known : first_sight(c, keys->build, formula->on_device);
	struct prediction p = predict(c, &build, keys, formula);
	const struct memo *memo = find_memo(c, keys);
	const struct scores *scores = &build.scores[p.memo];
	double upper = spread_bound(&p, &build, 1.645), upper99 = spread_bound(&p, &build, 2.326);

	if (scores->count >= SCORES_95)
		upper = p.best + score_at(scores, build.miss_level) * p.scale;
	if (scores->count >= SCORES_99)
		upper99 = p.best + score_at(scores, 0.01) * p.scale;
	if (memo && memo->killed_below * 1.05 > upper)
		upper = memo->killed_below * 1.05;
	if (upper < p.best)
		upper = p.best;
	if (upper99 < upper)
		upper99 = upper;
	*out = (struct correction){
		.best_bytes = (int64_t)p.best,
		.upper_bytes = (int64_t)upper,
		.upper99_bytes = (int64_t)upper99,
		.is_conformal = scores->count >= SCORES_95,
		.observations = build.observations,
		.factor = formula->compute_bytes > 0 ? p.compute / (double)formula->compute_bytes : 1,
		.constant_bytes = (int64_t)build.constant,
		.source = p.memo                ? CORRECTION_MEMO
		          : build.observations ? CORRECTION_LEARNED
		                               : CORRECTION_NONE,
	};
}

/* ---- learning ---- */

static void learn_factor(struct corrector *c, struct build *build, const struct observation *o,
                         double compute)
{
	struct group *group = get_group(c, o->keys.build, o->keys.model);
	double log_seen = clamp(log(compute / (double)o->formula.compute_bytes), 2 * log_most);

	group->log_factor.count = group->log_factor.count * group_keeps + 1;
	group->log_factor.sum = group->log_factor.sum * group_keeps + log_seen;
	build->log_factor.count = build->log_factor.count * build_keeps + 1;
	build->log_factor.sum = build->log_factor.sum * build_keeps + log_seen;
}

/* A Kalman step; `spread`: how sure the residual is the constant's, besides the usual noise. */
static void learn_constant(struct build *build, double residual, double spread)
{
	build->variance += constant_drift * constant_drift;
	double noise = constant_noise * constant_noise + spread * spread;
	double gain = build->variance / (build->variance + noise);
	build->constant += gain * (residual - build->constant);
	build->variance *= 1 - gain;
}

/* Where only the whole is known, each part takes of the surprise as much as it was uncertain. */
static double share_surprise(const struct build *build, const struct prediction *p, double surprise)
{
	double of_compute = 0.06 * p->compute, of_constant = sqrt(build->variance);
	return p->compute + surprise * of_compute / (of_compute + of_constant + 1);
}

static void learn(struct corrector *c, struct build *build, const struct observation *o,
                  const struct prediction *p, double total)
{
	double rest = total - (double)o->formula.fixed_bytes;
	double compute = o->compute_bytes > 0 ? (double)o->compute_bytes
	                 : p->memo            ? p->compute
	                                      : share_surprise(build, p, total - p->best);
	bool told = o->compute_bytes > 0 || p->memo;
	struct memo *memo = get_memo(c, &o->keys);

	if (compute > 0 && o->formula.compute_bytes > 0 && !p->memo)
		learn_factor(c, build, o, compute);
	learn_constant(build, rest - compute, told ? 0 : 0.06 * p->compute);
	/* The same launch again takes what it took: here everything but the constant. */
	memo->compute = o->compute_bytes > 0 ? compute : rest - build->constant;
	if (memo->compute < 1)
		memo->compute = 1;
	memo->killed_below = 0;
}

void corrector_observe(struct corrector *c, const struct observation *o, struct correction *said)
{
	struct correction before;

	correct(c, &o->keys, &o->formula, &before);
	if (said)
		*said = before;
	c->tick++;
	if (o->total_bytes <= 0) {
		struct memo *memo = get_memo(c, &o->keys);
		if ((double)o->killed_bytes > memo->killed_below)
			memo->killed_below = (double)o->killed_bytes;
		return;
	}
	struct build *build = get_build(c, o->keys.build, o->formula.on_device);
	struct prediction p = predict(c, build, &o->keys, &o->formula);
	double total = (double)o->total_bytes;
	/* Buffers that were not touched yet are reserved all the same, as large as the engine says. */
	double reserved = o->compute_bytes > 0 ? p.best - p.compute + (double)o->compute_bytes : p.best;
	if (!o->touched && total < reserved)
		total = reserved;
	bool missed = total > (double)before.upper_bytes;
	build->miss_level += level_step * (level - (missed ? 1 : 0));
	build->miss_level = build->miss_level < level_least ? level_least
	                    : build->miss_level > level_most ? level_most
	                                                     : build->miss_level;
	add_score(&build->scores[p.memo], (total - p.best) / p.scale);
	build->observations++;
	learn(c, build, o, &p, total);
}
