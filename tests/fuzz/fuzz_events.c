/*
 * The arbiter believes nothing: whatever events come in whatever order, its
 * invariants hold after each step.
 *
 * The input is read as a script of small events: a byte says which, the next ones
 * fill its fields with values that often make sense, so that deep states are
 * reached; one kind of event is raw bytes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/arbiter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MODELS = 4, REQUESTS = 16, INSTANCES = 8, ACTIONS = 3 };

struct script {
	const uint8_t *data;
	size_t left;
	struct id instance[INSTANCES]; /* the last name each row was given */
	uint32_t generation[REQUESTS];
	int64_t now;
};

static uint32_t next(struct script *script)
{
	if (!script->left)
		return 0;
	script->left--;
	return *script->data++;
}

/* Mostly small, at times absurd. */
static int64_t bytes_of(struct script *script)
{
	uint32_t byte = next(script);

	return byte == 255 ? INT64_MAX : byte == 254 ? -1 : (int64_t)byte << 28;
}

static void fill_machine(struct script *script, struct event_machine *machine)
{
	machine->pools = next(script) % 3;
	machine->views = next(script) % 3;
	for (uint32_t pool = 0; pool < 2; pool++) {
		machine->pool[pool].size_bytes = bytes_of(script);
		machine->pool[pool].reserve_bytes = bytes_of(script) / 16;
		machine->view[pool].cap_bytes = bytes_of(script);
		machine->view[pool].mask = next(script) % 16;
	}
	machine->limit_bytes = bytes_of(script);
	machine->margin_permille = (int32_t)next(script) - 1;
	machine->policy = next(script) % (POLICY_COUNT + 1);
	machine->loads_max = (int32_t)next(script) % 4;
}

static void fill_model(struct script *script, struct event *event)
{
	struct model_spec *spec = &event->model.spec;

	event->model.model = next(script) % (MODELS + 1);
	spec->present = next(script) % 8 != 0;
	spec->flags = next(script);
	uint32_t more = next(script);
	spec->flags |= more % 4 << 8 | (more >> 4) % 8 << 16; /* renewed, resized, grown */
	spec->priority = next(script) % PRIORITY_COUNT;
	uint32_t size = next(script);
	spec->slots = size % 4;
	spec->context_tokens = size / 4 * 1000;
	spec->queue = next(script) % 8;
	spec->unload_after_us = (int64_t)next(script) * 1000000 - 1;
	spec->drain_timeout_us = (int64_t)next(script) * 1000000 - 1;
	spec->start_timeout_us = spec->slots * 7000000;
	spec->load_timeout_us = (int64_t)next(script) * 1000000 - 1;
	spec->file_key = next(script) % 3;
	for (uint32_t pool = 0; pool < 2; pool++) {
		uint32_t use = next(script) % USE_COUNT;
		spec->base.bytes[pool][use] = bytes_of(script);
		spec->peak.bytes[pool][use] = bytes_of(script);
		spec->lower.bytes[pool][use] = bytes_of(script);
		spec->per_request.bytes[pool][use] = bytes_of(script) / 16;
	}
}

static void fill_arrival(struct script *script, struct event *event)
{
	struct request_spec *spec = &event->arrived.spec;
	uint32_t index = next(script) % REQUESTS;

	event->arrived.request = (struct id){ index, ++script->generation[index] };
	spec->model = next(script) % (MODELS + 1);
	spec->kind = next(script) % REQUEST_KIND_COUNT;
	spec->priority = next(script) % PRIORITY_COUNT;
	spec->flags = next(script) % 4;
	spec->weight_milli = next(script) * 100;
	spec->key = next(script) % 3;
	spec->conversation = next(script) % 3;
	spec->expected_us = bytes_of(script);
	spec->deadline_at_us = next(script) % 2 ? INT64_MAX : script->now + (int64_t)next(script) * 1000000;
	if (next(script) % 2)
		spec->need.bytes[0][USE_HOST] = bytes_of(script) / 8;
}

static void fill_raw(struct script *script, struct event *event)
{
	for (uint32_t i = 0; i < 64; i++)
		event->bytes[next(script) * 4 % sizeof(event->bytes)] = (uint8_t)next(script);
}

static void fill(struct script *script, struct event *event)
{
	switch (event->type) {
	case EVENT_MACHINE:
		fill_machine(script, &event->machine);
		break;
	case EVENT_MODEL:
		fill_model(script, event);
		break;
	case EVENT_MEASURED:
		event->measured.instance = script->instance[next(script) % INSTANCES];
		event->measured.own.bytes[0][USE_HOST] = bytes_of(script);
		event->measured.complete = next(script) % 2;
		event->measured.gone = next(script) % 2;
		break;
	case EVENT_SAMPLE:
		event->sample.unreclaimable_bytes[0] = bytes_of(script);
		break;
	case EVENT_PRESSURE:
		event->pressure.level = next(script) % 4;
		break;
	case EVENT_REQUEST_ARRIVED:
		fill_arrival(script, event);
		break;
	case EVENT_REQUEST_GONE:
	case EVENT_REQUEST_FINISHED:
		event->request.request.index = next(script) % REQUESTS;
		event->request.request.generation = script->generation[event->request.request.index];
		break;
	case EVENT_FILE_RESIDENCY:
		event->residency.model = next(script) % (MODELS + 1);
		event->residency.cached_bytes = bytes_of(script);
		break;
	case EVENT_LEARNED:
		event->learned.file_key = next(script) % 3;
		event->learned.loads = next(script);
		event->learned.load_us = bytes_of(script);
		event->learned.base.bytes[0][USE_HOST] = bytes_of(script);
		event->learned.peak.bytes[0][USE_HOST] = bytes_of(script);
		break;
	case EVENT_PIN:
		event->command.model = next(script) % MODELS;
		event->command.flag = next(script) % 2;
		break;
	case EVENT_INSTANCE_SPAWNED:
	case EVENT_INSTANCE_PROGRESS:
	case EVENT_INSTANCE_READY:
	case EVENT_INSTANCE_UNHEALTHY:
	case EVENT_INSTANCE_EXITED:
		event->instance.instance = script->instance[next(script) % INSTANCES];
		event->instance.permille = next(script) * 4;
		event->instance.never_ready = event->instance.permille > 900;
		event->instance.slots = next(script) % 3;
		break;
	default:
		fill_raw(script, event);
		break;
	}
}

static void step(struct arbiter *arbiter, struct script *script, const struct event *event)
{
	struct action items[ACTIONS];
	enum step more;

	do {
		struct actions out = { .items = items, .capacity = ACTIONS };
		more = arbiter_step(arbiter, event, &out);
		arbiter_check(arbiter);
		for (uint32_t i = 0; i < out.count; i++)
			if (items[i].type == ACTION_SPAWN)
				script->instance[items[i].instance.index % INSTANCES] = items[i].instance;
		event = NULL;
	} while (more == STEP_MORE);
}

static void plan(const struct arbiter *arbiter, const struct arbiter_limits *limits, uint32_t model)
{
	void *scratch = xcalloc(1, arbiter_bytes(limits));
	struct plan out;

	arbiter_plan(arbiter, model, scratch, &out);
	free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arbiter_limits limits = { .models = MODELS, .requests = REQUESTS, .instances = INSTANCES };
	struct script script = { .data = data, .left = size < 4096 ? size : 4096, .now = 1000000 };
	struct arbiter *arbiter = arbiter_init(xcalloc(1, arbiter_bytes(&limits)), &limits);

	while (script.left) {
		struct event event = { .type = next(&script) % (EVENT_TYPE_COUNT + 1) };
		script.now += (int64_t)next(&script) * 100000;
		fill(&script, &event);
		event.at_us = script.now;
		if (script.left % 32 == 7)
			event.at_us -= (int64_t)script.left * 1000000; /* a clock that went back, also below 0 */
		step(arbiter, &script, &event);
		if (script.left % 16 == 0)
			plan(arbiter, &limits, script.left / 16 % MODELS);
	}
	free(arbiter);
	return 0;
}
