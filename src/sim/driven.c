/*
 * The arbiter on a stage: what happens there becomes its events, what it wants
 * is ordered there. It is told what a shell could tell it: samples once a second
 * and when an engine is gone, estimates, hints.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/str.h"
#include "core/arbiter.h"
#include "sim/stage_parts.h"
#include "sim/study.h"

enum { ROWS = 16384, OUT = 64 };
#define NOBODY UINT32_MAX

#define READ_AHEAD 0.8 /* of the disk's speed */

static const double load_timeout_s = 120; /* where loads hang */

struct row {
	uint32_t request; /* of the stage; NOBODY = free */
	uint32_t generation;
	uint32_t next_free;
	bool ended;       /* cancelled: to be told as finished */
};

struct news {
	enum stage_news what;
	uint32_t index;
};

struct driven {
	void *block;
	struct arbiter *arbiter;
	struct stage *stage;
	bool check;
	enum pressure pressure;
	uint32_t violations;
	struct row row[ROWS];
	uint32_t free_row;
	uint32_t *row_of; /* by request of the stage */
	uint32_t rows_of;
	struct id instance[SCENE_MODELS_MAX];
	bool pinned[SCENE_MODELS_MAX]; /* as it was told */
	struct news *news;
	uint32_t newses, news_room;
	uint32_t ended[ROWS];
	uint32_t endeds;
	double read_ahead_gb; /* until the next tick */
};

static int64_t bytes(double gb)
{
	return (int64_t)llround(gb * 1e9);
}

static int64_t micros(double s)
{
	return (int64_t)llround(s * 1e6);
}

/* ---- orders ---- */

static void stop(struct driven *d, uint32_t m, enum reason reason)
{
	struct stage_model *model = &d->stage->model[m];
	bool policy = reason == REASON_ROOM || reason == REASON_IDLE;
	bool there = model->state == STAGE_READY;

	/* What runs, and what is pinned, goes where memory runs out, never for others. */
	d->violations += there && policy && !model->is->external && (model->running.count || d->pinned[m]);
	if (there && model->running.count)
		stage_kill(d->stage, m); /* its work is lost, and waits again */
	else if (there)
		stage_unload(d->stage, m);
	else if (model->state == STAGE_LOADING)
		stage_abort(d->stage, m);
}

static void free_row(struct driven *d, uint32_t row)
{
	d->row_of[d->row[row].request] = NOBODY;
	d->row[row].request = NOBODY;
	d->row[row].next_free = d->free_row;
	d->free_row = row;
}

/* Read ahead, as far as the disk comes until the next tick. */
static void warm(struct driven *d, uint32_t m, int64_t wished)
{
	struct stage_model *model = &d->stage->model[m];
	double lacks = (double)wished / 1e9 - model->cached * model->is->file_gb;
	double reads = lacks < d->read_ahead_gb ? lacks : d->read_ahead_gb;

	if (model->state != STAGE_COLD || reads <= 0)
		return;
	model->cached += reads / model->is->file_gb;
	model->cached = model->cached < 1 ? model->cached : 1;
	model->cached_at = d->stage->now;
	d->read_ahead_gb -= reads;
}

static void cool(struct driven *d, uint32_t m, int64_t most)
{
	struct stage_model *model = &d->stage->model[m];
	double share = (double)most / 1e9 / model->is->file_gb;

	if (model->state == STAGE_COLD && model->cached > share)
		model->cached = share;
}

/* By news that the arbiter is to hear in this very step. */
static bool overtaken(const struct driven *d, const struct action *action, const struct row *row)
{
	if (action->type != ACTION_DISPATCH && action->type != ACTION_REJECT)
		return false;
	const struct stage_request *request = &d->stage->request[row->request];
	if (request->state != STAGE_WAITS)
		return true;
	return action->type == ACTION_DISPATCH && d->stage->model[request->model].state != STAGE_READY;
}

static void carry_out(struct driven *d, const struct action *action)
{
	struct row *row = action->request.index < ROWS ? &d->row[action->request.index] : NULL;

	if (overtaken(d, action, row))
		return;
	switch (action->type) {
	case ACTION_SPAWN:
		d->instance[action->model] = action->instance;
		stage_load(d->stage, action->model);
		break;
	case ACTION_STOP:
	case ACTION_KILL:
	case ACTION_ABORT_LOAD:
		stop(d, action->model, action->reason);
		break;
	case ACTION_DISPATCH:
		stage_start(d->stage, row->request);
		break;
	case ACTION_CANCEL:
		d->ended[d->endeds++] = action->request.index;
		break;
	case ACTION_WARM:
		warm(d, action->model, action->decision.need_bytes);
		break;
	case ACTION_COOL:
		cool(d, action->model, action->decision.need_bytes);
		break;
	case ACTION_REJECT:
		stage_refuse(d->stage, row->request);
		free_row(d, action->request.index);
		break;
	default:
		break; /* timers: there is a tick a second anyway */
	}
}

/* What the machine's clock shows, which may jump. */
static int64_t clock_of(struct stage *stage)
{
	double behind = stage->faults.clock_behind_s;

	stage->faults.clock_behind_s = 0;
	return micros(stage->now + stage->faults.clock_ahead_s - behind);
}

static void tell(struct driven *d, struct event *event)
{
	struct action items[OUT];
	enum step step;

	event->at_us = clock_of(d->stage);
	do {
		struct actions out = { .items = items, .capacity = OUT };
		step = arbiter_step(d->arbiter, event, &out);
		if (d->check)
			arbiter_check(d->arbiter);
		for (uint32_t i = 0; i < out.count; i++)
			carry_out(d, &items[i]);
		event = NULL;
	} while (step == STEP_MORE);
}

/* ---- news ---- */

static struct event about(enum event_type type, struct id instance)
{
	struct event event = { .type = type };

	event.instance.instance = instance;
	return event;
}

static void measure(struct driven *d, uint32_t m)
{
	struct event event = { .type = EVENT_MEASURED };
	bool gone = d->stage->model[m].state == STAGE_COLD;

	event.measured.instance = d->instance[m];
	event.measured.own.bytes[0][USE_GPU] = bytes(stage_measured_of(d->stage, m));
	event.measured.complete = 1;
	event.measured.gone = gone;
	tell(d, &event);
	if (gone)
		d->instance[m] = ID_NONE;
}

static void tell_residency(struct driven *d, uint32_t m)
{
	const struct stage_model *model = &d->stage->model[m];
	struct event event = { .type = EVENT_FILE_RESIDENCY };

	if (model->is->external || model->state != STAGE_COLD)
		return;
	event.residency.model = m;
	event.residency.cached_bytes = bytes(model->cached * model->is->file_gb);
	tell(d, &event);
}

/* As the daemon judges it: above what is admitted. */
static void tell_pressure(struct driven *d)
{
	struct event event = { .type = EVENT_PRESSURE };
	double use = stage_measured(d->stage) / d->stage->scene->physical_gb;
	enum pressure level = use > 0.995 ? PRESSURE_CRIT : use > 0.988 ? PRESSURE_WARN : PRESSURE_NONE;

	if (level == d->pressure)
		return;
	d->pressure = level;
	event.pressure.level = level;
	tell(d, &event);
}

static void sample(struct driven *d)
{
	struct event event = { .type = EVENT_SAMPLE };

	for (uint32_t m = 0; m < d->stage->models; m++) {
		bool ended = d->stage->model[m].state == STAGE_COLD; /* its end is still to be told */
		if (id_is_none(d->instance[m]) || ended)
			continue;
		if (d->stage->model[m].state == STAGE_LOADING) {
			struct event progress = about(EVENT_INSTANCE_PROGRESS, d->instance[m]);
			progress.instance.permille = (uint32_t)(1000 * d->stage->model[m].progress);
			if (progress.instance.permille > 1000)
				progress.instance.permille = 1000;
			tell(d, &progress);
		}
		measure(d, m);
	}
	for (uint32_t m = 0; m < d->stage->models; m++)
		tell_residency(d, m);
	event.sample.unreclaimable_bytes[0] = bytes(stage_measured(d->stage));
	tell(d, &event);
	if (d->stage->scene->faults_until_s > 0)
		tell_pressure(d);
}

static void arrived(struct driven *d, uint32_t r)
{
	static const uint32_t class[SCENE_CLASSES] = { PRIORITY_INTERACTIVE, PRIORITY_NORMAL,
		                                       PRIORITY_BATCH };
	const struct stage_request *request = &d->stage->request[r];
	struct event event = { .type = EVENT_REQUEST_ARRIVED };
	uint32_t row = d->free_row;

	assert(row != NOBODY);
	d->free_row = d->row[row].next_free;
	d->row[row].request = r;
	d->row[row].generation++;
	if (r >= d->rows_of) {
		d->rows_of = 2 * r + 1024;
		d->row_of = xrealloc(d->row_of, d->rows_of * sizeof(*d->row_of));
	}
	d->row_of[r] = row;
	event.arrived.request = (struct id){ row, d->row[row].generation };
	event.arrived.spec = (struct request_spec){
		.sequence = r + 1,
		.model = request->model,
		.kind = REQUEST_INFER,
		.priority = class[request->class],
		.weight_milli = (uint32_t)lround(1000 * request->weight),
		.expected_us = micros(request->hint_s),
		.deadline_at_us = INT64_MAX,
	};
	tell(d, &event);
}

/* A row's request is over: answered, or its engine died and it waits for another. */
static void finished(struct driven *d, uint32_t row, uint32_t type, uint32_t fail)
{
	struct event event = { .type = type };

	event.request.request = (struct id){ row, d->row[row].generation };
	event.request.fail = fail;
	free_row(d, row);
	tell(d, &event);
}

static void again(struct driven *d)
{
	while (d->endeds) {
		uint32_t row = d->ended[--d->endeds];
		uint32_t r = d->row[row].request;
		finished(d, row, EVENT_REQUEST_FINISHED, FAIL_ENGINE_DIED);
		if (d->stage->request[r].state == STAGE_WAITS)
			arrived(d, r);
	}
}

static void gone(struct driven *d, uint32_t m, uint32_t fail)
{
	struct event event = about(EVENT_INSTANCE_EXITED, d->instance[m]);

	event.instance.fail = fail;
	tell(d, &event);
	again(d);
	measure(d, m);
	sample(d);
}

static void take(struct driven *d, const struct news *news)
{
	struct event event;

	switch (news->what) {
	case NEWS_TICK:
		d->read_ahead_gb = READ_AHEAD * d->stage->scene->disk_gbps * d->stage->scene->tick_s;
		sample(d);
		break;
	case NEWS_ARRIVED:
		arrived(d, news->index);
		break;
	case NEWS_ENDED:
		finished(d, d->row_of[news->index], EVENT_REQUEST_FINISHED, FAIL_NONE);
		break;
	case NEWS_FAILED:
	case NEWS_LEFT:
		if (d->row_of[news->index] != NOBODY)
			finished(d, d->row_of[news->index], EVENT_REQUEST_GONE, FAIL_CLIENT_GONE);
		break;
	case NEWS_READY:
		event = about(EVENT_INSTANCE_READY, d->instance[news->index]);
		tell(d, &event);
		break;
	case NEWS_COLD:
		gone(d, news->index, FAIL_NONE);
		break;
	case NEWS_KILLED:
		gone(d, news->index, FAIL_ENGINE_DIED);
		break;
	case NEWS_PINNED:
		event = (struct event){ .type = EVENT_PIN };
		event.command.model = news->index;
		event.command.flag = d->pinned[news->index] = d->stage->model[news->index].pinned;
		tell(d, &event);
		break;
	}
}

static void hear(void *ctx, struct stage *stage, enum stage_news what, uint32_t index)
{
	struct driven *d = ctx;

	(void)stage;
	if (d->newses == d->news_room) {
		d->news_room = d->news_room ? 2 * d->news_room : 16;
		d->news = xrealloc(d->news, d->news_room * sizeof(*d->news));
	}
	d->news[d->newses++] = (struct news){ what, index };
}

static void tell_models(struct driven *d, const struct scene *scene);

static void decide(void *ctx, struct stage *stage)
{
	struct driven *d = ctx;

	if (!d->stage) {
		d->stage = stage;
		tell_models(d, stage->scene);
	}
	for (uint32_t i = 0; i < d->newses; i++) {
		struct news news = d->news[i]; /* what is ordered may bring more */
		take(d, &news);
	}
	d->newses = 0;
}

/* ---- the catalogue ---- */

static void tell_model(struct driven *d, const struct scene *scene, uint32_t m)
{
	const struct scene_model *is = &scene->model[m];
	struct event event = { .type = EVENT_MODEL };
	struct model_spec *spec = &event.model.spec;

	event.model.model = m;
	*spec = (struct model_spec){
		.file_key = m + 1,
		.present = 1,
		.flags = MODEL_AUTOLOAD | MODEL_LINEAR_LOAD,
		.priority = PRIORITY_NORMAL,
		.weight_milli = 1000,
		.slots = is->slots,
		.queue = UINT32_MAX,
		.bandwidth_permille = (uint32_t)lround(1000 * is->bandwidth),
		.unload_after_us = -1,
		.drain_timeout_us = -1,
		.load_timeout_us = scene->faults_until_s > 0 ? micros(load_timeout_s) : -1,
		.file_bytes = is->external ? 0 : bytes(is->file_gb),
		.load_expected_us = micros(is->startup_s + is->file_gb / scene->disk_gbps),
	};
	str_copy(spec->name, sizeof(spec->name), str_from(is->name));
	d->pinned[m] = is->pinned;
	spec->flags |= is->pinned ? MODEL_PINNED : 0;
	spec->flags |= is->fluct_sd_gb > 0 ? MODEL_EXPERTS : 0;
	spec->flags |= is->external ? MODEL_RESERVATION | MODEL_DECLARED : 0;
	spec->base.bytes[0][USE_GPU] = spec->peak.bytes[0][USE_GPU] = bytes(is->base_gb);
	spec->per_request.bytes[0][USE_GPU] = bytes(is->kv_gb);
	spec->lower.bytes[0][USE_GPU] = bytes(0.7 * is->base_gb);
	tell(d, &event);
}

static void tell_models(struct driven *d, const struct scene *scene)
{
	struct event event = { .type = EVENT_MACHINE };

	event.machine.pools = 1;
	event.machine.pool[0].size_bytes = bytes(scene->physical_gb);
	event.machine.limit_bytes = scene->limit_gb > 0 ? bytes(scene->limit_gb) : INT64_MAX;
	event.machine.margin_permille = -1;
	event.machine.policy = POLICY_COTENANT;
	tell(d, &event);
	for (uint32_t m = 0; m < scene->models; m++)
		tell_model(d, scene, m);
}

struct driven *driven_new(const struct scene *scene, uint32_t policy, bool check)
{
	const struct arbiter_limits limits = { .models = SCENE_MODELS_MAX, .requests = ROWS };
	struct driven *d = xcalloc(1, sizeof(*d));

	(void)scene;
	(void)policy;
	d->check = check;
	d->block = xcalloc(1, arbiter_bytes(&limits));
	d->arbiter = arbiter_init(d->block, &limits);
	for (uint32_t m = 0; m < SCENE_MODELS_MAX; m++)
		d->instance[m] = ID_NONE;
	for (uint32_t row = ROWS; row-- > 0;) {
		d->row[row].request = NOBODY;
		d->row[row].next_free = row + 1 < ROWS ? row + 1 : NOBODY;
	}
	return d;
}

struct stage_player driven_player(struct driven *driven)
{
	return (struct stage_player){ driven, hear, decide };
}

uint32_t driven_violations(const struct driven *driven)
{
	return driven->violations;
}

void driven_free(struct driven *d)
{
	free(d->block);
	free(d->row_of);
	free(d->news);
	free(d);
}
