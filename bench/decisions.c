/*
 * decisions MODELS QUEUED EVENTS: a machine with so many models and so many requests that wait, for
 * bench.py to count what each event costs the arbiter.
 *
 * A tenth of the models is wanted by nine tenths of the requests. What ends is followed by a new one,
 * so that the queues stay as long as they are. One in ten fits at a time; engines load in seconds and
 * answer in seconds; a sample is taken each second. When the machine is full, so many EVENTS that decide
 * something pass through measured_event(), whose name callgrind is told, and of the measurements that
 * come between, which only note, one in sixteen; their types go to stdout, one a line.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/str.h"
#include "core/arbiter.h"
#include "sim/agenda.h"

#define SECOND INT64_C(1000000)
#define GB INT64_C(1000000000)

enum { OUT = 256, RESIDENT_SHARE = 10, SPARE_ROWS = 4096, FULL_EVICTIONS = 10, NOTES_SHARE = 16 };

enum kind { SAMPLE, READY, EXIT, ENDS, TIMER };

struct engine {
	struct id id;
	uint32_t model;
	enum { NONE, LOADS, SERVES, ENDED } state;
};

struct bench {
	struct arbiter *arbiter;
	struct agenda agenda;
	struct rng rng;
	int64_t now;
	uint32_t models, rows, rows_free, engines;
	uint32_t *row;        /* free ones */
	uint32_t *generation;
	int64_t *base;        /* of each model */
	struct engine *engine;
	uint64_t timer;
	int64_t left;         /* events that are to be measured yet */
	uint32_t notes;
};

void measured_event(struct arbiter *arbiter, const struct event *event, struct actions *out);

/* Of its own, so that its name can be told to callgrind. */
__attribute__((noinline)) void measured_event(struct arbiter *arbiter, const struct event *event,
                                              struct actions *out)
{
	enum step more = arbiter_step(arbiter, event, out);
	assert(more == STEP_DONE);
}

static void note(struct bench *b, double in_s, enum kind kind, uint32_t index, uint64_t life)
{
	agenda_note(&b->agenda, b->now + (int64_t)(in_s * (double)SECOND), kind, index, life);
}

static void give_back(struct bench *b, struct id request)
{
	b->row[b->rows_free++] = request.index;
}

static void carry_out(struct bench *b, const struct action *action)
{
	switch (action->type) {
	case ACTION_SPAWN:
		assert(action->instance.index < b->engines);
		b->engine[action->instance.index] =
			(struct engine){ action->instance, action->model, LOADS };
		note(b, 2 + 8 * rng_unit(&b->rng), READY, action->instance.index, action->instance.generation);
		break;
	case ACTION_STOP:
	case ACTION_KILL:
	case ACTION_ABORT_LOAD:
		note(b, 0.5, EXIT, action->instance.index, action->instance.generation);
		break;
	case ACTION_DISPATCH:
		note(b, 0.5 + 10 * rng_unit(&b->rng), ENDS, action->request.index, action->request.generation);
		break;
	case ACTION_CANCEL:
		note(b, 0.1, ENDS, action->request.index, action->request.generation);
		break;
	case ACTION_REJECT:
		give_back(b, action->request);
		break;
	case ACTION_TIMER:
		agenda_note(&b->agenda, action->at_us > b->now ? action->at_us : b->now, TIMER, 0, ++b->timer);
		break;
	default:
		break;
	}
}

static void tell(struct bench *b, struct event *event)
{
	struct action items[OUT];
	struct actions out = { .items = items, .capacity = OUT };

	bool full = arbiter_counters(b->arbiter)->evictions >= FULL_EVICTIONS;
	bool notes = event->type == EVENT_MEASURED;
	event->at_us = b->now;
	if (full && b->left > 0 && (!notes || b->notes++ % NOTES_SHARE == 0)) {
		measured_event(b->arbiter, event, &out);
		printf("%u\n", event->type);
		b->left -= !notes;
	} else {
		arbiter_step(b->arbiter, event, &out);
	}
	for (uint32_t i = 0; i < out.count; i++)
		carry_out(b, &items[i]);
}

static void arrive(struct bench *b)
{
	struct event event = { .type = EVENT_REQUEST_ARRIVED };
	uint32_t wanted = b->models / 10 ? b->models / 10 : 1;
	uint32_t row = b->row[--b->rows_free];

	event.arrived.request = (struct id){ row, ++b->generation[row] };
	event.arrived.spec = (struct request_spec){
		.sequence = 1,
		.model = (uint32_t)rng_below(&b->rng, rng_below(&b->rng, 10) ? wanted : b->models),
		.kind = REQUEST_INFER,
		.priority = (uint32_t)rng_below(&b->rng, PRIORITY_COUNT),
		.weight_milli = 1000,
		.key = (uint32_t)rng_below(&b->rng, 20),
		.conversation = rng_below(&b->rng, 1000),
		.expected_us = (int64_t)rng_below(&b->rng, 10) * SECOND,
		.deadline_at_us = INT64_MAX,
	};
	tell(b, &event);
}

static void sample(struct bench *b)
{
	struct event event = { .type = EVENT_SAMPLE };
	int64_t used = 8 * GB;

	for (uint32_t i = 0; i < b->engines; i++) {
		struct event measured = { .type = EVENT_MEASURED };
		struct engine *engine = &b->engine[i];
		if (engine->state == NONE)
			continue;
		bool gone = engine->state == ENDED;
		int64_t own = gone ? 0 : b->base[engine->model] / 100 * (90 + engine->model % 20);
		measured.measured.instance = engine->id;
		measured.measured.own.bytes[0][USE_GPU] = own;
		measured.measured.complete = 1;
		measured.measured.gone = gone;
		used += own;
		tell(b, &measured);
		if (gone)
			engine->state = NONE;
	}
	event.sample.unreclaimable_bytes[0] = used;
	tell(b, &event);
	note(b, 1, SAMPLE, 0, 0);
}

static void about(struct bench *b, enum event_type type, uint32_t index, uint64_t life, int state)
{
	struct event event = { .type = type };
	struct engine *engine = &b->engine[index];

	if (engine->state == NONE || engine->state == ENDED || engine->id.generation != life)
		return;
	if (type == EVENT_INSTANCE_READY && engine->state != LOADS)
		return;
	engine->state = state;
	event.instance.instance = engine->id;
	tell(b, &event);
}

static void ends(struct bench *b, uint32_t row, uint64_t generation)
{
	struct event event = { .type = EVENT_REQUEST_FINISHED };

	event.request.request = (struct id){ row, (uint32_t)generation };
	tell(b, &event);
	give_back(b, event.request.request);
	arrive(b);
}

static void tick(struct bench *b, uint64_t timer)
{
	struct event event = { .type = EVENT_TICK };

	if (timer == b->timer)
		tell(b, &event);
}

/* It is known last of all, so that filling the queues decides nothing. */
static void tell_machine(struct bench *b)
{
	struct event event = { .type = EVENT_MACHINE };
	int64_t sum = 0;

	for (uint32_t m = 0; m < b->models; m++)
		sum += b->base[m];
	event.machine.pools = 1;
	event.machine.pool[0].size_bytes = sum / RESIDENT_SHARE;
	event.machine.limit_bytes = INT64_MAX;
	event.machine.margin_permille = -1;
	event.machine.policy = POLICY_COTENANT;
	tell(b, &event);
}

static void populate(struct bench *b)
{

	for (uint32_t m = 0; m < b->models; m++) {
		double size = 1 + 39 * rng_unit(&b->rng) * rng_unit(&b->rng);
		b->base[m] = (int64_t)(size * (double)GB / 10);
	}
	for (uint32_t m = 0; m < b->models; m++) {
		struct event event = { .type = EVENT_MODEL };
		struct model_spec *spec = &event.model.spec;
		event.model.model = m;
		*spec = (struct model_spec){
			.file_key = m + 1, .present = 1, .flags = MODEL_AUTOLOAD,
			.priority = PRIORITY_NORMAL, .weight_milli = 1000, .slots = 4, .queue = UINT32_MAX,
			.unload_after_us = -1, .drain_timeout_us = -1, .load_timeout_us = -1,
			.file_bytes = b->base[m], .load_expected_us = 5 * SECOND,
		};
		snprintf(spec->name, sizeof(spec->name), "m%u", m);
		spec->base.bytes[0][USE_GPU] = spec->peak.bytes[0][USE_GPU] = b->base[m];
		spec->per_request.bytes[0][USE_GPU] = b->base[m] / 20;
		tell(b, &event);
	}
}

static void run(struct bench *b, uint32_t queued)
{
	struct happening happening;

	populate(b);
	note(b, 1, SAMPLE, 0, 0);
	for (uint32_t i = 0; i < queued; i++)
		arrive(b);
	tell_machine(b);
	while (b->left > 0 && agenda_next(&b->agenda, &happening)) {
		b->now = happening.at_us;
		switch ((enum kind)happening.kind) {
		case SAMPLE:
			sample(b);
			break;
		case READY:
			about(b, EVENT_INSTANCE_READY, happening.index, happening.life, SERVES);
			break;
		case EXIT:
			about(b, EVENT_INSTANCE_EXITED, happening.index, happening.life, ENDED);
			break;
		case TIMER:
			tick(b, happening.life);
			break;
		case ENDS:
			ends(b, happening.index, happening.life);
			break;
		}
	}
}

int main(int argc, char **argv)
{
	struct bench b = { .now = 1000 * SECOND, .rng = { 1 } };

	if (argc != 4)
		return 2;
	uint64_t models, queued, events;
	if (!str_to_u64(str_from(argv[1]), &models) || !str_to_u64(str_from(argv[2]), &queued) ||
	    !str_to_u64(str_from(argv[3]), &events) || models < 1 || models > 100000 || queued < 1 ||
	    queued > 500000 || events < 1 || events > 10000000)
		return 2;
	b.models = (uint32_t)models;
	b.left = (int64_t)events;
	b.rows = (uint32_t)queued + SPARE_ROWS;
	b.engines = b.models + 16;
	struct arbiter_limits limits = { .models = b.models, .requests = b.rows };
	b.arbiter = arbiter_init(xcalloc(1, arbiter_bytes(&limits)), &limits);
	b.row = xcalloc(b.rows, sizeof(*b.row));
	b.generation = xcalloc(b.rows, sizeof(*b.generation));
	b.base = xcalloc(b.models, sizeof(*b.base));
	b.engine = xcalloc(b.engines, sizeof(*b.engine));
	for (uint32_t i = 0; i < b.rows; i++)
		b.row[b.rows_free++] = i;
	run(&b, (uint32_t)queued);
	fprintf(stderr, "loads %llu, evictions %llu, dispatches %llu, requests %u\n",
	        (unsigned long long)arbiter_counters(b.arbiter)->loads,
	        (unsigned long long)arbiter_counters(b.arbiter)->evictions,
	        (unsigned long long)arbiter_counters(b.arbiter)->dispatches,
	        arbiter_requests_live(b.arbiter));
	agenda_free(&b.agenda);
	free(b.arbiter);
	free(b.row);
	free(b.generation);
	free(b.base);
	free(b.engine);
	return 0;
}
