#include "core/model.h"

#include <assert.h>

#include "core/due.h"
#include "core/instance.h"
#include "core/resize.h"

#define SECOND INT64_C(1000000)

enum { OUTSIDE_AGAIN_US = 5000000 };
#define SQUEEZED_FIRST_US (10 * SECOND)
#define SQUEEZED_MOST_US (3600 * SECOND)

bool model_pinned(const struct model *model)
{
	if (model_outside(model))
		return true;
	if (model->pin_command != 0)
		return model->pin_command > 0;
	return model->present && model->spec.flags & MODEL_PINNED;
}

bool model_refuses(const struct arbiter *a, const struct model *model)
{
	bool often = model->load_failures + model->crashes >= 2;

	return model_backing_off(a, model) && (often || model->never_ready);
}

bool model_resident(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	return instance && instance->state < INSTANCE_STOPPING;
}

/* How long a request waits before a busy model is kept from new work for it. */
static int64_t patience(const struct request *request)
{
	static const int64_t by_class[PRIORITY_COUNT] = {
		[PRIORITY_INTERACTIVE] = 5 * SECOND,
		[PRIORITY_NORMAL] = 10 * SECOND,
		[PRIORITY_BACKGROUND] = 30 * SECOND,
		[PRIORITY_BATCH] = 60 * SECOND,
	};
	bool quiet = request->spec.flags & REQUEST_NO_EVICT && request->spec.priority < PRIORITY_BACKGROUND;

	return by_class[quiet ? PRIORITY_BACKGROUND : request->spec.priority];
}

bool model_overdue(const struct arbiter *a, const struct model *model)
{
	const struct request *head = model_head(a, model);

	if (!head)
		return false;
	int64_t load = model->learned.loads ? model->learned.load_us : model->spec.load_expected_us;

	/* Models that take turns must serve for longer than they load, or they would do nothing else. */
	return a->now - head->arrived_at >= patience(head) + 2 * load;
}

enum model_state model_state(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	if (!instance) {
		if (model_backing_off(a, model))
			return MODEL_FAILED;
		if (model->resize_at)
			return MODEL_RESIZING;
		return model->queue.count ? MODEL_QUEUED : MODEL_UNLOADED;
	}
	if (model->resize_at)
		return MODEL_RESIZING;
	if (instance->state == INSTANCE_LOADING)
		return MODEL_LOADING;
	if (instance->state == INSTANCE_READY)
		return instance_busy(instance) ? MODEL_BUSY : MODEL_IDLE;
	return instance->state == INSTANCE_DRAINING ? MODEL_DRAINING : MODEL_UNLOADING;
}

enum reason model_reason(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	if (!instance) {
		if (model_backing_off(a, model))
			return REASON_BACK_OFF;
		return model->queue.count ? (enum reason)model->wait_reason : REASON_NONE;
	}
	if (instance->state == INSTANCE_LOADING)
		return REASON_LOADING;
	if (instance->state == INSTANCE_DRAINING)
		return (enum reason)instance->drain;
	if (instance->state != INSTANCE_READY)
		return (enum reason)instance->stop_reason;
	if (!model->queue.count)
		return REASON_NONE;
	return instance_has_slot(instance) ? (enum reason)model->wait_reason : REASON_SLOTS;
}

struct amount model_base(const struct model *model)
{
	if (!model->learned.loads)
		return model->spec.base;
	/* What a person declared stands: it may know of growth that no sample has seen yet. */
	if (model->spec.flags & MODEL_DECLARED)
		return amount_max(&model->spec.base, &model->learned.base);
	return model->learned.base;
}

/* What a load takes beyond the base is kept from the estimate: samples may miss a short peak. */
struct amount model_peak(const struct model *model)
{
	struct amount base = model_base(model);

	if (!model->learned.loads)
		return amount_max(&base, &model->spec.peak);
	struct amount beyond = model->spec.peak;
	amount_subtract(&beyond, &model->spec.base);
	amount_add(&beyond, &base);
	struct amount peak = amount_max(&beyond, &base);
	return amount_max(&peak, &model->learned.peak);
}

struct amount model_sigma(const struct model *model)
{
	if (model->spec.flags & MODEL_DECLARED)
		return (struct amount){ 0 };
	if (model->learned.loads)
		return model->learned.sigma;
	if (amount_total(&model->spec.sigma) > 0)
		return model->spec.sigma;
	struct amount sigma = model->spec.base;
	for (uint32_t pool = 0; pool < POOLS_MAX; pool++)
		for (uint32_t use = 0; use < USE_COUNT; use++)
			sigma.bytes[pool][use] = sigma.bytes[pool][use] / 20 * 3; /* 15 % */
	return sigma;
}

/* One sample may be wrong, and may hold caches that the next life does without: alone it lowers the bound only. */
struct amount model_lower(const struct model *model)
{
	if (!model->learned.loads)
		return model->spec.lower;
	struct amount lower = amount_min(&model->spec.lower, &model->learned.base);
	return amount_max(&lower, &model->learned.sure);
}

bool model_stirs(const struct model *model)
{
	return model->instance || model->queue.count || model->unloads.count || model->preload ||
	       model->mate || model->purge;
}

static void link_stirring(struct arbiter *a, struct model *model)
{
	uint32_t link = model_index(a, model) + 1;

	model->stirring = 1;
	model->prev = a->stirring_last;
	if (a->stirring_last)
		model_link(a, a->stirring_last)->next = link;
	else
		a->stirring_first = link;
	a->stirring_last = link;
}

static void unlink_stirring(struct arbiter *a, struct model *model)
{
	if (model->prev)
		model_link(a, model->prev)->next = model->next;
	else
		a->stirring_first = model->next;
	if (model->next)
		model_link(a, model->next)->prev = model->prev;
	else
		a->stirring_last = model->prev;
	model->next = model->prev = 0;
	model->stirring = 0;
}

void model_list(struct arbiter *a, struct model *model)
{
	uint32_t link = model_index(a, model) + 1;

	if (model->listed)
		return;
	model->listed = 1;
	model->later = a->latest_last;
	*(a->latest_last ? &model_link(a, a->latest_last)->earlier : &a->latest_first) = link;
	a->latest_last = link;
}

void model_touch(struct arbiter *a, struct model *model)
{
	struct model *later = model_link(a, model->later), *earlier = model_link(a, model->earlier);

	if (!later)
		return; /* it is the latest */
	later->earlier = model->earlier;
	*(earlier ? &earlier->later : &a->latest_last) = model->later;
	model->later = 0;
	model->earlier = a->latest_first;
	model_link(a, a->latest_first)->later = model_index(a, model) + 1;
	a->latest_first = model_index(a, model) + 1;
}

/* A load is given up that stands still, and one that moves but is too long. */
static int64_t load_due(const struct model *model, const struct instance *instance)
{
	const struct model_spec *spec = &model->spec;
	int64_t stalled = spec->load_timeout_us < 0 ? NEVER : instance->progress_at + spec->load_timeout_us;
	int64_t slow = spec->start_timeout_us > 0 ? instance->opened_at + spec->start_timeout_us : NEVER;

	return stalled < slow ? stalled : slow;
}

int64_t model_due(const struct arbiter *a, const struct model *model)
{
	const struct instance *instance = model_instance(a, model);

	if (!instance) {
		int64_t back = model->back_at > a->now ? model->back_at : NEVER;
		bool again = model_backing_off(a, model) && (model->queue.count || model->preload);
		return again && model->retry_at < back ? model->retry_at : back;
	}
	switch ((enum instance_state)instance->state) {
	case INSTANCE_LOADING:
		return load_due(model, instance);
	case INSTANCE_READY:
		if (model->queue.count || instance_busy(instance) || model_pinned(model) || model->spec.unload_after_us < 0)
			return NEVER;
		return model->last_used_at + model->spec.unload_after_us;
	case INSTANCE_DRAINING:
		/* Nobody's answer is cut for another's context. */
		if (instance->cut || !instance->running.count || model->spec.drain_timeout_us < 0 ||
		    instance->drain == REASON_CONTEXT)
			return NEVER;
		return instance->drain_at + model->spec.drain_timeout_us;
	case INSTANCE_STOPPING:
	case INSTANCE_GONE:
	case INSTANCE_FREE:
		break;
	}
	return NEVER;
}

/* The larger context is not there, and nobody is left who would have it loaded. */
static bool nobody_awaits_resize(const struct model *model)
{
	return model->resize_at && !model->instance && !model->queue.count && !model->preload;
}

void model_refresh(struct arbiter *a, struct model *model)
{
	if (nobody_awaits_resize(model))
		resize_give_up(a, model);
	if (model_stirs(model) && !model->stirring)
		link_stirring(a, model);
	if (!model_stirs(model) && model->stirring)
		unlink_stirring(a, model);
	model->look = 0;
	model->worth_depth = 0;
	model->next_depth = 0;
	model->due_at = model_due(a, model);
	due_set_model(a, model, model->due_at);
}

/*
 * At once after the first crash of an engine that served; then 1 s, doubling; a
 * file or flags that are wrong do not mend by themselves, so longer. A server that
 * we do not run is asked again soon.
 */
static void back_off(struct arbiter *a, struct model *model)
{
	uint32_t failures = model->load_failures + model->crashes;
	int64_t first = model->never_ready ? 30 * SECOND : SECOND;
	int64_t most = model->never_ready ? 600 * SECOND : 60 * SECOND;
	int64_t wait = first << (failures > 10 ? 10 : failures - 1);

	if (model->crashes == 1 && failures == 1)
		wait = 0;
	else if (model_outside(model))
		wait = OUTSIDE_AGAIN_US; /* to ask it costs nothing */

	model->retry_at = a->now + (wait < most ? wait : most);
}

void model_load_failed(struct arbiter *a, struct model *model, bool never_ready, enum fail fail)
{
	a->counters.load_failures++;
	model->load_failures++;
	model->never_ready = never_ready;
	resize_give_up(a, model);
	back_off(a, model);
	if (model_refuses(a, model))
		model_purge(a, model, fail);
	model_refresh(a, model);
}

void model_crashed(struct arbiter *a, struct model *model)
{
	model->crashes++;
	model->never_ready = 0;
	back_off(a, model);
	model_refresh(a, model);
}

void model_squeezed(const struct arbiter *a, struct model *model)
{
	int64_t wait = SQUEEZED_FIRST_US << (model->squeezed < 9 ? model->squeezed : 9);

	model->squeezed++;
	model->back_at = a->now + (wait < SQUEEZED_MOST_US ? wait : SQUEEZED_MOST_US);
}

void model_purge(struct arbiter *a, struct model *model, enum fail fail)
{
	if (!model->queue.count || model->purge)
		return;
	model->purge = fail;
	a->purging++;
	model_refresh(a, model);
}

void model_strand(struct arbiter *a, struct model *model)
{
	if (model->spec.flags & MODEL_AUTOLOAD || model->resize_at)
		return;
	for (struct request *r = model_head(a, model); r; r = request_link(a, r->next))
		if (r->spec.kind == REQUEST_LOAD)
			return;
	model_purge(a, model, FAIL_NOT_LOADED);
}
