#include "api/sentence_parts.h"

#include "base/units.h"

const char *sentence_name(const struct names *names, uint32_t model)
{
	const char *name = model == MODEL_NONE ? NULL : names->model(names->ctx, model);
	return name ? name : "a model that is gone";
}

void sentence_size(struct buf *out, int64_t bytes)
{
	char text[UNITS_TEXT];
	buf_printf(out, "%s", units_size(text, bytes));
}

void sentence_time(struct buf *out, int64_t us)
{
	char text[UNITS_TEXT];
	buf_printf(out, "%s", units_duration(text, us));
}

bool sentence_differ(int64_t one_bytes, int64_t other_bytes)
{
	int64_t apart = one_bytes > other_bytes ? one_bytes - other_bytes : other_bytes - one_bytes;

	return apart > (INT64_C(16) << 20) && apart > other_bytes / 50;
}

const char *sentence_plural(uint32_t count)
{
	return count == 1 ? "" : "s";
}

/* What something waits for or is stopped by. */
const char *sentence_waits_for(uint32_t reason)
{
	static const char *const texts[REASON_COUNT] = {
		[REASON_REQUEST] = "its turn",
		[REASON_ROOM] = "room",
		[REASON_OVERDUE] = "another that has waited longer",
		[REASON_PRESSURE] = "the machine's memory pressure to end",
		[REASON_SLOTS] = "a free slot",
		[REASON_LOADING] = "a load in flight",
		[REASON_UNLOADING] = "memory to come back",
		[REASON_BACK_OFF] = "its next try after a failure",
		[REASON_LIMIT] = "room under memory.limit",
		[REASON_CAPACITY] = "room in the machine's memory",
		[REASON_VIEW] = "room under a cap of the machine",
		[REASON_PINS] = "room that pinned or busy models hold",
		[REASON_MEASURE_FIRST] = "the machine to be its own, to be measured",
		[REASON_STALLED] = "an engine that makes no progress",
		[REASON_SLOW] = "a load that takes too long",
		[REASON_ALONE] = "the others to go",
		[REASON_CONTEXT] = "its larger context",
		[REASON_BLIND] = "the machine's memory to be read again",
		[REASON_SHUTDOWN] = "the daemon, which goes down",
	};
	return reason < REASON_COUNT && texts[reason] ? texts[reason] : NULL;
}

const char *sentence_binds(uint32_t reason)
{
	switch (reason) {
	case REASON_LIMIT:
		return "under memory.limit";
	case REASON_VIEW:
		return "under a cap of the machine";
	case REASON_PINS:
		return "beside what is pinned or busy";
	default:
		return NULL;
	}
}
