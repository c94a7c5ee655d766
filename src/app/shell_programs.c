/*
 * Who else is on this machine: a look at every process, which takes a few
 * milliseconds. So it is done for those who ask, away from the loop, and an
 * answer serves for some seconds.
 */
#include "app/shell.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "io/worker.h"
#include "probe/reading.h"

enum { FRESH_US = 5000000, LATE_MS = 5000 };

struct asker {
	struct list node;
	void (*done)(void *arg, const struct programs *programs);
	void *arg;
};

struct look {
	struct job job;
	uv_timer_t late;
	struct reading reading;
	struct shell *shell;
	struct topology topology;
	struct programs_skip skip;
	struct programs programs;
};

static void answer_all(struct shell *shell, const struct programs *programs)
{
	while (!list_is_empty(&shell->programs_askers)) {
		struct asker *asker = LIST_ENTRY(shell->programs_askers.next, struct asker, node);
		list_remove(&asker->node);
		if (shell->api)
			asker->done(asker->arg, programs);
		free(asker);
	}
}

static void run(struct job *job)
{
	struct look *look = LIST_ENTRY(job, struct look, job);

	reading_begin(&look->reading);
	programs_read("", &look->topology, &look->skip, &look->programs);
	reading_begin(NULL);
}

static void on_late_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* A process, or a driver, that gives no answer: those who ask get what was known before. */
static void on_late(uv_timer_t *timer)
{
	struct look *look = timer->data;
	struct shell *shell = look->shell;

	reading_tell(&look->reading, shell->programs_blocked, sizeof(shell->programs_blocked));
	log_warn("who else is on the machine cannot be told: %s gives no answer", shell->programs_blocked);
	answer_all(shell, shell->programs);
}

static void done(struct job *job)
{
	struct look *look = LIST_ENTRY(job, struct look, job);
	struct shell *shell = look->shell;

	*shell->programs = look->programs;
	shell->programs_at_us = shell_now_us();
	shell->programs_looking = false;
	shell->programs_blocked[0] = '\0';
	uv_close((uv_handle_t *)&look->late, on_late_closed);
	answer_all(shell, shell->programs);
}

/* Engines are instances of their own, we are the system's. */
static void skip_ours(const struct shell *shell, struct programs_skip *skip)
{
	skip->self = getpid();
	skip->group[skip->count++] = getpgrp();
	for (uint32_t i = 0; i < shell->instances_used && skip->count < PROGRAMS_SKIP_MAX; i++) {
		struct owner owner;
		if (shell->instances[i].live &&
		    supervisor_owner(shell->supervisor, shell->instances[i].id, &owner))
			skip->group[skip->count++] = owner.pgid ? owner.pgid : owner.pid;
	}
}

static void look_now(struct shell *shell)
{
	struct look *look = xcalloc(1, sizeof(*look));

	look->job = (struct job){ .run = run, .done = done };
	look->shell = shell;
	look->topology = shell->topology;
	skip_ours(shell, &look->skip);
	shell->programs_looking = true;
	reading_init(&look->reading);
	uv_timer_init(&shell->loop, &look->late);
	look->late.data = look;
	uv_timer_start(&look->late, on_late, LATE_MS, 0);
	uv_unref((uv_handle_t *)&look->late);
	worker_start(&shell->loop, &look->job);
}

void shell_ask_programs(void *ctx, void (*asker_done)(void *arg, const struct programs *programs), void *arg)
{
	struct shell *shell = ctx;

	if (shell->programs_blocked[0]) {
		asker_done(arg, shell->programs);
		return;
	}
	if (shell->programs_at_us && shell_now_us() - shell->programs_at_us < FRESH_US) {
		asker_done(arg, shell->programs);
		return;
	}
	struct asker *asker = xmalloc(sizeof(*asker));
	asker->done = asker_done;
	asker->arg = arg;
	list_append(&shell->programs_askers, &asker->node);
	if (!shell->programs_looking)
		look_now(shell);
}

void shell_open_programs(struct shell *shell)
{
	list_init(&shell->programs_askers);
	shell->programs = xcalloc(1, sizeof(*shell->programs));
}

void shell_close_programs(struct shell *shell)
{
	answer_all(shell, shell->programs);
	free(shell->programs);
}
