/* Changed here, doc/errors.md follows: build/tests/unit/core/errors-docs > doc/errors.md */
#include "core/fail.h"

#include "core/action.h"

static const struct fail_facts table[FAIL_COUNT] = {
	[FAIL_NONE] = { "none", 500, "internal_error", 0, "the request to ", " ended without a reason",
		"no reason given",
		"A fault of ours." },
	[FAIL_UNKNOWN_MODEL] = { "unknown_model", 404, "model_not_found", 0, "", " does not exist",
		"there is no such model",
		"No model, alias or pattern has this name; the nearest names are told." },
	[FAIL_NOT_LOADED] = { "not_loaded", 409, "not_loaded", 0, "", " is not loaded, and this request does not load it",
		"it is not loaded and not to be loaded by a request",
		"A request that only looks never loads, and `autoload: false` leaves loading to `cotenant load`." },
	[FAIL_QUEUE_FULL] = { "queue_full", 429, "queue_full", 5, "the queue of ", " is full",
		"its queue is full",
		"As many requests wait for the model as its `queue` allows." },
	[FAIL_TABLE_FULL] = { "table_full", 429, "too_many_requests", 5, "", " was not asked: too many requests are waiting",
		"too many requests wait already",
		"`limits.requests` are under way." },
	[FAIL_NEVER_FITS] = { "never_fits", 507, "never_fits", 0, "", " will never fit this machine",
		"it can never fit on this machine",
		"The least that the model takes is more than the machine, or `memory.limit`, can give beside what is pinned: of the estimate seven tenths, once two idle samples of a life agreed what they showed, until a reload has it measured anew. A prompt that is too long for it is `exceed_context_size_error`, below." },
	[FAIL_NO_ROOM] = { "no_room", 503, "no_room", 10, "there is no room for ", " now",
		"it cannot fit now",
		"Nothing that may go would make enough room. The numbers are in the message." },
	[FAIL_LOAD_FAILED] = { "load_failed", 502, "load_failed", 0, "", " could not be loaded",
		"its engine ended while loading",
		"The engine ended before it was ready, or its file cannot be used. The message has its exit status or signal and the line of its log that tells most." },
	[FAIL_BACKING_OFF] = { "backing_off", 503, "backing_off", 5, "", " failed just now and is not tried again yet",
		"it failed just now and waits for its next try",
		"It failed more than once; the next try is due at Retry-After. `cotenant load` tries at once." },
	[FAIL_ENGINE_DIED] = { "engine_died", 502, "engine_died", 1, "the engine of ", " ended during the request",
		"its engine ended",
		"The engine ended, or broke off its answer, while it worked on this request." },
	[FAIL_DEADLINE] = { "deadline", 504, "deadline", 0, "", " did not answer before the deadline",
		"its deadline passed",
		"X-Cotenant-Deadline passed before the first byte of an answer." },
	[FAIL_CANCELLED] = { "cancelled", 409, "cancelled", 0, "the request to ", " was cancelled by an operator",
		"an operator cancelled it",
		"By `cotenant cancel`, or `cotenant stop` of its model." },
	[FAIL_CLIENT_GONE] = { "client_gone", 499, "client_gone", 0, "the client of ", " left",
		"its client left",
		"In history and metrics only." },
	[FAIL_DRAINING] = { "draining", 503, "draining", 5, "", " takes no new requests: it is going down",
		"the model or the daemon goes down",
		"The daemon ends, or the model's unload passed its `drain_timeout`." },
	[FAIL_WISH_REFUSED] = { "wish_refused", 409, "busy_or_pinned", 0, "", " is busy or pinned and stays loaded",
		"it is busy or pinned",
		"A key of role `use` may only ask for an unload that takes nothing from anybody." },
	[FAIL_MODEL_REMOVED] = { "model_removed", 404, "model_removed", 0, "", " was removed from the configuration",
		"the model is no longer configured",
		"A reload took the model away while the request waited or ran." },
	[FAIL_EMERGENCY] = { "emergency", 503, "emergency", 10, "", " was ended to save the machine's memory",
		"it was ended to save the machine's memory",
		"Memory was nearly gone, and nothing idle was left to end." },
	[FAIL_START_TIMEOUT] = { "start_timeout", 504, "start_timeout", 10, "", " did not become ready in time",
		"its load stood still, or took too long",
		"The load made no progress for `stall_timeout`, or took longer than `start_timeout`, and was given up. The message says which." },
	[FAIL_UNREACHABLE] = { "unreachable", 503, "unreachable", 5, "the server of ", " cannot be reached",
		"its server cannot be reached",
		"A server that is not ours (`url:`) is away. It is used again as soon as it is back." },
	[FAIL_OUT_OF_MEMORY] = { "out_of_memory", 502, "out_of_memory", 10, "the engine of ", " ran out of memory",
		"its engine ran out of memory",
		"The kernel killed the engine for lack of memory (of the machine, or under a control group's limit), or it gave up because the machine or its device gave it none. The message tells which." },
	[FAIL_BLIND] = { "blind", 503, "memory_unread", 10, "", " is not loaded while nobody knows what room there is",
		"the machine's memory cannot be read",
		"A file or a driver that tells of the machine's memory gives no answer, or no sense; the message names it. What is loaded goes on serving." },
};

const struct fail_facts *fail_facts(enum fail fail)
{
	return &table[(unsigned)fail < FAIL_COUNT ? fail : FAIL_NONE];
}

const char *fail_never_remedy(unsigned reason)
{
	switch (reason) {
	case REASON_LIMIT:
		return "raise memory.limit, or have it take less (context, slots, kv_type)";
	case REASON_VIEW:
		return "raise that cap, or have it take less (context, slots, kv_type)";
	default:
		return "have it take less (context, slots, kv_type), or use a smaller quantisation";
	}
}
