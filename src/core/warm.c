#include "core/warm.h"

#include "core/habit.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/outbox.h"
#include "core/policy.h"

enum {
	WISHES_MAX = 12,
	LOOKS_MAX = 96, /* cold ones that are looked at, those last used first: who was not asked for long is little wanted */
	COOLS_MAX = 4,
	RAM = 0,
};

struct wish {
	struct model *model;
	double value;
};

static double value_of(const struct arbiter *a, const struct model *model)
{
	double value = habit_class_weight(model) * habit_wanted(a, model);

	return model->queue.count ? value + 100 : value;
}

static bool more_wanted(const struct wish *x, const struct wish *y)
{
	return x->value != y->value ? x->value > y->value : x->model < y->model;
}

/* The most wanted of the cold ones, best first. */
static uint32_t wishes_of(const struct arbiter *a, struct wish *wishes)
{
	uint32_t count = 0, looks = 0;

	MODELS_LATEST(a, model) {
		if (!model->present || model->instance || model->spec.file_bytes == 0)
			continue;
		if (looks++ == LOOKS_MAX)
			break;
		struct wish wish = { model, value_of(a, model) };
		uint32_t at = count < WISHES_MAX ? count++ : WISHES_MAX;
		while (at > 0 && more_wanted(&wish, &wishes[at - 1])) {
			if (at < WISHES_MAX)
				wishes[at] = wishes[at - 1];
			at--;
		}
		if (at < WISHES_MAX)
			wishes[at] = wish;
	}
	return count;
}

static void tell(struct arbiter *a, enum action_type type, struct model *model, int64_t bytes)
{
	struct action action = {
		.type = type,
		.model = model_index(a, model),
		.instance = ID_NONE,
		.request = ID_NONE,
		.decision.need_bytes = bytes,
	};

	outbox_put(a, &action);
}

bool warm_files(struct arbiter *a)
{
	struct wish wishes[WISHES_MAX];
	bool due = a->warm_due && policy_ops((enum policy)a->machine.policy)->learns;
	int64_t room = a->pressure == PRESSURE_NONE ? a->capacity[RAM] - a->unreclaimable[RAM] : 0;
	bool reads = a->loading > 0;
	uint32_t cools = 0;

	a->warm_due = 0;
	if (!due || !a->machine_known)
		return false;
	uint32_t count = wishes_of(a, wishes);
	for (uint32_t i = 0; i < count; i++) {
		struct model *model = wishes[i].model;
		int64_t bytes = model->spec.file_bytes < room ? model->spec.file_bytes : room;
		bytes = bytes > 0 ? bytes : 0;
		if (model->cached_bytes > bytes && cools++ < COOLS_MAX)
			tell(a, ACTION_COOL, model, bytes);
		else if (model->cached_bytes < bytes && !reads)
			tell(a, ACTION_WARM, model, bytes);
		room -= bytes;
	}
	return count > 0;
}
