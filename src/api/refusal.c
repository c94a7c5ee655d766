#include "api/refusal.h"

#include <stdio.h>

#include "gateway/failure.h"

static const char *help_for(enum fail fail)
{
	switch ((int)fail) {
	case FAIL_NEVER_FITS:
	case FAIL_NO_ROOM:
		return "cotenant memory";
	case FAIL_LOAD_FAILED:
	case FAIL_BACKING_OFF:
	case FAIL_ENGINE_DIED:
		return "cotenant logs MODEL";
	default:
		return "cotenant why MODEL";
	}
}

void call_refuse(struct call *call, enum fail fail, const char *model, const struct action *action,
                 const char *explain)
{
	struct failure failure;
	char retry_after[16];

	failure_of(&failure, fail, model, action, explain);
	if (failure.retry_after_s > 0) {
		snprintf(retry_after, sizeof(retry_after), "%d", failure.retry_after_s);
		call_answer_header(call, "Retry-After", retry_after);
	}
	call_error(call, failure.status, failure.code, failure.text, help_for(fail));
}
