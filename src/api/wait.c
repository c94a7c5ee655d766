#include "api/wait.h"

#include <stdio.h>
#include <time.h>

#include "base/units.h"

enum { TOLD_MAX = 8 }; /* clauses of one sentence; who wants more asks for the decisions */

struct telling {
	const struct wait_ask *ask;
	const struct names *names;
	struct buf *out;
	uint32_t told;
};

static const char *name_of(const struct telling *telling, uint32_t model)
{
	const char *name = telling->names->model(telling->names->ctx, model);
	return name ? name : "a model that is gone";
}

/* The time of day here, or nothing. */
static const char *clock_of(char out[16], int64_t at_us)
{
	time_t seconds = (time_t)(at_us / US_PER_S);
	struct tm local;

	if (!localtime_r(&seconds, &local) || strftime(out, 16, "%H:%M:%S", &local) == 0)
		out[0] = '\0';
	return out;
}

static struct buf *clause(struct telling *telling)
{
	buf_printf(telling->out, "%s", telling->told++ ? "; " : "");
	return telling->out;
}

static void tell_going(struct telling *telling, const struct decision *d)
{
	bool drains = d->kind == DECISION_DRAIN;
	struct buf *out = clause(telling);

	buf_printf(out, "%s %s for it (", name_of(telling, d->model), drains ? "was to finish and go" : "went");
	if (drains)
		buf_printf(out, "%u running; ", d->running);
	going_text(d, telling->names, out);
	buf_printf(out, ")");
}

static void tell_release(struct telling *telling, const struct decision *d)
{
	char size[UNITS_TEXT], clock[16];

	buf_printf(clause(telling), "%s held %s until %s", name_of(telling, d->model),
	           units_size(size, d->measured_bytes > 0 ? d->measured_bytes : d->claim_bytes),
	           clock_of(clock, d->at_us + telling->ask->wall_offset_us));
}

static void tell_queue(struct telling *telling, const struct decision *d)
{
	if (d->reason == REASON_SLOTS && d->running)
		buf_printf(clause(telling), "%u ran there and %u waited when it came", d->running,
		           d->queued ? d->queued - 1 : 0);
	else if (d->reason == REASON_BACK_OFF)
		buf_printf(clause(telling), "%s had failed and was not to be tried again yet",
		           name_of(telling, d->model));
}

/* Was that model told to go for the one that the request is for? */
static bool went_for(const struct past *past, const struct wait_ask *ask, const struct decision *released)
{
	const struct decision *d;

	for (uint64_t i = 0; (d = past_decision(past, i)) && d->at_us >= ask->from_us - 600 * US_PER_S; i++)
		if (d->model == released->model && d->sequence < released->sequence &&
		    (d->kind == DECISION_EVICT || d->kind == DECISION_DRAIN || d->kind == DECISION_UNLOAD))
			return d->for_model == ask->model;
	return false;
}

static void tell(struct telling *telling, const struct past *past, const struct decision *d)
{
	const struct wait_ask *ask = telling->ask;
	char time[UNITS_TEXT];

	if ((d->kind == DECISION_EVICT || d->kind == DECISION_DRAIN) && d->for_model == ask->model)
		tell_going(telling, d);
	else if (d->kind == DECISION_RELEASED && went_for(past, ask, d))
		tell_release(telling, d);
	else if (d->kind == DECISION_READY && d->model == ask->model && d->load_us > 0)
		buf_printf(clause(telling), "%s loaded in %s", name_of(telling, d->model),
		           units_duration(time, d->load_us));
	else if (d->kind == DECISION_LOAD_FAILED && d->model == ask->model)
		buf_printf(clause(telling), "a load of %s failed", name_of(telling, d->model));
	else if (d->kind == DECISION_QUEUE && d->request == ask->request)
		tell_queue(telling, d);
}

void wait_text(const struct past *past, const struct wait_ask *ask, const struct names *names, struct buf *out)
{
	struct telling telling = { ask, names, out, 0 };
	const struct decision *d;
	uint64_t first = 0;

	while ((d = past_decision(past, first)) && d->at_us >= ask->from_us)
		first++;
	while (first-- > 0 && telling.told < TOLD_MAX) {
		d = past_decision(past, first);
		if (d->at_us <= ask->until_us)
			tell(&telling, past, d);
	}
}
