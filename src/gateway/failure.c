#include "gateway/failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/units.h"

enum { RETRY_AFTER_MAX_S = 60 };

struct kind {
	int status;
	const char *code;
	int retry_after_s; /* where the arbiter names no time; 0: waiting does not help */
	const char *before, *after; /* around "model 'x'" */
};

static const struct kind kinds[FAIL_COUNT] = {
	[FAIL_NONE] = { 500, "internal_error", 0, "the request to ", " ended without a reason" },
	[FAIL_UNKNOWN_MODEL] = { 404, "model_not_found", 0, "", " does not exist" },
	[FAIL_NOT_LOADED] = { 409, "not_loaded", 0, "",
	                      " is not loaded, and this request does not load it" },
	[FAIL_QUEUE_FULL] = { 429, "queue_full", 5, "the queue of ", " is full" },
	[FAIL_TABLE_FULL] = { 429, "too_many_requests", 5,
	                      "", " was not asked: too many requests are waiting" },
	[FAIL_NEVER_FITS] = { 507, "never_fits", 0, "", " will never fit this machine" },
	[FAIL_NO_ROOM] = { 503, "no_room", 10, "there is no room for ", " now" },
	[FAIL_LOAD_FAILED] = { 502, "load_failed", 0, "", " could not be loaded" },
	[FAIL_BACKING_OFF] = { 503, "backing_off", 5,
	                       "", " failed just now and is not tried again yet" },
	[FAIL_ENGINE_DIED] = { 502, "engine_died", 1, "the engine of ", " ended during the request" },
	[FAIL_DEADLINE] = { 504, "deadline", 0, "", " did not answer before the deadline" },
	[FAIL_CANCELLED] = { 409, "cancelled", 0,
	                     "the request to ", " was cancelled by an operator" },
	[FAIL_CLIENT_GONE] = { 499, "client_gone", 0, "the client of ", " left" },
	[FAIL_DRAINING] = { 503, "draining", 5, "", " takes no new requests: it is going down" },
	[FAIL_WISH_REFUSED] = { 409, "busy_or_pinned", 0, "", " is busy or pinned and stays loaded" },
	[FAIL_MODEL_REMOVED] = { 404, "model_removed", 0, "", " was removed from the configuration" },
	[FAIL_EMERGENCY] = { 503, "emergency", 10, "", " was ended to save the machine's memory" },
	[FAIL_START_TIMEOUT] = { 504, "start_timeout", 10, "", " did not become ready in time" },
	[FAIL_UNREACHABLE] = { 503, "unreachable", 5, "the server of ", " cannot be reached" },
};

static const char *bound_by(uint32_t reason)
{
	return reason == REASON_LIMIT ? " under memory.limit" : reason == REASON_VIEW ? " under a cap" : "";
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
	         ": it needs %s%s, %s%s %s%s (capacity %s, %s held by models, %s by others)",
	         never ? "at least " : "", units_size(need, decision->need_bytes), never ? "at most " : "",
	         units_size(room, decision->room_bytes > 0 ? decision->room_bytes : 0),
	         never ? "can be free" : "is free", bound_by(decision->reason),
	         units_size(capacity, decision->capacity_bytes),
	         units_size(held, decision->held_bytes),
	         units_size(foreign, decision->foreign_bytes));
}

static size_t text_end(int written, size_t bytes)
{
	if (written < 0)
		return 0;
	return (size_t)written < bytes ? (size_t)written : bytes - 1;
}

static int retry_after(const struct kind *kind, const struct action *action)
{
	if (!action || action->type != ACTION_REJECT)
		return kind->retry_after_s;
	if (action->retry_after_us <= 0)
		return 0;
	int64_t seconds = (action->retry_after_us + US_PER_S - 1) / US_PER_S;
	return seconds < RETRY_AFTER_MAX_S ? (int)seconds : RETRY_AFTER_MAX_S;
}

void failure_of(struct failure *out, enum fail fail, const char *model,
                const struct action *action, const char *explain)
{
	const struct kind *kind = &kinds[fail];
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
	};
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
