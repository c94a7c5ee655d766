#include "core/held.h"

#include "core/habit.h"

void held_note(struct arbiter *a, struct instance *instance, const struct request *request, int64_t tokens)
{
	uint32_t rows = instance->slots < HELD_KEPT ? instance->slots : HELD_KEPT;
	struct held *place = &instance->held[0];

	if (!request->spec.conversation || tokens <= 0)
		return;
	for (uint32_t i = 0; i < rows; i++) {
		struct held *held = &instance->held[i];
		if (held->conversation == request->spec.conversation) {
			place = held;
			break;
		}
		if (held->at < place->at || !held->conversation)
			place = held;
	}
	*place = (struct held){ request->spec.conversation, tokens, a->now };
}

int64_t held_tokens(const struct instance *instance)
{
	int64_t tokens = 0;

	for (uint32_t i = 0; i < HELD_KEPT; i++)
		tokens += instance->held[i].tokens;
	return tokens;
}

double held_prefill_s(const struct arbiter *a, const struct instance *instance)
{
	const struct habit *habit = &model_row(a, instance->model)->habit;
	double seconds = 0;

	if (habit->prefill_s <= 0)
		return 0;
	for (uint32_t i = 0; i < HELD_KEPT; i++) {
		const struct held *held = &instance->held[i];
		double age = habit_seconds(a->now - held->at);
		if (held->conversation)
			seconds += (double)held->tokens * habit->prefill_s * habit_again(age);
	}
	return seconds;
}

void held_forget(struct instance *instance)
{
	for (uint32_t i = 0; i < HELD_KEPT; i++)
		instance->held[i] = (struct held){ 0 };
}
