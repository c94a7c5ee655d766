#include "sim/clairvoyant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/stage_parts.h"

enum { CHOICES_MAX = 5, PAUSE_S = 5 };

#define NOBODY UINT32_MAX

static const double roll_s = 360, roll_tick_s = 10;
static const double age_s = 400, short_s = 3; /* of the order in which requests start */
static const double full = 0.98;              /* of the memory, by what is true */
static const double too_full = 0.985;
static const double second_load_s = 6;
static const double read_ahead = 0.8;         /* of the disk's speed */
static const double class_weight[SCENE_CLASSES] = { 4, 2, 1 };
static const double overdue_s[SCENE_CLASSES] = { 200, 420, 1800 };

/* What it is about to do; the whole state of the rule that a roll-out follows. */
struct intent {
	uint32_t target; /* whom room is made for; NOBODY */
	bool leaves[SCENE_MODELS_MAX];
};

struct clairvoyant {
	struct intent intent;
	bool rolls; /* it looks ahead; not within a look ahead */
	bool news;
	double looked_at;
	double next_s[SCENE_MODELS_MAX];     /* when somebody asks for it next */
	double file_value[SCENE_MODELS_MAX];
};

/* ---- what it knows ---- */

static void look_at_arrivals(struct clairvoyant *c, const struct stage *stage)
{
	const struct scene *scene = stage->scene;
	double until = stage->now + 2 * roll_s;

	for (uint32_t m = 0; m < stage->models; m++)
		c->next_s[m] = until;
	for (uint32_t i = 0; i < stage->follows; i++) {
		const struct stage_follow *follow = &stage->follow[i];
		uint32_t m = scene->step[scene->session[follow->session].first + follow->step].model;
		c->next_s[m] = fmin(c->next_s[m], follow->at_s);
	}
	for (uint32_t i = stage->next_session; i < scene->sessions && scene->session[i].start_s < until; i++) {
		uint32_t m = scene->step[scene->session[i].first].model;
		c->next_s[m] = fmin(c->next_s[m], scene->session[i].start_s);
	}
}

/* With so many running; what swings may swing up. */
static double needs(const struct stage_model *model, uint32_t running)
{
	const struct scene_model *is = model->is;

	return (is->base_gb + running * is->kv_gb) * is->ratio + 2.5 * is->fluct_sd_gb + model->grown_gb;
}

static uint32_t soon(const struct stage_model *model)
{
	uint32_t all = model->queue.count + model->running.count;

	return all < 1 ? 1 : all < model->is->slots ? all : model->is->slots;
}

/* All that is or will be in use, but for who is leaving or is to leave. */
static double committed(const struct stage *stage, const struct intent *intent)
{
	double gb = stage_background(stage);

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (model->state == STAGE_COLD || (intent && (model->state == STAGE_UNLOADING || intent->leaves[m])))
			continue;
		gb += needs(model, model->state == STAGE_LOADING ? soon(model) : model->running.count);
	}
	return gb;
}

static bool fits(const struct stage *stage, uint32_t m, const struct intent *intent)
{
	bool alone = true;

	for (uint32_t i = 0; i < stage->models; i++)
		alone &= stage->model[i].state == STAGE_COLD || (intent && intent->leaves[i]);
	return alone || committed(stage, intent) + needs(&stage->model[m], soon(&stage->model[m])) <=
	                        full * stage->scene->physical_gb;
}

/* ---- the rule ---- */

static bool crowded(const struct stage *stage, const struct stage_model *model, uint32_t class)
{
	double active = 0, own = model->is->bandwidth;

	if (model->running.count || own <= 0.35 || model->is->external)
		return false;
	for (uint32_t m = 0; m < stage->models; m++)
		if (stage->model[m].running.count && !stage->model[m].is->external)
			active += stage->model[m].is->bandwidth;
	return active > 0 && active + own > (class == 0 ? 4 : 2);
}

static bool anything_moves(const struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (model->running.count || model->state == STAGE_LOADING || model->state == STAGE_UNLOADING)
			return true;
	}
	return false;
}

/* `blocked`: one that has no room to run. */
static uint32_t best_start(const struct stage *stage, const struct intent *intent, uint32_t *blocked)
{
	uint32_t best = NOBODY;
	double most = -1, used = committed(stage, NULL);

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		double more = model->is->kv_gb * model->is->ratio;
		bool room = more <= 0 || used + more <= full * stage->scene->physical_gb || !anything_moves(stage);
		if (model->state != STAGE_READY || intent->leaves[m] || model->running.count >= model->is->slots)
			continue;
		if (!room && model->queue.count)
			*blocked = m;
		if (!room)
			continue;
		for (uint32_t i = 0; i < model->queue.count; i++) {
			const struct stage_request *r = &stage->request[model->queue.item[i]];
			double worth = class_weight[r->class] * r->weight / (r->work_s + short_s) +
			               (stage->now - r->arrived_s) / age_s;
			if (worth <= most || crowded(stage, model, r->class))
				continue;
			most = worth;
			best = model->queue.item[i];
		}
	}
	return best;
}

/* By weight over the time until they are served, plus age. */
static double worth_of_load(const struct stage *stage, uint32_t m)
{
	const struct stage_model *model = &stage->model[m];
	double weight = 0, work = 0;

	for (uint32_t i = 0; i < model->queue.count; i++) {
		const struct stage_request *r = &stage->request[model->queue.item[i]];
		weight += class_weight[r->class] * r->weight;
		work += r->work_s / model->is->slots;
	}
	double age = stage->now - stage->request[model->queue.item[0]].arrived_s;
	return weight / (stage_load_time(stage, m) + work) + age / age_s;
}

/* Cold models with a queue, the most worth first. */
static uint32_t waiting(const struct stage *stage, uint32_t list[SCENE_MODELS_MAX])
{
	double worth[SCENE_MODELS_MAX];
	uint32_t count = 0;

	for (uint32_t m = 0; m < stage->models; m++) {
		if (stage->model[m].state != STAGE_COLD || !stage->model[m].queue.count)
			continue;
		double own = worth_of_load(stage, m);
		uint32_t at = count++;
		for (; at > 0 && own > worth[at - 1]; at--) {
			list[at] = list[at - 1];
			worth[at] = worth[at - 1];
		}
		list[at] = m;
		worth[at] = own;
	}
	return count;
}

/* Whose load would cost the least waiting, by when it is asked for again, for each byte. */
static uint32_t cheapest(const struct clairvoyant *c, const struct stage *stage, const struct intent *intent,
                         bool busy)
{
	uint32_t found = NOBODY;
	double least = INFINITY;

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		bool works = model->running.count || model->queue.count;
		if (model->state != STAGE_READY || intent->leaves[m] || model->is->external || model->pinned ||
		    m == intent->target || (works && !busy))
			continue;
		double gap = works ? 1 : c->next_s[m] - stage->now + 1;
		double cost = stage_load_time(stage, m) / gap / needs(model, 0) * (works ? 100 : 1);
		if (cost < least) {
			least = cost;
			found = m;
		}
	}
	return found;
}

/* Who goes for it; false where all that may go would not do. */
static bool plan(const struct clairvoyant *c, const struct stage *stage, uint32_t target, bool busy,
                 struct intent *out)
{
	uint32_t victim;

	*out = (struct intent){ .target = target };
	while (!fits(stage, target, out)) {
		victim = cheapest(c, stage, out, busy);
		if (victim == NOBODY)
			return false;
		out->leaves[victim] = true;
	}
	return true;
}

static void follow(struct clairvoyant *c, struct stage *stage)
{
	struct intent *intent = &c->intent;

	if (intent->target == NOBODY)
		return;
	if (stage->model[intent->target].state != STAGE_COLD || !stage->model[intent->target].queue.count) {
		*intent = (struct intent){ .target = NOBODY };
		return;
	}
	bool waits = false;
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (intent->leaves[m] && model->state == STAGE_READY && !model->running.count && !model->pinned)
			stage_unload(stage, m);
		if (model->state != STAGE_READY || model->pinned)
			intent->leaves[m] = false;
		waits |= intent->leaves[m] || model->state == STAGE_UNLOADING;
	}
	if (!waits && !fits(stage, intent->target, NULL))
		*intent = (struct intent){ .target = NOBODY }; /* they went, and others took the room */
}

static void load_what_fits(struct clairvoyant *c, struct stage *stage)
{
	uint32_t list[SCENE_MODELS_MAX], count = waiting(stage, list);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t m = list[i], loading = stage_loading(stage);
		bool may = stage->model[m].is->external || loading == 0 ||
		           (loading == 1 && stage_load_time(stage, m) <= second_load_s);
		/* What is made room for comes first. */
		if (!may || (c->intent.target != NOBODY && c->intent.target != m) || !fits(stage, m, NULL))
			continue;
		stage_load(stage, m);
		if (c->intent.target == m)
			c->intent = (struct intent){ .target = NOBODY };
	}
}

static bool overdue(const struct stage *stage, uint32_t m)
{
	const struct stage_request *r = &stage->request[stage->model[m].queue.item[0]];

	return stage->now - r->arrived_s > overdue_s[r->class];
}

/* Without looking ahead: for whom it is worth most, idle ones go; for who is overdue, busy ones too. */
static void choose_plainly(struct clairvoyant *c, struct stage *stage)
{
	uint32_t list[SCENE_MODELS_MAX], count = waiting(stage, list);
	struct intent intent;

	for (uint32_t i = 0; i < count && c->intent.target == NOBODY; i++)
		if (plan(c, stage, list[i], overdue(stage, list[i]), &intent))
			c->intent = intent;
}

/* More than this share is in use: an idle one goes, else the load in flight. */
static void relieve(struct clairvoyant *c, struct stage *stage, double share)
{
	uint32_t victim = cheapest(c, stage, &c->intent, false), there = 0;

	if (stage_used(stage) <= share * stage->scene->physical_gb)
		return;
	for (uint32_t m = 0; m < stage->models; m++) {
		there += stage->model[m].state != STAGE_COLD;
		if (stage->model[m].state == STAGE_UNLOADING)
			return;
	}
	if (victim != NOBODY)
		stage_unload(stage, victim);
	for (uint32_t m = 0; m < stage->models && victim == NOBODY && share > 0 && there > 1; m++)
		if (stage->model[m].state == STAGE_LOADING && !stage->model[m].is->external) {
			stage_abort(stage, m);
			return;
		}
}

static void act(struct clairvoyant *c, struct stage *stage)
{
	uint32_t r, blocked = NOBODY;

	relieve(c, stage, too_full);
	follow(c, stage);
	load_what_fits(c, stage);
	while ((r = best_start(stage, &c->intent, &blocked)) != NOBODY)
		stage_start(stage, r);
	if (blocked != NOBODY)
		relieve(c, stage, 0);
}

/* Free memory holds the files that are loaded next. */
static void warm(struct clairvoyant *c, struct stage *stage)
{
	double budget = stage_loading(stage) ? 0 : read_ahead * stage->scene->disk_gbps * stage->scene->tick_s;
	double room = stage->scene->physical_gb - stage_used(stage);
	bool done[SCENE_MODELS_MAX] = { false };

	stage->file_value = c->file_value;
	for (uint32_t m = 0; m < stage->models; m++)
		c->file_value[m] = -(stage->model[m].queue.count ? stage->now : c->next_s[m]);
	for (uint32_t i = 0; i < stage->models; i++) {
		uint32_t next = NOBODY;
		for (uint32_t m = 0; m < stage->models; m++)
			if (!done[m] && (next == NOBODY || c->file_value[m] > c->file_value[next]))
				next = m;
		struct stage_model *model = &stage->model[next];
		done[next] = true;
		if (model->state != STAGE_COLD || model->is->external || model->is->file_gb <= 0)
			continue;
		double want = fmin(model->is->file_gb, room), has = model->cached * model->is->file_gb;
		double reads = fmax(0, fmin(budget, want - has));
		model->cached = fmin(1, fmin(want, has + reads) / model->is->file_gb);
		budget -= reads;
		room -= model->cached * model->is->file_gb;
	}
}

/* ---- looking ahead ---- */

/* Weighted seconds that requests spend until the end of the look. */
static double cost_of(const struct stage *stage)
{
	double cost = 0;

	for (uint32_t r = 0; r < stage->requests; r++) {
		const struct stage_request *request = &stage->request[r];
		bool over = request->state == STAGE_ENDED || request->state == STAGE_FAILED;
		double end = over ? request->ended_s : stage->now;
		cost += class_weight[request->class] * request->weight * (end - request->arrived_s);
	}
	return cost;
}

/* What would come of it. */
static double roll(const struct clairvoyant *c, const struct stage *stage, const struct intent *intent)
{
	struct clairvoyant *copy = xmalloc(sizeof(*copy));
	struct stage *ahead = xmalloc(sizeof(*ahead));
	struct scene *scene = xmalloc(sizeof(*scene));

	*copy = *c;
	copy->intent = *intent;
	copy->rolls = false;
	*scene = *stage->scene;
	scene->tick_s = roll_tick_s;
	scene->horizon_s = stage->now + roll_s;
	scene->drain_s = scene->walk_gb = scene->spike_rate = scene->faults_until_s = 0;
	scene->revert = 0;
	struct stage_player player = clairvoyant_player(copy);
	stage_copy(ahead, stage, scene, &player);
	act(copy, ahead);
	stage_run(ahead);
	double cost = cost_of(ahead);
	stage_free(ahead);
	free(ahead);
	free(scene);
	free(copy);
	return cost;
}

static void choose(struct clairvoyant *c, struct stage *stage)
{
	const struct intent wait = { .target = NOBODY };
	uint32_t list[SCENE_MODELS_MAX], count = waiting(stage, list);
	struct intent best = wait;
	double least = INFINITY;

	bool late = false; /* then it is one of those, and waiting is no choice */
	for (uint32_t i = 0; i < count; i++)
		late |= overdue(stage, list[i]);
	uint32_t tried = 0;
	for (uint32_t i = 0; i < count && tried < CHOICES_MAX; i++) {
		if (late && !overdue(stage, list[i]))
			continue;
		tried++;
		for (int busy = 0; busy < 2; busy++) {
			struct intent intent;
			if (!plan(c, stage, list[i], busy, &intent))
				continue;
			double cost = roll(c, stage, &intent);
			if (cost < least) {
				least = cost;
				best = intent;
			}
			if (!busy)
				break; /* idle ones do: no busy one has to go */
		}
	}
	c->looked_at = stage->now;
	if (count && (late || least < roll(c, stage, &wait)))
		c->intent = best;
}

/* ---- the player ---- */

static void hear(void *ctx, struct stage *stage, enum stage_news news, uint32_t index)
{
	struct clairvoyant *c = ctx;

	(void)index;
	c->news |= news != NEWS_TICK;
	if (news != NEWS_TICK)
		return;
	look_at_arrivals(c, stage);
	warm(c, stage);
}

static void decide(void *ctx, struct stage *stage)
{
	struct clairvoyant *c = ctx;
	bool due = c->news || stage->now - c->looked_at >= PAUSE_S;

	look_at_arrivals(c, stage);
	act(c, stage);
	c->news = false;
	if (c->intent.target != NOBODY || stage_loading(stage) || !due)
		return;
	if (c->rolls)
		choose(c, stage);
	else
		choose_plainly(c, stage);
	act(c, stage);
}

struct clairvoyant *clairvoyant_new(void)
{
	struct clairvoyant *c = xcalloc(1, sizeof(*c));

	c->intent.target = NOBODY;
	c->rolls = true;
	return c;
}

struct stage_player clairvoyant_player(struct clairvoyant *clairvoyant)
{
	return (struct stage_player){ clairvoyant, hear, decide };
}

void clairvoyant_free(struct clairvoyant *clairvoyant)
{
	free(clairvoyant);
}
