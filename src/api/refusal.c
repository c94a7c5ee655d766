#include "api/refusal.h"

#include <stdio.h>
#include <string.h>

#include "gateway/failure.h"

static bool is_of_engine(enum fail fail)
{
	return fail == FAIL_LOAD_FAILED || fail == FAIL_BACKING_OFF || fail == FAIL_ENGINE_DIED ||
	       fail == FAIL_START_TIMEOUT || fail == FAIL_OUT_OF_MEMORY;
}

/* The command that shows more of why, or mends it. */
static void write_help(enum fail fail, const char *model, bool has_log, char *out, size_t bytes)
{
	if (fail == FAIL_NEVER_FITS || fail == FAIL_NO_ROOM || fail == FAIL_BLIND)
		snprintf(out, bytes, "cotenant memory");
	else if (!model)
		snprintf(out, bytes, "cotenant ls");
	else if (is_of_engine(fail) && has_log)
		snprintf(out, bytes, "cotenant logs %s", model);
	else if (is_of_engine(fail))
		snprintf(out, bytes, "cotenant show %s", model);
	else
		snprintf(out, bytes, "cotenant why %s", model);
}

void call_refuse(struct call *call, enum fail fail, const char *model, const struct action *action,
                 const char *explain, bool has_log)
{
	struct failure failure;
	char retry_after[16], help[300];

	failure_of(&failure, fail, model, action, explain);
	if (failure.retry_after_s > 0) {
		snprintf(retry_after, sizeof(retry_after), "%d", failure.retry_after_s);
		call_answer_header(call, "Retry-After", retry_after);
	}
	write_help(fail, model, has_log, help, sizeof(help));
	/* What is known may say itself what to do. */
	bool has_own = strstr(failure.text, "; try: ") != NULL;
	call_error(call, failure.status, failure.code, failure.text, has_own ? NULL : help);
}
