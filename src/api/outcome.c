#include "api/outcome.h"

#include "core/arbiter.h"
#include "core/fail.h"

uint32_t outcome_of(const struct exchange_end *end)
{
	if (end->fail || end->status < 400)
		return end->fail;
	if (!end->dispatched_at_us)
		return OUTCOME_REFUSED;
	return end->status < 500 ? OUTCOME_ENGINE_REFUSED : OUTCOME_ENGINE_ERROR;
}

const char *outcome_name(uint32_t outcome)
{
	static const char *const answered[] = { "refused", "engine_refused", "engine_error" };

	if (outcome == OUTCOME_OK)
		return "ok";
	return outcome < FAIL_COUNT ? fail_name(outcome) : answered[(outcome - FAIL_COUNT) % 3];
}

int outcome_status(const struct exchange_end *end)
{
	return end->status || !end->fail ? end->status : fail_facts(end->fail)->status;
}
