#include "sim/stage.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/dice.h"
#include "sim/faults.h"
#include "sim/stage_parts.h"

enum { RESTARTS_MAX = 3 };

/* ---- lines ---- */

static void line_insert(struct stage_line *line, uint32_t at, uint32_t item)
{
	if (line->count == line->room) {
		line->room = line->room ? 2 * line->room : 16;
		line->item = xrealloc(line->item, line->room * sizeof(*line->item));
	}
	memmove(line->item + at + 1, line->item + at, (line->count - at) * sizeof(*line->item));
	line->item[at] = item;
	line->count++;
}

static void line_remove(struct stage_line *line, uint32_t item)
{
	uint32_t at = 0;

	while (at < line->count && line->item[at] != item)
		at++;
	assert(at < line->count);
	line->count--;
	memmove(line->item + at, line->item + at + 1, (line->count - at) * sizeof(*line->item));
}

/* ---- speed ---- */

static double share(double x)
{
	return 1 / (1 + 0.54 * x + (x > 1 ? 0.15 * x * (x - 1) : 0));
}

static bool stalled(const struct stage *stage)
{
	return stage->now < stage->stalled_until;
}

static double run_rate(const struct stage *stage, const struct stage_model *model)
{
	double others = 0, rate;
	bool loading = false;

	if (stalled(stage))
		return 0;
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *other = &stage->model[m];
		loading |= other->state == STAGE_LOADING;
		if (other->running.count && other != model)
			others += other->is->bandwidth;
	}
	rate = share(others) / (1 + model->is->batch_beta * (model->running.count - 1));
	return loading ? 0.93 * rate : rate;
}

static double load_rate(const struct stage *stage, const struct stage_model *model)
{
	uint32_t loading = stage_loading(stage);

	if (stalled(stage) || model->progress >= model->stops_at)
		return 0;
	if (model->is->external || loading < 1)
		loading = 1;
	return 1 / (model->load_s * loading);
}

/* ---- orders ---- */

void stage_load(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];

	assert(model->state == STAGE_COLD);
	model->load_s = stage_load_time(stage, m);
	model->state = STAGE_LOADING;
	model->progress = 0;
	stage->loads += !model->is->external;
	model->loads++;
	faults_load(stage, m);
}

static void leave(struct stage *stage, struct stage_model *model)
{
	double takes = model->is->external ? 0.05 : 0.3 + model->is->file_gb / 40;

	model->state = STAGE_UNLOADING;
	model->unloaded_at = stage->now + takes;
}

void stage_unload(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];

	assert(model->state == STAGE_READY && !model->running.count);
	leave(stage, model);
}

void stage_abort(struct stage *stage, uint32_t m)
{
	assert(stage->model[m].state == STAGE_LOADING);
	leave(stage, &stage->model[m]);
}

void stage_start(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];
	struct stage_model *model = &stage->model[request->model];

	assert(model->state == STAGE_READY && model->running.count < model->is->slots);
	line_remove(&model->queue, r);
	line_insert(&model->running, model->running.count, r);
	request->state = STAGE_RUNS;
	request->started_s = stage->now;
	request->left_s = request->work_s;
	request->start_order = stage->starts++;
	model->last_use = stage->now;
	faults_started(stage, r);
}

/* ---- what happens ---- */

void stage_hear(struct stage *stage, enum stage_news news, uint32_t index)
{
	stage->player.hear(stage->player.ctx, stage, news, index);
}

static void arrive(struct stage *stage, uint32_t session, uint32_t step)
{
	const struct scene_session *from = &stage->scene->session[session];
	const struct scene_step *is = &stage->scene->step[from->first + step];

	if (stage->requests == stage->requests_room) {
		stage->requests_room = stage->requests_room ? 2 * stage->requests_room : 1024;
		stage->request = xrealloc(stage->request,
		                          stage->requests_room * sizeof(*stage->request));
	}
	uint32_t r = stage->requests++;
	stage->request[r] = (struct stage_request){
		.model = is->model,
		.class = is->class,
		.weight = is->weight,
		.work_s = is->work_s,
		.hint_s = is->hint_s,
		.arrived_s = stage->now,
		.session = session,
		.step = step,
	};
	struct stage_model *model = &stage->model[is->model];
	line_insert(&model->queue, model->queue.count, r);
	stage->open++;
	faults_arrived(stage, r);
	stage_hear(stage, NEWS_ARRIVED, r);
}

static void go_on(struct stage *stage, const struct stage_request *request)
{
	const struct scene_session *session = &stage->scene->session[request->session];
	uint32_t step = request->step + 1;

	stage->open--;
	if (step >= session->count)
		return;
	if (stage->follows == stage->follows_room) {
		stage->follows_room = stage->follows_room ? 2 * stage->follows_room : 64;
		stage->follow = xrealloc(stage->follow,
		                         stage->follows_room * sizeof(*stage->follow));
	}
	stage->follow[stage->follows++] = (struct stage_follow){
		.at_s = stage->now + stage->scene->step[session->first + step].think_s,
		.session = request->session,
		.step = step,
	};
}

static void end_request(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];
	struct stage_model *model = &stage->model[request->model];

	line_remove(&model->running, r);
	request->state = STAGE_ENDED;
	request->ended_s = stage->now;
	model->last_use = stage->now;
	go_on(stage, request);
	stage_hear(stage, NEWS_ENDED, r);
	if (model->is->external)
		leave(stage, model);
}

/* Nobody asked for what was granted any more. */
static bool ownerless(const struct stage_model *model)
{
	return model->is->external && model->state == STAGE_READY && !model->running.count &&
	       !model->queue.count;
}

void stage_leave(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];
	struct stage_model *model = &stage->model[request->model];
	bool ran = request->state == STAGE_RUNS;

	line_remove(ran ? &model->running : &model->queue, r);
	if (!ran)
		request->started_s = stage->now;
	request->state = STAGE_LEFT;
	request->ended_s = stage->now;
	go_on(stage, request);
	stage_hear(stage, NEWS_LEFT, r);
	if (ownerless(model) || (ran && model->is->external))
		leave(stage, model);
}

static void tick(struct stage *stage)
{
	stage_drift(stage);
	if (stage->scene->faults_until_s > 0)
		faults_tick(stage);
	stage_trim(stage);
	stage_hear(stage, NEWS_TICK, 0);
	stage->next_tick += stage->scene->tick_s;
}

static void transit(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];

	if (model->state == STAGE_LOADING && model->stops_at < 1) {
		model->progress = model->stops_at;
		if (!model->hangs)
			stage_kill(stage, m);
		return;
	}
	if (model->state == STAGE_LOADING) {
		model->progress = 1;
		model->state = STAGE_READY;
		model->last_use = stage->now;
		stage_hear(stage, NEWS_READY, m);
		if (ownerless(model))
			leave(stage, model);
		return;
	}
	faults_unloaded(stage, m);
	model->state = STAGE_COLD;
	model->cached = model->is->external ? 0 : 1;
	model->cached_at = stage->now;
	stage_trim(stage);
	stage_hear(stage, NEWS_COLD, m);
}

/* ---- out of memory ---- */

static int victim(const struct stage *stage)
{
	int largest = -1;
	double most = -1;

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		bool there = model->state == STAGE_READY || model->state == STAGE_LOADING;
		if (there && !model->is->external && stage_memory_of(stage, m) > most) {
			most = stage_memory_of(stage, m);
			largest = (int)m;
		}
	}
	return largest;
}

static int external_victim(struct stage *stage)
{
	int last = -1;

	stage->spikes = 0;
	if (stage->walk_gb > stage->scene->start_gb)
		stage->walk_gb = stage->scene->start_gb;
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		bool there = model->state == STAGE_READY || model->state == STAGE_LOADING;
		if (there && model->is->external)
			last = (int)m;
	}
	return last;
}

void stage_refuse(struct stage *stage, uint32_t r)
{
	struct stage_request *request = &stage->request[r];

	assert(request->state == STAGE_WAITS);
	line_remove(&stage->model[request->model].queue, r);
	request->state = STAGE_FAILED;
	request->started_s = stage->now;
	request->ended_s = stage->now + request->work_s;
	stage->failed++;
	go_on(stage, request);
}

static void give_up(struct stage *stage, struct stage_model *model)
{
	for (uint32_t i = 0; i < model->queue.count;) {
		uint32_t r = model->queue.item[i];
		if (stage->request[r].restarts < RESTARTS_MAX) {
			i++;
			continue;
		}
		stage_refuse(stage, r);
		stage_hear(stage, NEWS_FAILED, r);
	}
}

void stage_kill(struct stage *stage, uint32_t m)
{
	struct stage_model *model = &stage->model[m];
	bool loading = model->state == STAGE_LOADING;

	for (uint32_t i = 0; i < model->queue.count && loading; i++)
		stage->request[model->queue.item[i]].restarts++;
	for (uint32_t i = 0; i < model->running.count; i++) {
		struct stage_request *request = &stage->request[model->running.item[i]];
		request->restarts++;
		request->state = STAGE_WAITS;
		line_insert(&model->queue, i, model->running.item[i]);
	}
	model->running.count = 0;
	model->state = STAGE_COLD;
	model->grown_gb = 0;
	model->cached = 0;
	stage_hear(stage, NEWS_KILLED, m);
	give_up(stage, model);
}

/* True where the machine ran out of memory. */
static bool overflow(struct stage *stage)
{
	if (stage_used(stage) <= stage->scene->physical_gb)
		return false;
	stage->stalled_until = stage->now + stage->scene->stall_s;
	while (stage_used(stage) > stage->scene->physical_gb) {
		int m = victim(stage);
		stage->ooms++;
		if (m < 0)
			m = external_victim(stage);
		if (m < 0)
			break;
		stage_kill(stage, (uint32_t)m);
	}
	return true;
}

/* ---- time ---- */

struct next {
	double at_s;
	enum { NEXT_NOTHING, NEXT_TICK, NEXT_SESSION, NEXT_FOLLOW, NEXT_END, NEXT_TRANSIT } what;
	uint32_t index;
};

static void sooner(struct next *next, double at_s, int what, uint32_t index)
{
	if (next->what != NEXT_NOTHING && at_s >= next->at_s)
		return;
	next->at_s = at_s;
	next->what = what;
	next->index = index;
}

/* Of the ends at one time, the request that started first. */
static void next_end(const struct stage *stage, struct next *next)
{
	uint64_t order = UINT64_MAX;

	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		double rate = model->running.count ? run_rate(stage, model) : 0;
		for (uint32_t i = 0; i < model->running.count && rate > 0; i++) {
			const struct stage_request *request = &stage->request[model->running.item[i]];
			double left = request->left_s > 0 ? request->left_s : 0;
			double at = stage->now + left / rate;
			bool tie = next->what == NEXT_END && at <= next->at_s &&
			           at >= next->at_s && request->start_order < order;
			if (tie)
				next->index = model->running.item[i];
			else
				sooner(next, at, NEXT_END, model->running.item[i]);
			if (next->what == NEXT_END && next->index == model->running.item[i])
				order = request->start_order;
		}
	}
}

static struct next find_next(const struct stage *stage)
{
	struct next next = { 0 };

	sooner(&next, stage->next_tick, NEXT_TICK, 0);
	if (stage->next_session < stage->scene->sessions)
		sooner(&next, stage->scene->session[stage->next_session].start_s, NEXT_SESSION, 0);
	for (uint32_t i = 0; i < stage->follows; i++)
		sooner(&next, stage->follow[i].at_s, NEXT_FOLLOW, i);
	next_end(stage, &next);
	for (uint32_t m = 0; m < stage->models; m++) {
		const struct stage_model *model = &stage->model[m];
		if (model->state == STAGE_UNLOADING)
			sooner(&next, model->unloaded_at, NEXT_TRANSIT, m);
		if (model->state != STAGE_LOADING || load_rate(stage, model) <= 0)
			continue;
		double end = model->stops_at < 1 ? model->stops_at : 1;
		double left = model->progress < end ? end - model->progress : 0;
		sooner(&next, stage->now + left / load_rate(stage, model), NEXT_TRANSIT, m);
	}
	return next;
}

static void advance(struct stage *stage, double to)
{
	double by = to - stage->now;
	double loads[SCENE_MODELS_MAX];

	if (by <= 0)
		return;
	stage->memory_s += by * stage_used(stage);
	for (uint32_t m = 0; m < stage->models; m++) {
		struct stage_model *model = &stage->model[m];
		double done = model->running.count ? by * run_rate(stage, model) : 0;
		loads[m] = model->state == STAGE_LOADING ? by * load_rate(stage, model) : 0;
		for (uint32_t i = 0; i < model->running.count; i++)
			stage->request[model->running.item[i]].left_s -= done;
	}
	for (uint32_t m = 0; m < stage->models; m++)
		stage->model[m].progress += loads[m];
	stage->now = to;
}

static void happen(struct stage *stage, const struct next *next)
{
	struct stage_follow follow;

	switch (next->what) {
	case NEXT_TICK:
		tick(stage);
		break;
	case NEXT_SESSION:
		arrive(stage, stage->next_session++, 0);
		break;
	case NEXT_FOLLOW:
		follow = stage->follow[next->index];
		stage->follows--;
		memmove(stage->follow + next->index, stage->follow + next->index + 1,
		        (stage->follows - next->index) * sizeof(follow));
		arrive(stage, follow.session, follow.step);
		break;
	case NEXT_END:
		end_request(stage, next->index);
		break;
	case NEXT_TRANSIT:
		transit(stage, next->index);
		break;
	case NEXT_NOTHING:
		break;
	}
}

void stage_run(struct stage *stage)
{
	double limit = stage->scene->horizon_s + stage->scene->drain_s;

	while (stage->next_session < stage->scene->sessions || stage->follows || stage->open) {
		struct next next = find_next(stage);
		if (next.at_s > limit) {
			advance(stage, limit);
			break;
		}
		advance(stage, next.at_s);
		happen(stage, &next);
		stage->player.decide(stage->player.ctx, stage);
		if (overflow(stage))
			stage->player.decide(stage->player.ctx, stage);
	}
}

void stage_init(struct stage *stage, const struct scene *scene, const struct stage_player *player)
{
	*stage = (struct stage){
		.scene = scene,
		.player = *player,
		.rng = dice_seeded(scene->rng_seed),
		.next_tick = scene->tick_s,
		.walk_gb = scene->start_gb,
		.models = scene->models,
		.faults = { .lie_about = UINT32_MAX, .lie_total = 1 },
	};
	for (uint32_t m = 0; m < scene->models; m++) {
		stage->model[m].is = &scene->model[m];
		stage->model[m].last_use = -INFINITY;
		stage->model[m].pinned = scene->model[m].pinned;
		stage->model[m].stops_at = INFINITY;
	}
}

/* A line of the other stage, its requests taken over. */
static void copy_line(struct stage *to, const struct stage *from, const struct stage_line *line,
                      struct stage_line *out)
{
	*out = (struct stage_line){ 0 };
	for (uint32_t i = 0; i < line->count; i++) {
		to->request[to->requests] = from->request[line->item[i]];
		line_insert(out, i, to->requests++);
	}
}

void stage_copy(struct stage *to, const struct stage *from, const struct scene *scene,
                const struct stage_player *player)
{
	*to = *from;
	to->scene = scene;
	to->player = *player;
	to->next_tick = from->now + scene->tick_s;
	to->requests = 0;
	to->requests_room = from->open + 64;
	to->request = xmalloc(to->requests_room * sizeof(*to->request));
	to->follows_room = from->follows + 64;
	to->follow = xmalloc(to->follows_room * sizeof(*to->follow));
	if (from->follows)
		memcpy(to->follow, from->follow, from->follows * sizeof(*to->follow));
	for (uint32_t m = 0; m < to->models; m++) {
		to->model[m].is = &scene->model[m];
		copy_line(to, from, &from->model[m].queue, &to->model[m].queue);
		copy_line(to, from, &from->model[m].running, &to->model[m].running);
	}
}

void stage_free(struct stage *stage)
{
	for (uint32_t m = 0; m < stage->models; m++) {
		free(stage->model[m].queue.item);
		free(stage->model[m].running.item);
	}
	free(stage->request);
	free(stage->follow);
}
