#include "core/kept.h"

static int64_t larger(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

static int64_t smaller(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

void kept_clear(struct instance *instance)
{
	instance->kept = (struct kept){ .growths = instance->kept.growths };
}

void kept_told(struct instance *instance, const struct event *event)
{
	struct kept *kept = &instance->kept;
	int64_t before = kept->total_bytes;

	kept->tokens = event->held.tokens;
	kept->total_bytes = 0;
	kept->slots = 0;
	/* Largest first. */
	for (uint32_t i = 0; i < event->held.slots; i++) {
		int64_t bytes = event->held.slot_bytes[i];
		uint32_t at = kept->slots++;
		for (; at > 0 && kept->slot_bytes[at - 1] < bytes; at--)
			kept->slot_bytes[at] = kept->slot_bytes[at - 1];
		kept->slot_bytes[at] = bytes;
		kept->total_bytes += bytes;
	}
	kept->growths += kept->total_bytes > before;
	if (!event->held.settled)
		return;
	kept->settling = 0;
	kept->settling_bytes = kept->settling_least = 0;
}

void kept_request_ended(struct instance *instance, const struct request *request)
{
	struct kept *kept = &instance->kept;
	int64_t need = amount_total(&request->spec.need);

	kept->settling_least = kept->settling ? smaller(kept->settling_least, need) : need;
	kept->settling_bytes = smaller(kept->settling_bytes + need, SPAN_MAX / 2);
	kept->settling++;
}

int64_t kept_claim(const struct model *model, const struct instance *instance,
                   const struct amount *more)
{
	const struct kept *kept = &instance->kept;
	int64_t full = amount_total(&model->spec.per_request);
	int64_t sum = amount_total(&instance->needs) + kept->settling_bytes;
	uint32_t live = instance->running.count + instance->ending + kept->settling + (more != NULL);
	int64_t least = more ? amount_total(more) : full;

	if (kept->settling)
		least = smaller(least, kept->settling_least);
	if (instance->running.count + instance->ending)
		least = smaller(least, instance->least_need);
	if (more)
		sum += amount_total(more);
	uint32_t others = instance->slots > live ? instance->slots - live : 0;
	for (uint32_t i = 0; i < kept->slots; i++)
		sum += i < others ? kept->slot_bytes[i] : larger(0, kept->slot_bytes[i] - least);
	int64_t most = full > SPAN_MAX / instance->slots ? SPAN_MAX : full * instance->slots;
	return smaller(sum, larger(most, kept->total_bytes));
}
