/*
 * Compaction, step by step: idle models leave by the way that an operator's
 * unload takes, a thread drops the cache and compacts, and the models are asked
 * for again, the largest first. Whoever asks for one meanwhile has it loaded at
 * once; ours then joins that.
 */
#include "app/shell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/compact.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "io/worker.h"
#include "probe/machine.h"
#include "probe/zones.h"

enum { MODELS_MOST = 64, CHECK_US = 10000000, LARGE_LEAST = 1 << 30 };

struct gone_model {
	uint32_t model;
	int64_t bytes;
};

struct compaction {
	struct shell *shell;
	struct job job;
	void (*done)(void *arg, int code, struct str report); /* NULL: nobody waits */
	void *arg;
	struct gone_model models[MODELS_MOST];
	uint32_t count;
	uint32_t back;  /* of them, asked for again */
	uint32_t open;  /* tickets */
	bool compacted;
	bool amd_stays; /* an engine on an AMD GPU is not to have its pages moved */
	int64_t before_bytes, after_bytes; /* free in large blocks; -1 = not told */
	char missing[256];
};

static void go_on(struct compaction *compaction);

static void on_verdict(void *owner, struct id ticket, const struct action *action)
{
	struct compaction *compaction = owner;
	struct shell *shell = compaction->shell;

	/* A reject closed the ticket; of anything else the arbiter waits to hear the end. */
	if (action->type != ACTION_DONE && action->type != ACTION_REJECT) {
		struct event event = shell_event(EVENT_REQUEST_GONE);
		event.request.request = ticket;
		event.request.fail = FAIL_CANCELLED;
		shell_push(shell, &event);
		ticket_close(shell->tickets, ticket);
	}
	compaction->open--;
	go_on(compaction);
}

static void ask(struct compaction *compaction, uint32_t model, enum request_kind kind)
{
	static const struct ticket_handler handler = { on_verdict };
	struct shell *shell = compaction->shell;
	struct id ticket = ticket_open(shell->tickets, &handler, compaction);

	if (id_is_none(ticket))
		return;
	compaction->open++;
	shell_push_arrived(shell, ticket,
	                   &(struct request_spec){
	                           .sequence = ++shell->next_sequence,
	                           .model = model,
	                           .kind = kind,
	                           .priority = PRIORITY_BATCH,
	                           .weight_milli = 1000,
	                           .flags = kind == REQUEST_UNLOAD ? REQUEST_WISH : REQUEST_NO_EVICT,
	                           .deadline_at_us = INT64_MAX,
	                   });
}

static int64_t large_blocks(void)
{
	return zones_free_2m_bytes(NULL, "", machine_page_bytes(""), NULL, NULL);
}

static void run(struct job *job)
{
	struct compaction *compaction = LIST_ENTRY(job, struct compaction, job);

	compaction->before_bytes = large_blocks();
	compact_now(!compaction->amd_stays, compaction->missing, sizeof(compaction->missing));
	compaction->after_bytes = large_blocks();
}

static void on_compacted(struct job *job)
{
	struct compaction *compaction = LIST_ENTRY(job, struct compaction, job);

	compaction->compacted = true;
	go_on(compaction);
}

static void finish(struct compaction *compaction)
{
	struct shell *shell = compaction->shell;
	char before[UNITS_TEXT], after[UNITS_TEXT];
	struct buf report = BUF_INIT;

	buf_printf(&report, "in blocks of 2 MiB and more: %s free before, %s now; %u model%s left for it and came back",
	           units_size(before, compaction->before_bytes), units_size(after, compaction->after_bytes),
	           compaction->count, compaction->count == 1 ? "" : "s");
	if (compaction->amd_stays)
		buf_append_str(&report, STR("; nothing was moved, because an engine on an AMD GPU stayed loaded"));
	else if (compaction->after_bytes >= 0 && compaction->after_bytes < LARGE_LEAST &&
	         shell->sample.available_bytes >= INT64_C(4) * LARGE_LEAST)
		buf_append_str(&report, STR("; what is still broken up comes back when the machine is started anew"));
	if (compaction->missing[0])
		buf_printf(&report, "; not allowed: %s (needs root)", compaction->missing);
	log_info("memory was compacted: %s", buf_cstr(&report));
	shell->compaction = NULL;
	if (compaction->done && shell->api)
		compaction->done(compaction->arg, compaction->missing[0] ? -EPERM : 0, buf_str(&report));
	free(compaction);
	buf_release(&report);
}

/* After each step: the next. */
static void go_on(struct compaction *compaction)
{
	bool ends = compaction->shell->phase != PHASE_SERVING;

	if (compaction->open)
		return;
	if (!compaction->compacted && !ends) {
		compaction->amd_stays = shell_amd_serves(compaction->shell, false);
		compaction->job = (struct job){ .run = run, .done = on_compacted };
		worker_start(&compaction->shell->loop, &compaction->job);
		return;
	}
	while (!ends && compaction->back < compaction->count && !compaction->open)
		ask(compaction, compaction->models[compaction->back++].model, REQUEST_LOAD);
	if (!compaction->open)
		finish(compaction);
}

static int larger_first(const void *left, const void *right)
{
	const struct gone_model *a = left, *b = right;

	return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : 0;
}

void shell_compact(void *ctx, void (*done)(void *arg, int code, struct str report), void *arg)
{
	struct shell *shell = ctx;
	struct model_view view;

	if (shell->compaction) {
		done(arg, -EBUSY, STR("memory is being compacted already; try: cotenant events"));
		return;
	}
	struct compaction *compaction = xcalloc(1, sizeof(*compaction));
	shell->compaction = compaction;
	compaction->shell = shell;
	compaction->done = done;
	compaction->arg = arg;
	for (uint32_t i = 0; i < arbiter_models(shell->arbiter) && compaction->count < MODELS_MOST; i++) {
		bool leaves = arbiter_model(shell->arbiter, i, &view) && view.state == MODEL_IDLE && !view.pinned &&
		              !(view.spec->flags & MODEL_OUTSIDE);
		if (leaves)
			compaction->models[compaction->count++] = (struct gone_model){ i, view.measured_bytes };
	}
	qsort(compaction->models, compaction->count, sizeof(compaction->models[0]), larger_first);
	for (uint32_t i = 0; i < compaction->count; i++)
		ask(compaction, compaction->models[i].model, REQUEST_UNLOAD);
	go_on(compaction);
}

static int32_t minute_of_day(void)
{
	time_t now = time(NULL);
	struct tm local;

	return localtime_r(&now, &local) ? local.tm_hour * 60 + local.tm_min : -1;
}

void shell_consider_compaction(struct shell *shell)
{
	int64_t now = shell_now_us(), asked = 0;
	struct model_view view;

	if (shell->compaction || shell->conf->compact_when != 0 || now - shell->compact_looked_us < CHECK_US)
		return;
	shell->compact_looked_us = now;
	struct compact_facts facts = {
		.free_2m_bytes = shell->topology.free_2m_bytes,
		.free_bytes = shell->sample.free_bytes,
		.available_bytes = shell->sample.available_bytes,
		.last_us = shell->compacted_us ? now - shell->compacted_us : INT64_MAX,
		.minute = minute_of_day(),
		.quiet = shell->conf->compact_quiet,
		.busy = arbiter_requests_live(shell->arbiter) > 0,
	};
	for (uint32_t i = 0; i < arbiter_models(shell->arbiter); i++) {
		if (!arbiter_model(shell->arbiter, i, &view))
			continue;
		asked = view.last_used_at_us > asked ? view.last_used_at_us : asked;
		facts.busy |= view.state == MODEL_BUSY || view.state == MODEL_LOADING;
	}
	facts.unasked_us = now - asked;
	facts.amd_stays = shell_amd_serves(shell, true);
	if (!compact_is_due(&facts))
		return;
	shell->compacted_us = now;
	shell_compact(shell, NULL, NULL);
}
