#include "api/refusal.h"

#include <stdio.h>

#include "gateway/failure.h"

/* The verb that shows more of why. */
static const char *verb_for(enum fail fail)
{
	if (fail == FAIL_LOAD_FAILED || fail == FAIL_BACKING_OFF || fail == FAIL_ENGINE_DIED ||
	    fail == FAIL_START_TIMEOUT || fail == FAIL_OUT_OF_MEMORY)
		return "logs";
	return "why";
}

void call_refuse(struct call *call, enum fail fail, const char *model, const struct action *action,
                 const char *explain)
{
	struct failure failure;
	char retry_after[16], help[128] = "cotenant ls";

	failure_of(&failure, fail, model, action, explain);
	if (failure.retry_after_s > 0) {
		snprintf(retry_after, sizeof(retry_after), "%d", failure.retry_after_s);
		call_answer_header(call, "Retry-After", retry_after);
	}
	if (fail == FAIL_NEVER_FITS || fail == FAIL_NO_ROOM)
		snprintf(help, sizeof(help), "cotenant memory");
	else if (model)
		snprintf(help, sizeof(help), "cotenant %s %s", verb_for(fail), model);
	call_error(call, failure.status, failure.code, failure.text, help);
}
