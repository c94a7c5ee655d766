#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(struct rig *rig, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct rig *rig, const char *format, ...)
{
	va_list args;
	size_t left = sizeof(rig->words) - rig->words_length;

	if (rig->words_length)
		rig->words_length += (uint32_t)snprintf(rig->words + rig->words_length, left, ", ");
	va_start(args, format);
	rig->words_length += (uint32_t)vsnprintf(rig->words + rig->words_length,
	                                         sizeof(rig->words) - rig->words_length, format, args);
	va_end(args);
	assert_true(rig->words_length < sizeof(rig->words) - 200);
}

static uint32_t request_number(const struct rig *rig, struct id id)
{
	for (uint32_t i = rig->requests; i-- > 0;)
		if (id_equal(rig->request[i], id))
			return i + 1;
	fail_msg("an action about a request that never was");
	return 0;
}

static void say_decision(struct rig *rig, const struct decision *d)
{
	rig->last = *d;
	if (!rig->decisions || d->kind == DECISION_DISPATCH || d->kind == DECISION_QUEUE ||
	    d->kind == DECISION_REFUSE)
		return;
	char for_model[8] = "";
	if (d->for_model != MODEL_NONE)
		snprintf(for_model, sizeof(for_model), " for %c", 'a' + (int)d->for_model);
	if (d->model == MODEL_NONE)
		say(rig, "[%s %s]", decision_kind_name(d->kind), reason_name(d->reason));
	else
		say(rig, "[%s %c %s%s]", decision_kind_name(d->kind), 'a' + (int)d->model,
		    reason_name(d->reason), for_model);
}

static void say_action(struct rig *rig, const struct action *action)
{
	int model = 'a' + (int)action->model;

	switch (action->type) {
	case ACTION_SPAWN:
		say(rig, "spawn %c", model);
		break;
	case ACTION_STOP:
		say(rig, "stop %c", model);
		break;
	case ACTION_KILL:
		say(rig, "kill %c", model);
		break;
	case ACTION_DISCARD:
		say(rig, "discard %c", model);
		break;
	case ACTION_WARM:
		say(rig, "warm %c", model);
		break;
	case ACTION_COOL:
		say(rig, "cool %c", model);
		break;
	case ACTION_ABORT_LOAD:
		say(rig, "abort %c", model);
		break;
	case ACTION_DISPATCH:
		say(rig, "dispatch %u %c", request_number(rig, action->request), model);
		break;
	case ACTION_CANCEL:
		say(rig, "cancel %u %s", request_number(rig, action->request),
		    fail_name(action->fail));
		break;
	case ACTION_REJECT:
		rig->reject = *action;
		say(rig, "reject %u %s", request_number(rig, action->request),
		    fail_name(action->fail));
		break;
	case ACTION_DONE:
		say(rig, "done %u", request_number(rig, action->request));
		break;
	case ACTION_TIMER:
		rig->timer_at = action->at_us;
		break;
	case ACTION_RECORD:
		say_decision(rig, &action->decision);
		break;
	case ACTION_DRAINED:
		say(rig, "drained");
		break;
	default:
		fail_msg("an action of type %u", action->type);
	}
}

static void take_in(struct rig *rig, const struct actions *out)
{
	for (uint32_t i = 0; i < out->count; i++) {
		const unsigned char *byte = (const unsigned char *)&out->items[i];
		for (size_t j = 0; j < sizeof(out->items[i]); j++)
			rig->hash = (rig->hash ^ byte[j]) * UINT64_C(1099511628211);
		say_action(rig, &out->items[i]);
	}
	rig->actions += out->count;
}

static void run(struct rig *rig, const struct event *event)
{
	struct action items[1024];
	enum step step;

	do {
		struct actions out = { .items = items, .capacity = rig->capacity };
		step = arbiter_step(rig->arbiter, event, &out);
		arbiter_check(rig->arbiter);
		take_in(rig, &out);
		event = NULL;
	} while (step == STEP_MORE);
}

void rig_step(struct rig *rig, struct event *event)
{
	event->at_us = rig->now;
	run(rig, event);
	if (event->type == EVENT_MEASURED)
		return; /* a note: the next step acts upon it */

	uint32_t actions = rig->actions;
	struct event nothing = { .type = EVENT_TICK, .at_us = rig->now };
	run(rig, &nothing);
	assert_int_equal(rig->actions, actions);
}

void rig_open(struct rig *rig, int64_t gib)
{
	*rig = (struct rig){
		.limits = { .models = 8, .requests = 2048 },
		.capacity = 1024,
		.now = 1000 * SEC,
		.timer_at = INT64_MAX,
		.machine = {
			.pools = 1,
			.pool = { { .size_bytes = gib * GIB } },
			.limit_bytes = INT64_MAX,
			.policy = POLICY_LRU,
		},
	};
	rig->arbiter = arbiter_init(calloc(1, arbiter_bytes(&rig->limits)), &rig->limits);
	rig_machine(rig);
}

void rig_open_learning(struct rig *rig, int64_t gib)
{
	rig_open(rig, gib);
	rig->machine.policy = POLICY_COTENANT;
	rig->machine.margin_permille = -1;
	rig_machine(rig);
}

void rig_close(struct rig *rig)
{
	free(rig->arbiter);
}

void rig_machine(struct rig *rig)
{
	struct event event = { .type = EVENT_MACHINE, .machine = rig->machine };
	rig_step(rig, &event);
}

struct model_spec *rig_spec(struct rig *rig, uint32_t model, int64_t gib)
{
	struct model_spec *spec = &rig->spec[model];

	*spec = (struct model_spec){
		.name = { (char)('a' + model) },
		.file_key = model + 1,
		.present = 1,
		.flags = MODEL_AUTOLOAD,
		.priority = PRIORITY_NORMAL,
		.weight_milli = 1000,
		.slots = 1,
		.queue = 1000,
		.unload_after_us = -1,
		.drain_timeout_us = 20 * SEC,
		.load_timeout_us = -1,
	};
	spec->base.bytes[0][USE_HOST] = gib * GIB;
	spec->peak = spec->base;
	spec->lower = spec->base;
	return spec;
}

void rig_model(struct rig *rig, uint32_t model)
{
	struct event event = { .type = EVENT_MODEL };
	event.model.model = model;
	event.model.spec = rig->spec[model];
	rig_step(rig, &event);
}

void rig_add(struct rig *rig, uint32_t model, int64_t gib)
{
	rig_spec(rig, model, gib);
	rig_model(rig, model);
}

void rig_wait(struct rig *rig, double seconds)
{
	int64_t until = rig->now + (int64_t)(seconds * (double)SEC);

	while (rig->timer_at <= until) {
		struct event tick = { .type = EVENT_TICK };
		rig->now = rig->timer_at;
		rig->timer_at = INT64_MAX;
		rig_step(rig, &tick);
	}
	rig->now = until;
	struct event tick = { .type = EVENT_TICK };
	rig_step(rig, &tick);
}

uint32_t rig_ask_as(struct rig *rig, uint32_t model, struct request_spec spec)
{
	struct event event = { .type = EVENT_REQUEST_ARRIVED };
	struct id id = { rig->requests % rig->limits.requests, rig->requests + 1 };

	spec.model = model;
	spec.sequence = rig->requests + 1;
	if (!spec.deadline_at_us)
		spec.deadline_at_us = INT64_MAX;
	event.arrived.request = id;
	event.arrived.spec = spec;
	rig->request[rig->requests++] = id;
	rig_step(rig, &event);
	return rig->requests;
}

uint32_t rig_ask(struct rig *rig, uint32_t model)
{
	return rig_ask_as(rig, model, (struct request_spec){ .priority = PRIORITY_NORMAL });
}

static void end_request(struct rig *rig, enum event_type type, uint32_t request, enum fail fail)
{
	struct event event = { .type = type };
	event.request.request = rig->request[request - 1];
	event.request.fail = fail;
	rig_step(rig, &event);
}

void rig_finish(struct rig *rig, uint32_t request)
{
	end_request(rig, EVENT_REQUEST_FINISHED, request, FAIL_NONE);
}

void rig_cancel(struct rig *rig, uint32_t request)
{
	end_request(rig, EVENT_REQUEST_FINISHED, request, FAIL_CANCELLED);
}

void rig_answer(struct rig *rig, uint32_t request, int64_t tokens_in, double read_per_s, int64_t tokens_out,
                double write_per_s)
{
	struct event event = { .type = EVENT_REQUEST_FINISHED, .at_us = rig->now };

	event.request.request = rig->request[request - 1];
	event.request.tokens_in = event.request.prefill_tokens = tokens_in;
	event.request.tokens_out = tokens_out;
	event.request.prefill_us = (int64_t)((double)tokens_in / read_per_s * 1e6);
	event.request.decode_us = (int64_t)((double)tokens_out / write_per_s * 1e6);
	rig_step(rig, &event);
}

void rig_leave(struct rig *rig, uint32_t request)
{
	end_request(rig, EVENT_REQUEST_GONE, request, FAIL_CLIENT_GONE);
}

struct model_view rig_view(const struct rig *rig, uint32_t model)
{
	struct model_view view;
	assert_true(arbiter_model(rig->arbiter, model, &view));
	return view;
}

static struct event about(const struct rig *rig, enum event_type type, uint32_t model)
{
	struct event event = { .type = type };
	event.instance.instance = rig_view(rig, model).instance;
	return event;
}

void rig_spawned(struct rig *rig, uint32_t model)
{
	struct event event = about(rig, EVENT_INSTANCE_SPAWNED, model);
	event.instance.pid = 1000 + (int)model;
	rig_step(rig, &event);
}

void rig_ready(struct rig *rig, uint32_t model)
{
	struct event event = about(rig, EVENT_INSTANCE_READY, model);
	rig_step(rig, &event);
}

void rig_progress(struct rig *rig, uint32_t model, uint32_t permille)
{
	struct event event = about(rig, EVENT_INSTANCE_PROGRESS, model);
	event.instance.permille = permille;
	rig_step(rig, &event);
}

void rig_exit(struct rig *rig, uint32_t model, bool never_ready)
{
	struct event event = about(rig, EVENT_INSTANCE_EXITED, model);
	event.instance.fail = FAIL_ENGINE_DIED;
	event.instance.never_ready = never_ready;
	rig_step(rig, &event);
}

void rig_measure(struct rig *rig, uint32_t model, double gib, bool complete, bool gone)
{
	struct event event = { .type = EVENT_MEASURED };
	event.measured.instance = rig_view(rig, model).instance;
	event.measured.own.bytes[0][USE_HOST] = (int64_t)(gib * (double)GIB);
	event.measured.complete = complete;
	event.measured.gone = gone;
	rig_step(rig, &event);
}

void rig_sample(struct rig *rig, double unreclaimable_gib)
{
	struct event event = { .type = EVENT_SAMPLE };
	event.sample.unreclaimable_bytes[0] = (int64_t)(unreclaimable_gib * (double)GIB);
	rig_step(rig, &event);
}

void rig_gone(struct rig *rig, uint32_t model)
{
	struct pool_view pool;

	rig_exit(rig, model, false);
	arbiter_pool(rig->arbiter, 0, &pool);
	double left = (double)(pool.unreclaimable_bytes - rig_view(rig, model).measured_bytes) / (double)GIB;
	rig_measure(rig, model, 0, true, true);
	rig_sample(rig, left > 0 ? left : 0);
}

void rig_load(struct rig *rig, uint32_t model)
{
	rig_spawned(rig, model);
	rig_ready(rig, model);
}

uint32_t rig_once(struct rig *rig, uint32_t model)
{
	uint32_t request = rig_ask(rig, model);

	rig_load(rig, model);
	rig_finish(rig, request);
	return request;
}

void rig_pin(struct rig *rig, uint32_t model, bool pin)
{
	struct event event = { .type = EVENT_PIN };
	event.command.model = model;
	event.command.flag = pin;
	rig_step(rig, &event);
}

void rig_short(struct rig *rig, enum pressure level, int64_t short_gib)
{
	struct event event = { .type = EVENT_PRESSURE };
	event.pressure.level = level;
	event.pressure.short_bytes = short_gib * GIB;
	rig_step(rig, &event);
}

void rig_blind(struct rig *rig)
{
	struct event event = { .type = EVENT_BLIND };
	rig_step(rig, &event);
}

void rig_pressure(struct rig *rig, enum pressure level)
{
	rig_short(rig, level, 0);
}

void rig_shutdown(struct rig *rig)
{
	struct event event = { .type = EVENT_SHUTDOWN };
	rig_step(rig, &event);
}

void rig_expect_at(struct rig *rig, const char *words, const char *file, int line)
{
	if (strcmp(rig->words_length ? rig->words : "", words) != 0)
		print_error("%s:%d: expected \"%s\"\n", file, line, words);
	_assert_string_equal(rig->words_length ? rig->words : "", words, file, line);
	rig->words_length = 0;
	rig->words[0] = '\0';
}
