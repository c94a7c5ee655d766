#include "core/decide.h"

#include "core/outbox.h"

struct decision decision_about(const struct arbiter *a, enum decision_kind kind, enum reason reason,
                               const struct model *model)
{
	const struct instance *instance = model ? model_instance(a, model) : NULL;
	struct decision decision = {
		.at_us = a->last_at,
		.kind = kind,
		.reason = reason,
		.model = model ? model_index(a, model) : MODEL_NONE,
		.for_model = MODEL_NONE,
		.held_bytes = amount_in_pool(&a->held, 0),
		.foreign_bytes = ledger_foreign(a, 0),
		.capacity_bytes = a->capacity[0],
		.queued = model ? model->queue.count : 0,
	};

	if (instance) {
		decision.instance = instance->sequence;
		decision.measured_bytes = amount_total(&instance->own);
		decision.claim_bytes = instance->held_bytes;
		decision.running = instance->running.count;
	}
	return decision;
}

void decision_weighed(const struct arbiter *a, struct decision *decision,
                      const struct verdict *verdict)
{
	decision->need_bytes = verdict->need_bytes;
	decision->room_bytes = verdict->room_bytes;
	decision->pool = verdict->pool;
	if (verdict->binds != REASON_CAPACITY)
		return;
	decision->held_bytes = amount_in_pool(&a->held, verdict->pool);
	decision->foreign_bytes = ledger_foreign(a, verdict->pool);
	decision->capacity_bytes = a->capacity[verdict->pool];
}

void decision_record(struct arbiter *a, struct decision *decision)
{
	decision->sequence = ++a->decision_sequence;
	a->counters.decisions++;

	struct action action = {
		.type = ACTION_RECORD,
		.model = decision->model,
		.instance = ID_NONE,
		.request = ID_NONE,
		.decision = *decision,
	};
	outbox_put(a, &action);
	if (decision->kind == DECISION_DISPATCH || decision->kind == DECISION_QUEUE ||
	    decision->model >= a->models_used)
		return;
	struct model *model = model_row(a, decision->model);
	*decision_row(a, decision->model, model->decisions++) = *decision;
}
