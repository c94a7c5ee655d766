#include "app/journal.h"

#include "base/units.h"

static bool is_refusal(const struct decision *decision)
{
	return decision->kind == DECISION_REFUSE || decision->kind == DECISION_CANCEL;
}

enum log_level journal_level(const struct decision *decision)
{
	bool every_request = decision->kind == DECISION_DISPATCH || decision->kind == DECISION_QUEUE ||
	                     (decision->kind == DECISION_CANCEL && decision->fail == FAIL_CLIENT_GONE);
	/* Idle conversations are told when they are gone (shell_saved.c), that memory is short with why (shell_pressure.c). */
	bool elsewhere = (decision->kind == DECISION_SHRINK && !decision->context_was) ||
	                 (decision->kind == DECISION_PRESSURE && decision->need_bytes != PRESSURE_NONE);

	if (decision->kind == DECISION_EMERGENCY)
		return LOG_LEVEL_WARN;
	return every_request || elsewhere || decision->kind == DECISION_WARM ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

bool journal_takes(struct journal *journal, const struct decision *decision, int64_t now_us, uint32_t *out_left_out)
{
	*out_left_out = 0;
	if (!is_refusal(decision) || journal_level(decision) == LOG_LEVEL_DEBUG)
		return true;
	if (now_us - journal->since_us >= 10 * US_PER_S) {
		journal->since_us = now_us;
		journal->refusals = 0;
	}
	if (journal->refusals == JOURNAL_REFUSALS_MAX) {
		journal->left_out++;
		return false;
	}
	journal->refusals++;
	*out_left_out = journal->left_out;
	journal->left_out = 0;
	return true;
}
