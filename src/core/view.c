/* Reading the arbiter: nothing here changes it, but arbiter_export() takes rows off its list. */
#include "core/decide.h"
#include "core/habit.h"
#include "core/held.h"
#include "core/instance.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/pace.h"
#include "core/prospect.h"
#include "core/request.h"

uint32_t arbiter_models(const struct arbiter *a)
{
	return a->models_used;
}

static void view_instance(const struct arbiter *a, const struct instance *instance,
                          struct model_view *out)
{
	out->instance = instance_id(a, instance);
	out->instance_sequence = instance->sequence;
	out->pid = instance->pid;
	out->running = instance->running.count + instance->ending;
	out->slots = instance->slots;
	out->context_tokens = instance->context_tokens;
	out->permille = instance->permille;
	out->claim = instance->claim;
	out->measured = instance->own;
	out->claim_bytes = amount_total(&instance->claim);
	out->measured_bytes = amount_total(&instance->own);
	out->settled = instance->settled != 0;
	out->kept_bytes = instance->kept.total_bytes;
	out->kept_tokens = instance->kept.tokens;
	out->kept_growths = instance->kept.growths;
	out->kv_bytes = instance->kv_bytes;
	out->peak_bytes = amount_total(&instance->peak);
	out->cached_tokens = held_tokens(instance);
	if (instance->state == INSTANCE_LOADING)
		out->loading_since_us = instance->opened_at + a->asleep_us;
}

/* NULL: absent. */
static const struct model *model_known(const struct arbiter *a, uint32_t index)
{
	if (index >= a->models_used)
		return NULL;
	const struct model *model = model_row(a, index);
	return model->present || model_instance(a, model) ? model : NULL;
}

const char *arbiter_name(const struct arbiter *a, uint32_t index)
{
	const struct model *model = model_known(a, index);

	return model ? model->spec.name : NULL;
}

struct id arbiter_instance(const struct arbiter *a, uint32_t index)
{
	const struct model *model = model_known(a, index);
	const struct instance *instance = model ? model_instance(a, model) : NULL;

	return instance ? instance_id(a, instance) : ID_NONE;
}

bool arbiter_hold(const struct arbiter *a, uint32_t index, struct model_hold *out)
{
	const struct model *model = model_known(a, index);

	if (!model)
		return false;
	const struct instance *instance = model_instance(a, model);
	*out = (struct model_hold){ .state = model_state(a, model) };
	if (instance)
		out->claim = instance->claim;
	return true;
}

bool arbiter_model(const struct arbiter *a, uint32_t index, struct model_view *out)
{
	const struct model *model = model_known(a, index);

	if (!model)
		return false;
	const struct instance *instance = model_instance(a, model);
	struct amount base = model_base(model), peak = model_peak(model), lower = model_lower(model);
	*out = (struct model_view){
		.spec = &model->spec,
		.state = model_state(a, model),
		.reason = model_reason(a, model),
		.pinned = model_pinned(model) && !model_outside(model),
		.instance = ID_NONE,
		.queued = model->queue.count,
		.slots = model->spec.slots,
		.context_tokens = model->spec.context_tokens,
		.base_bytes = amount_total(&base),
		.lower_bytes = amount_total(&lower),
		.load_peak_bytes = amount_total(&peak),
		.observed = model->learned.loads,
		.last_used_at_us = model->last_used_at ? model->last_used_at + a->asleep_us : 0,
		.last_load_us = model->last_load_us,
		.retry_at_us = model_backing_off(a, model) ? model->retry_at + a->asleep_us : 0,
		.loads = model->loads,
		.failures = model->load_failures + model->crashes,
		.asked = habit_asked(a, model),
		.warm_bytes = model->cached_bytes,
		.speed_alone = model->habit.speed_alone,
		.growths = model->resizes,
		.growths_us = model->resize_us,
	};
	if (instance)
		view_instance(a, instance, out);
	return true;
}

bool arbiter_never(const struct arbiter *a, uint32_t index, struct decision *out)
{
	const struct model *model = model_known(a, index);
	struct verdict verdict;

	if (!model || !model->present || model->instance || !a->machine_known || model_outside(model) ||
	    !prospect_never(a, model, NULL, &verdict))
		return false;
	*out = decision_about(a, DECISION_REFUSE, verdict.binds, model);
	out->fail = FAIL_NEVER_FITS;
	out->measured_bytes = prospect_measured(model);
	decision_weighed(a, out, &verdict);
	return true;
}

uint32_t arbiter_pools(const struct arbiter *a)
{
	return a->machine.pools;
}

static void least(struct pool_view *out, int64_t room, enum reason binds)
{
	if (room >= out->free_bytes)
		return;
	out->free_bytes = room;
	out->binds = binds;
}

static int64_t held_under(const struct arbiter *a, uint32_t mask)
{
	int64_t bytes = 0;

	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			if (mask & VIEW_BIT(pool, use))
				bytes += a->held.bytes[pool][use];
	return bytes;
}

/* Free for bytes of one use of a pool. */
static struct pool_view free_for(const struct arbiter *a, const struct pool_view *pool_view,
                                 uint32_t pool, enum use use)
{
	struct pool_view out = *pool_view;

	out.free_bytes = out.capacity_bytes - out.foreign_bytes - out.held_bytes;
	out.binds = REASON_CAPACITY;
	for (uint32_t view = 0; view < a->machine.views; view++) {
		const struct view_spec *spec = &a->machine.view[view];
		if (spec->mask & VIEW_BIT(pool, use))
			least(&out, spec->cap_bytes - a->view_foreign[view] - held_under(a, spec->mask),
			      REASON_VIEW);
	}
	if (a->machine.limit_bytes != INT64_MAX)
		least(&out, a->machine.limit_bytes - amount_total(&a->held), REASON_LIMIT);
	if (out.free_bytes < 0)
		out.free_bytes = 0;
	return out;
}

void arbiter_pool(const struct arbiter *a, uint32_t pool, struct pool_view *out)
{
	*out = (struct pool_view){ 0 };
	if (pool >= a->machine.pools)
		return;
	out->size_bytes = a->machine.pool[pool].size_bytes;
	out->reserve_bytes = a->machine.pool[pool].reserve_bytes;
	out->capacity_bytes = a->capacity[pool];
	out->unreclaimable_bytes = a->unreclaimable[pool];
	out->foreign_bytes = ledger_foreign(a, pool);
	out->held_bytes = amount_in_pool(&a->held, pool);

	struct pool_view host = free_for(a, out, pool, USE_HOST);
	struct pool_view gpu = free_for(a, out, pool, USE_GPU);
	*out = gpu.free_bytes > host.free_bytes && !a->machine.host_only ? gpu : host;
	out->active_most = pace_most(a, pool);
	for (uint32_t i = 0; i < CROWDS; i++)
		out->speed_shared[i] = a->pace[pool].shared[i];
}

const struct arbiter_counters *arbiter_counters(const struct arbiter *a)
{
	return &a->counters;
}

uint32_t arbiter_requests_live(const struct arbiter *a)
{
	return a->requests_live;
}

uint32_t arbiter_queue_position(const struct arbiter *a, struct id id)
{
	const struct request *request = request_find(a, id);
	uint32_t position = 0;

	if (!request || request->state != REQUEST_WAITING)
		return 0;
	for (; request; request = request_link(a, request->prev))
		position++;
	return position;
}

uint32_t arbiter_decisions(const struct arbiter *a, uint32_t index,
                           struct decision out[DECISIONS_KEPT])
{
	if (index >= a->models_used)
		return 0;
	uint32_t ever = model_row(a, index)->decisions;
	uint32_t count = ever < DECISIONS_KEPT ? ever : DECISIONS_KEPT;
	for (uint32_t i = 0; i < count; i++)
		out[i] = *decision_row(a, index, ever - 1 - i);
	return count;
}

uint32_t arbiter_export(struct arbiter *a, struct learned_row *out, uint32_t capacity)
{
	uint32_t written = 0;

	for (uint32_t pool = 0; pool < POOLS_MAX && written < capacity; pool++)
		if (a->pace[pool].dirty)
			pace_export(&a->pace[pool], pool, &out[written++]);
	for (uint32_t i = 0; i < a->models_used && a->learned_dirty && written < capacity; i++) {
		struct model *model = model_row(a, i);
		if (!model->learned_dirty)
			continue;
		model->learned_dirty = 0;
		a->learned_dirty--;
		model->learned.caution_milli = (uint32_t)(model->habit.caution * 1e3);
		model->learned.prefill_ns = (int64_t)(model->habit.prefill_s * 1e9);
		model->learned.speed_milli = (int64_t)(model->habit.speed_alone * 1e3);
		out[written++] = model->learned;
	}
	return written;
}
