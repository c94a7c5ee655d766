#include "core/valid.h"

static bool bytes_ok(const struct arbiter *a, int64_t bytes)
{
	return bytes >= 0 && bytes <= a->bytes_max;
}

static bool amount_ok(const struct arbiter *a, const struct amount *amount)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (!bytes_ok(a, amount->bytes[pool][use]))
				return false;
	return true;
}

static bool span_ok(int64_t span, int64_t least)
{
	return span >= least && span <= SPAN_MAX;
}

static bool machine_ok(const struct arbiter *a, const struct event_machine *machine)
{
	if (machine->pools < 1 || machine->pools > POOLS_MAX || machine->views > VIEWS_MAX)
		return false;
	for (uint32_t pool = 0; pool < machine->pools; pool++)
		if (!bytes_ok(a, machine->pool[pool].size_bytes) ||
		    !bytes_ok(a, machine->pool[pool].reserve_bytes))
			return false;
	for (uint32_t view = 0; view < machine->views; view++)
		if (!bytes_ok(a, machine->view[view].cap_bytes) ||
		    !bytes_ok(a, machine->view[view].foreign_bytes) ||
		    machine->view[view].mask >= UINT32_C(1) << (POOLS_MAX * USE_COUNT))
			return false;
	bool limit_ok = machine->limit_bytes == INT64_MAX || bytes_ok(a, machine->limit_bytes);
	return limit_ok && machine->margin_permille >= -1 && machine->margin_permille <= 1000 &&
	       machine->policy < POLICY_COUNT && machine->loads_max >= 0;
}

static bool spec_ok(const struct arbiter *a, const struct model_spec *spec)
{
	if (!spec->present)
		return true;
	bool named = false;
	for (uint32_t i = 0; i < MODEL_NAME_BYTES; i++)
		named |= spec->name[i] == '\0';
	return named && spec->priority < PRIORITY_COUNT && spec->slots >= 1 &&
	       spec->slots <= SLOTS_MAX && span_ok(spec->unload_after_us, -1) &&
	       span_ok(spec->drain_timeout_us, -1) && span_ok(spec->load_timeout_us, -1) &&
	       span_ok(spec->start_timeout_us, 0) &&
	       span_ok(spec->load_expected_us, 0) && bytes_ok(a, spec->file_bytes) && bytes_ok(a, spec->compute_bytes) && bytes_ok(a, spec->cache_bytes) &&
	       spec->compute_context_bytes >= 0 && spec->compute_context_bytes <= spec->compute_bytes &&
	       spec->batch_tokens >= 0 && amount_ok(a, &spec->base) &&
	       amount_ok(a, &spec->per_request) && amount_ok(a, &spec->peak) &&
	       amount_ok(a, &spec->sigma) && amount_ok(a, &spec->lower);
}

static bool pace_ok(const struct learned_row *row)
{
	for (uint32_t i = 0; i < CROWDS; i++)
		if (row->share_ppb[i] < 0 || row->share_ppb[i] > 1000000000)
			return false;
	return row->build_key < POOLS_MAX;
}

static bool learned_ok(const struct arbiter *a, const struct learned_row *row)
{
	if (row->file_key == LEARNED_PACE)
		return pace_ok(row);
	return row->loads >= 1 && row->loads < UINT32_MAX && span_ok(row->load_us, 0) &&
	       span_ok(row->prefill_ns, 0) && span_ok(row->speed_milli, 0) &&
	       row->caution_milli <= CAUTION_MILLI_MAX &&
	       amount_ok(a, &row->base) && amount_ok(a, &row->peak) && amount_ok(a, &row->sigma) &&
	       amount_ok(a, &row->sure);
}

static bool sample_ok(const struct arbiter *a, const struct event *event)
{
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		if (!bytes_ok(a, event->sample.unreclaimable_bytes[pool]))
			return false;
	for (uint32_t view = 0; view < VIEWS_MAX; view++)
		if (!bytes_ok(a, event->sample.view_foreign_bytes[view]))
			return false;
	return true;
}

static bool held_ok(const struct arbiter *a, const struct event *event)
{
	if (event->held.slots > HELD_SLOTS_MAX || event->held.tokens < 0)
		return false;
	for (uint32_t i = 0; i < event->held.slots; i++)
		if (!bytes_ok(a, event->held.slot_bytes[i]))
			return false;
	return true;
}

/* The id must be free: a shell that names two requests alike would confuse their ends. */
static bool arrival_ok(const struct arbiter *a, struct id id, const struct request_spec *spec)
{
	if (id_is_none(id) || id.index >= a->limits.requests)
		return false;
	if (id.index < a->requests_used && request_row(a, id.index)->state != REQUEST_FREE)
		return false;
	return spec->kind < REQUEST_KIND_COUNT && spec->priority < PRIORITY_COUNT &&
	       spec->expected_us >= 0 && span_ok(spec->waited_us, 0) && span_ok(spec->tokens, 0) && spec->deadline_at_us >= 0 && amount_ok(a, &spec->need);
}

static bool end_ok(const struct event *event)
{
	return event->request.fail < FAIL_COUNT && span_ok(event->request.tokens_in, 0) &&
	       span_ok(event->request.tokens_out, 0) && span_ok(event->request.prefill_tokens, 0) &&
	       span_ok(event->request.prefill_us, 0) && span_ok(event->request.decode_us, 0);
}

bool event_is_possible(const struct arbiter *a, const struct event *event)
{
	if (event->at_us < 0 || event->at_us > TIME_MAX)
		return false;
	switch ((enum event_type)event->type) {
	case EVENT_MACHINE:
		return machine_ok(a, &event->machine);
	case EVENT_MODEL:
		return event->model.model < a->limits.models && spec_ok(a, &event->model.spec);
	case EVENT_LEARNED:
		return learned_ok(a, &event->learned);
	case EVENT_MEASURED:
		return amount_ok(a, &event->measured.own);
	case EVENT_SAMPLE:
		return sample_ok(a, event);
	case EVENT_PRESSURE:
		return event->pressure.level <= PRESSURE_CRIT &&
		       bytes_ok(a, event->pressure.short_bytes);
	case EVENT_REQUEST_ARRIVED:
		return arrival_ok(a, event->arrived.request, &event->arrived.spec);
	case EVENT_REQUEST_GONE:
	case EVENT_REQUEST_FINISHED:
		return end_ok(event);
	case EVENT_INSTANCE_SPAWNED:
		return true;
	case EVENT_INSTANCE_PROGRESS:
		return event->instance.permille <= 1000;
	case EVENT_INSTANCE_READY:
		return event->instance.slots <= SLOTS_MAX;
	case EVENT_INSTANCE_UNHEALTHY:
	case EVENT_INSTANCE_EXITED:
		return event->instance.fail < FAIL_COUNT && event->instance.cause < CAUSE_COUNT;
	case EVENT_FILE_RESIDENCY:
		return event->residency.model < a->models_used &&
		       bytes_ok(a, event->residency.cached_bytes);
	case EVENT_TOKENS_HELD:
		return held_ok(a, event);
	case EVENT_CONVERSATION_ERASED:
		return event->erased.failed <= 1 && bytes_ok(a, event->erased.saved_bytes);
	case EVENT_PIN:
		return event->command.model < a->models_used && event->command.flag <= 1;
	case EVENT_WALL:
	case EVENT_TICK:
	case EVENT_SUSPEND:
	case EVENT_RESUME:
	case EVENT_SHUTDOWN:
	case EVENT_BLIND:
		return true;
	case EVENT_INSTANCE_RESIZED:
	case EVENT_ENGINE_SPEED:
	case EVENT_CONVERSATION_SAVED:
	case EVENT_CONVERSATION_RESTORED:
	case EVENT_ENGINE_BUILD_CHANGED:
	case EVENT_LEASE_ASKED:
	case EVENT_LEASE_RENEWED:
	case EVENT_LEASE_RELEASED:
	case EVENT_LEASE_EXPIRED:
	case EVENT_NONE:
	case EVENT_TYPE_COUNT:
		break; /* nothing here ever asked for these */
	}
	return false;
}
