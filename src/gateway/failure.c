#include "gateway/failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

enum { RETRY_AFTER_MAX_S = 60, PATH_SHOWN = 160 };

static const char *bound_by(uint32_t reason)
{
	switch (reason) {
	case REASON_LIMIT:
		return " under memory.limit";
	case REASON_VIEW:
		return " under a cap";
	case REASON_PINS:
		return " beside what is pinned or busy";
	default:
		return "";
	}
}

/* The numbers a refusal was made by, as far as they are known. */
static void append_numbers(struct failure *failure, size_t at, const struct decision *decision)
{
	char need[UNITS_TEXT], room[UNITS_TEXT], held[UNITS_TEXT], foreign[UNITS_TEXT],
		capacity[UNITS_TEXT];
	/* What never fits is judged by the least that it takes, against all that others leave. */
	bool never = decision->fail == FAIL_NEVER_FITS;

	if (decision->need_bytes <= 0)
		return;
	snprintf(failure->text + at, sizeof(failure->text) - at,
	         ": it needs %s%s%s, %s%s %s%s (capacity %s, %s held by models, %s by others)",
	         never ? "at least " : "", units_size(need, decision->need_bytes),
	         never && decision->measured_bytes > 0 ? " as measured" : "", never ? "at most " : "",
	         units_size(room, decision->room_bytes > 0 ? decision->room_bytes : 0),
	         never ? "can be free" : "is free", bound_by(decision->reason),
	         units_size(capacity, decision->capacity_bytes),
	         units_size(held, decision->held_bytes),
	         units_size(foreign, decision->foreign_bytes));
	size_t end = at + strlen(failure->text + at);
	if (never)
		snprintf(failure->text + end, sizeof(failure->text) - end, "; %s", fail_never_remedy(decision->reason));
}

static size_t text_end(int written, size_t bytes)
{
	if (written < 0)
		return 0;
	return (size_t)written < bytes ? (size_t)written : bytes - 1;
}

static int retry_after(const struct fail_facts *kind, const struct action *action)
{
	if (!action || action->type != ACTION_REJECT || action->retry_after_us <= 0)
		return kind->retry_after_s;
	int64_t seconds = (action->retry_after_us + US_PER_S - 1) / US_PER_S;
	return seconds < RETRY_AFTER_MAX_S ? (int)seconds : RETRY_AFTER_MAX_S;
}

void failure_of(struct failure *out, enum fail fail, const char *model,
                const struct action *action, const char *explain)
{
	const struct fail_facts *kind = fail_facts(fail);
	char name[160];

	*out = (struct failure){ .status = kind->status, .code = kind->code };
	out->retry_after_s = retry_after(kind, action);
	if (model)
		snprintf(name, sizeof(name), "model '%s'", model);
	else
		snprintf(name, sizeof(name), "the model");
	int written = snprintf(out->text, sizeof(out->text), "%s%s%s", kind->before, name,
	                       kind->after);
	size_t end = text_end(written, sizeof(out->text));
	if (explain && *explain)
		snprintf(out->text + end, sizeof(out->text) - end, ": %s", explain);
	else if (action && (fail == FAIL_NO_ROOM || fail == FAIL_NEVER_FITS))
		append_numbers(out, end, &action->decision);
}

void failure_set(struct failure *out, int status, const char *code, const char *format, ...)
{
	va_list args;

	*out = (struct failure){ .status = status, .code = code };
	va_start(args, format);
	vsnprintf(out->text, sizeof(out->text), format, args);
	va_end(args);
}

static struct api_error error_of(const struct failure *failure)
{
	return (struct api_error){
		.status = failure->status,
		.code = failure->code,
		.message = str_from(failure->text),
		.param = failure->param,
		.prompt_tokens = failure->prompt_tokens,
		.context_tokens = failure->context_tokens,
	};
}

/* The engine's sentence comes first, and on Anthropic's paths that API's: clients know them by their words. */
void failure_of_context(struct failure *out, enum api api, int64_t prompt_tokens, int64_t context_tokens)
{
	long long prompt = prompt_tokens, context = context_tokens;
	char as_anthropic[80] = "";

	if (api == API_ANTHROPIC)
		snprintf(as_anthropic, sizeof(as_anthropic), "prompt is too long: %lld tokens > %lld maximum; ", prompt, context);
	failure_set(out, 400, "exceed_context_size_error",
	            "request (%lld tokens) exceeds the available context size (%lld tokens), try increasing it; %s"
	            "%lld is the largest that can be had now", prompt, context, as_anthropic, context);
	out->prompt_tokens = prompt_tokens;
	out->context_tokens = context_tokens;
}

const char *allow_text(char out[ALLOW_TEXT], const char *methods)
{
	snprintf(out, ALLOW_TEXT, "%s%s, OPTIONS", methods, str_starts(str_from(methods), "GET") ? ", HEAD" : "");
	return out;
}

void failure_of_method(struct failure *out, struct str path, const char *methods, struct str method)
{
	path.length = path.length < PATH_SHOWN ? path.length : PATH_SHOWN;
	failure_set(out, 405, "method_not_allowed", "%.*s takes %s, not %.*s", STR_ARG(path), methods,
	            STR_ARG(method));
	allow_text(out->allow, methods);
}

void failure_body(struct buf *out, enum api api, const struct failure *failure)
{
	struct api_error error = error_of(failure);
	api_error_body(out, api, &error);
}

void failure_event(struct buf *out, enum api api, enum stream_form form, bool between_events,
                   const struct failure *failure)
{
	struct api_error error = error_of(failure);
	api_error_event(out, api, form, between_events, &error);
}
